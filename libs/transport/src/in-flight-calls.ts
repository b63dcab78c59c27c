import { isJsonObject, ToolError, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS } from '@toolfleet/contracts/subjects';
import { InFlight, type Clock } from '@toolfleet/resilience';
import type { IncomingHeaders } from './codec.js';
import type { EndpointContext } from './endpoint.js';

/** When a running exec call is acknowledged: well before the caller's 250 ms, late enough that fast tools send no acknowledgement. */
const ACK_AFTER_MS = 150;
const SWEEP_MS = 20;

/** A message being served. */
interface RunningCall {
  readonly context: EndpointContext;
  /** Whether it is acknowledged once it takes long. */
  acknowledges: boolean;
}

/** Messages being served. One timer acknowledges the long ones and aborts those past their deadline; cancels find calls by id. */
export class InFlightCalls {
  readonly #running = new InFlight<RunningCall>();
  #sweeping = false;

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.#running.size;
  }

  /** Adds a message; the returned function removes it. */
  begin(context: EndpointContext, acknowledges: boolean): () => void {
    const end = this.#running.add({ context, acknowledges });
    if (!this.#sweeping) this.#schedule();
    return end;
  }

  /** Aborts every attempt of a call, or one attempt. */
  cancel(callId: string, attempt?: number): void {
    for (const { context } of this.#running) {
      if (context.callId !== callId) continue;
      if (attempt !== undefined && context.headers.get(HEADERS.attempt) !== String(attempt)) continue;
      context.abort(new ToolError('CANCELLED'));
    }
  }

  #schedule(): void {
    this.#sweeping = true;
    this.clock.after(SWEEP_MS, () => {
      const now = this.clock.monotonic();
      for (const call of this.#running) {
        const { context } = call;
        const tookMs = now - context.startedAt;
        if (call.acknowledges && tookMs >= ACK_AFTER_MS) {
          call.acknowledges = false;
          context.ack();
        }
        if (tookMs >= context.remainingMs) context.abort(new ToolError('DEADLINE_EXCEEDED'));
      }
      if (this.#running.size > 0) this.#schedule();
      else this.#sweeping = false;
    });
  }
}

/** How long replies are kept: a broker that stood still delivers copies seconds after their call has ended. */
const KEPT_MS: Milliseconds = 10_000;
const MAX_KEPT = 10_000;
/** Of all kept replies. */
const MAX_KEPT_TOTAL_BYTES = 32 * 1024 * 1024;
/** Longest reply that is kept for copies of its call; copies of a call with a longer reply get none. */
const MAX_KEPT_BYTES = 16 * 1024;

/** One exec call that is running or has just ended, whatever the number of its copies. */
export interface ServedCall {
  /** Reply subject of the newest copy. */
  reply: string;
  fence: number;
  /** Sends the reply to a copy that arrived after it. */
  repeat?: ((reply: string) => void) | undefined;
  /** Size of the reply that `repeat` keeps. */
  keptBytes: number;
  /** On the monotonic clock; 0 while the call runs. */
  endedAt: Milliseconds;
}

/**
 * Finds copies of exec calls. A caller without an acknowledgement sends its message again with a raised fence, and queued copies would
 * each run. For journalled calls the journal decides which copy runs; of all other calls the first copy runs and the others share its
 * reply. A message with the same fence is not a copy: it starts the call again.
 */
export class ResentCalls {
  readonly #running = new Map<string, ServedCall>();
  /** In the order in which they ended. */
  readonly #ended = new Map<string, ServedCall>();
  #keptBytes = 0;

  constructor(private readonly clock: Clock) {}

  /** Identity of a call, the same for all its copies; undefined for messages that are never sent again automatically. */
  callKey(subject: string, reply: string, headers: IncomingHeaders, body: unknown): string | undefined {
    const callId = headers.get(HEADERS.callId);
    if (callId === undefined || reply === '' || !isJsonObject(body) || body['journalled'] !== false) return undefined;
    // The inbox identifies the caller: after a takeover another gateway may send the same call and needs its own reply.
    return `${subject} ${reply.slice(0, reply.lastIndexOf('.'))} ${callId} ${headers.get(HEADERS.attempt) ?? ''}`;
  }

  /** The call that this message is a copy of, with its reply redirected to the copy; undefined when it is not a copy. */
  original(key: string, fence: number, reply: string): ServedCall | undefined {
    this.#forget();
    const known = this.#running.get(key) ?? this.#ended.get(key);
    if (!known || fence <= known.fence) return undefined;
    known.fence = fence;
    known.reply = reply;
    return known;
  }

  begin(key: string, fence: number, reply: string): ServedCall {
    const call: ServedCall = { reply, fence, keptBytes: 0, endedAt: 0 };
    this.#running.set(key, call);
    return call;
  }

  /** @param bytes size of the reply; undefined when none was sent, so that a copy has to run */
  end(key: string, call: ServedCall, bytes: number | undefined, repeat: (reply: string) => void): void {
    if (this.#running.get(key) === call) this.#running.delete(key);
    if (bytes === undefined) return;
    call.endedAt = this.clock.monotonic();
    if (bytes <= MAX_KEPT_BYTES) {
      call.repeat = repeat;
      call.keptBytes = bytes;
      this.#keptBytes += bytes;
    }
    const before = this.#ended.get(key);
    if (before) this.#drop(key, before);
    this.#ended.set(key, call);
  }

  #forget(): void {
    const before = this.clock.monotonic() - KEPT_MS;
    for (const [key, call] of this.#ended) {
      const fits = this.#ended.size <= MAX_KEPT && this.#keptBytes <= MAX_KEPT_TOTAL_BYTES;
      if (call.endedAt > before && fits) return;
      this.#drop(key, call);
    }
  }

  #drop(key: string, call: ServedCall): void {
    this.#ended.delete(key);
    this.#keptBytes -= call.keptBytes;
    // Dead tables of the map would keep the reply; see `InFlight`.
    call.repeat = undefined;
  }
}
