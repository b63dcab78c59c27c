import { isJsonObject, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { IncomingHeaders } from './headers.js';

/** Answers are kept this long: four rounds of sending again. */
const KEPT_MS: Milliseconds = 1_000;
const MAX_KEPT = 10_000;
/** Longest answer that is kept for copies of the call; to copies of one with a longer answer nothing is sent. */
const MAX_KEPT_BYTES = 16 * 1024;

/** One exec call in work or just answered, whatever the number of its copies. */
export interface ServedCall {
  /** Where its answer goes: the reply subject of the newest copy. */
  reply: string;
  fence: number;
  /** Sends the answer to a copy that came too late for it. */
  repeat?: (reply: string) => void;
  endedAt: Milliseconds;
}

/**
 * Copies of exec calls. A caller without an acknowledgement sends its message again under a raised fence, and copies that wait
 * in line would each run. For journalled calls the journal decides which copy runs; of any other, the first one runs and
 * the others share its answer. A message with the same fence is no copy: it begins the call anew.
 */
export class ResentCalls {
  readonly #running = new Map<string, ServedCall>();
  /** In order of their ends. */
  readonly #ended = new Map<string, ServedCall>();

  constructor(private readonly clock: Clock) {}

  /** Identity of a call, the same for all its copies; undefined for messages that are never sent again by themselves. */
  keyOf(subject: string, reply: string, headers: IncomingHeaders, body: unknown): string | undefined {
    const callId = headers.get(HEADERS.callId);
    if (callId === undefined || reply === '' || !isJsonObject(body) || body['journalled'] !== false) return undefined;
    // The inbox belongs to one caller: after a take-over another gateway may send the same call, and needs an answer.
    return `${subject} ${reply.slice(0, reply.lastIndexOf('.'))} ${callId} ${headers.get(HEADERS.attempt) ?? ''}`;
  }

  /** The call this message is a copy of, its answer directed to the copy; undefined when it is none. */
  original(key: string, fence: number, reply: string): ServedCall | undefined {
    this.#forget();
    const known = this.#running.get(key) ?? this.#ended.get(key);
    if (!known || fence <= known.fence) return undefined;
    known.fence = fence;
    known.reply = reply;
    return known;
  }

  begin(key: string, fence: number, reply: string): ServedCall {
    const call: ServedCall = { reply, fence, endedAt: 0 };
    this.#running.set(key, call);
    return call;
  }

  /** @param bytes size of the answer; undefined when none was sent, so that a copy has to run */
  end(key: string, call: ServedCall, bytes: number | undefined, repeat: (reply: string) => void): void {
    if (this.#running.get(key) === call) this.#running.delete(key);
    if (bytes === undefined) return;
    call.endedAt = this.clock.monotonic();
    if (bytes <= MAX_KEPT_BYTES) call.repeat = repeat;
    this.#ended.delete(key);
    this.#ended.set(key, call);
  }

  #forget(): void {
    const before = this.clock.monotonic() - KEPT_MS;
    for (const [key, { endedAt }] of this.#ended) {
      if (endedAt > before && this.#ended.size <= MAX_KEPT) return;
      this.#ended.delete(key);
    }
  }
}
