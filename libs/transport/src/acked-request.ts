/**
 * The caller's side of the exec hop. A queue group keeps choosing a member that hangs, so a missing executor must be noticed long
 * before the deadline: every send waits 250 ms (longer for a large message) for an acknowledgement (a result counts as one), then the
 * message goes to the group again with a raised fence. Raising the fence is refused once a member has claimed a non-idempotent call; then
 * the caller can only wait. Each send has its own reply token, so the fence of a late reply is known: with a journal an older fence can no longer finish
 * and its replies are dropped; without one the call is idempotent and any result is good. A call with an executor that promises to report
 * (`silentMs`) also goes to the group again when the reports stop.
 */
import { ToolError, type CallProgress, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { onAbort } from '@toolfleet/resilience';
import {
  decodeReply,
  encode,
  LARGE_MESSAGE,
  parseLenient,
  readProgress,
  type IncomingMessage,
  type OutgoingHeaders,
} from './codec.js';
import { advance, type AckEvent, type AckState } from './ack-state.js';
import { noResponders, subjectClass, type ClientInternals, type PendingRequest } from './pending-requests.js';

/** Wait for an acknowledgement before the message is sent again; a healthy executor acknowledges in about 1 ms. */
const ACK_TIMEOUT_MS = 250;
/** Longer by this for each KiB of a message: it is transferred and parsed before it is acknowledged, and so is each copy. */
const ACK_MS_PER_KIB = 1;
/** Larger results are parsed in turns of their tenants. Errors are smaller. */
const LARGE_REPLY = 256 * 1024;

/** The fields of an exec message that this protocol reads; the others are passed through. */
export interface AckedMessage {
  call_id: string;
  attempt: number;
  fence: number;
  journalled: boolean;
  context?: { tenant_id: string };
}

/** Callbacks and context of one call. */
export interface AckedOptions {
  /** Raises the fence of the call and returns it, or undefined when that is refused (claimed and not idempotent). */
  bumpFence: (fence: number) => Promise<number | undefined>;
  /** Called when an executor has accepted the call; again if it was sent again after that. */
  onAck?: () => void;
  /** Called when no executor has accepted the call within 250 ms of a send. */
  onAckMissed?: () => void;
  /** Called with progress reports, never after the result; without it the executor sends none. */
  onProgress?: (progress: CallProgress) => void;
  /**
   * The executor reports progress more often than this, and another one can go on with the call: without a report for so long it is gone.
   * Needs `onProgress`.
   */
  silentMs?: Milliseconds | undefined;
  signal?: AbortSignal;
  headers?: OutgoingHeaders;
}

/** One exec call with as many sends as it needs. */
export class AckedRequest implements PendingRequest {
  dueAt: number;
  readonly #deadlineAt: number;
  readonly #fences = new Map<string, number>();
  #state: AckState;
  #ackTimeoutMs = ACK_TIMEOUT_MS;
  /** Ends the wait for the signal of the caller. */
  #leave: (() => void) | undefined;

  constructor(
    private readonly client: ClientInternals,
    private readonly subject: string,
    private readonly message: AckedMessage,
    remainingMs: Milliseconds,
    private readonly options: AckedOptions,
    private readonly resolve: (value: unknown) => void,
    private readonly reject: (error: ToolError) => void,
  ) {
    this.#state = { kind: 'sent', fence: message.fence, acked: false };
    const now = client.clock.monotonic();
    this.#deadlineAt = now + remainingMs;
    this.dueAt = Math.min(this.#deadlineAt, now + this.#ackTimeoutMs);
    const { signal } = options;
    if (signal)
      this.#leave = onAbort(signal, () => this.#abandon(new ToolError('CANCELLED', { cause: signal.reason })));
  }

  get #tenantId(): string {
    return this.message.context?.tenant_id ?? '';
  }

  /** Sends the message with the current fence. */
  send(): void {
    const remainingMs = this.#deadlineAt - this.client.clock.monotonic();
    const { fence } = this.#state;
    const message = fence === this.message.fence ? this.message : { ...this.message, fence };
    const token = this.client.pending.add(this);
    this.#fences.set(token, fence);
    try {
      const body = encode(message);
      this.#ackTimeoutMs = ACK_TIMEOUT_MS + ACK_MS_PER_KIB * (body.length >> 10);
      this.#wait();
      this.client.link.publish(this.subject, body, {
        reply: this.client.replySubject(token),
        headers: this.client.headers(remainingMs, {
          [HEADERS.callId]: message.call_id,
          [HEADERS.attempt]: String(message.attempt),
          [HEADERS.fence]: String(message.fence),
          // The executor parses it in turns of its tenants.
          ...(body.length > LARGE_MESSAGE && { [HEADERS.tenant]: this.#tenantId }),
          ...(this.options.onProgress && { [HEADERS.progress]: this.client.progressSubject(token) }),
          ...this.options.headers,
        }),
      });
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  replied(token: string, message: IncomingMessage): void {
    const isCurrent = this.#fences.get(token) === this.#state.fence;
    if (message.isNoResponders) {
      if (isCurrent && !this.#state.acked) this.fail(noResponders(this.subject, this.client.metrics));
      return;
    }
    if (message.size === 0 && message.headers?.get(HEADERS.ack) !== undefined) {
      if (isCurrent) this.#advance('acknowledged');
      return;
    }
    if (!isCurrent && this.message.journalled) return;
    if (message.size > LARGE_REPLY) {
      // Nothing is sent again for a result that has arrived and waits for its turn.
      this.#end();
      const turn = this.client.turns.next(this.#tenantId);
      const read = (): void => this.resolve(decodeReply(message));
      return void turn
        .then(read)
        .catch(this.reject)
        .finally(() => message.free?.());
    }
    try {
      const value = decodeReply(message);
      this.#end();
      this.resolve(value);
    } catch (error) {
      // An error in reply to an older send says nothing about the current one.
      if (isCurrent) this.fail(error as ToolError);
    }
  }

  progressed(token: string, message: IncomingMessage): void {
    const isCurrent = this.#fences.get(token) === this.#state.fence;
    if (!isCurrent && this.message.journalled) return;
    // An executor that reports progress has accepted the call.
    if (isCurrent) this.#advance('acknowledged');
    const progress = readProgress(parseLenient(message));
    if (progress) this.options.onProgress?.(progress);
  }

  due(): void {
    const now = this.client.clock.monotonic();
    if (now >= this.#deadlineAt) {
      return this.#abandon(
        new ToolError('DEADLINE_EXCEEDED', { message: `No result on ${this.subject} before the deadline` }),
      );
    }
    if (this.#state.kind === 'held') this.#advance('silent');
    else if (this.#state.kind === 'sent') this.#advance('overdue');
    else return;
    this.client.metrics?.natsAckMissed.inc({ subject_class: subjectClass(this.subject) });
    this.options.onAckMissed?.();
    void this.#resend();
  }

  fail(error: ToolError): void {
    if (this.#state.kind === 'ended') return;
    this.#end();
    this.reject(error);
  }

  async #resend(): Promise<void> {
    // While the journal is unavailable, no fence can be raised.
    const raised = await this.options.bumpFence(this.#state.fence).catch(() => 'not raised' as const);
    this.#advance(typeof raised === 'number' ? { raised } : (raised ?? 'claimed'));
    // While disconnected, wait for the next round.
    if (this.#state.kind !== 'sent' || raised === 'not raised' || !this.client.link.connected) return;
    try {
      this.send();
    } catch (error) {
      this.fail(error as ToolError);
    }
  }

  #advance(event: AckEvent): void {
    const before = this.#state;
    this.#state = advance(before, event, this.message.journalled);
    if (event !== 'ended') this.#wait();
    if (this.#state.acked && !before.acked) this.options.onAck?.();
  }

  /** Begins to wait for the next expected event. */
  #wait(): void {
    const { kind } = this.#state;
    const waitMs = kind === 'sent' ? this.#ackTimeoutMs : kind === 'held' ? this.options.silentMs : undefined;
    this.dueAt = Math.min(this.#deadlineAt, this.client.clock.monotonic() + (waitMs ?? Number.POSITIVE_INFINITY));
  }

  /** Gives up, and tells executors to stop the work. */
  #abandon(error: ToolError): void {
    if (this.#state.kind === 'ended') return;
    this.fail(error);
    if (!this.client.link.connected) return;
    this.client.link.publish(
      SUBJECTS.execCancel,
      encode({ call_id: this.message.call_id, attempt: this.message.attempt }),
    );
  }

  #end(): void {
    this.#advance('ended');
    for (const token of this.#fences.keys()) this.client.pending.remove(token);
    this.#leave?.();
  }
}
