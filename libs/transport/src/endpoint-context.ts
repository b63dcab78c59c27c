import { ToolError, type CallProgress, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import { NO_HEADERS, type IncomingHeaders } from './headers.js';
import type { NatsLink } from './nats-connection.js';
import type { IncomingMessage } from './nats-message.js';
import { ProgressReports } from './progress.js';

/** Work that names no deadline gets this long (`Tf-Remaining-Ms` missing: a caller outside the fleet). */
const DEFAULT_REMAINING_MS = 60_000;
/** Longest call id that is believed; it is repeated in answers and logs. */
const MAX_CALL_ID_CHARS = 200;
/** Longest deadline that is believed. */
const MAX_REMAINING_MS = 24 * 3_600_000;

/** What a handler knows of the message it serves beside its body. */
export class EndpointContext {
  /** The concrete subject, also when subscribed with a wildcard. */
  readonly subject: string;
  readonly headers: IncomingHeaders;
  /** Milliseconds the caller gave when the message arrived. */
  readonly remainingMs: Milliseconds;
  /** `Tf-Call-Id`, when the caller is part of the fleet. */
  readonly callId: string | undefined;
  /** False when nobody waits for an answer. */
  readonly expectsReply: boolean;
  /** Arrival on the monotonic clock. */
  readonly startedAt: number;
  #controller: AbortController | undefined;
  #reason: ToolError | undefined;
  /** null: looked for, and the caller wants none. */
  #reports: ProgressReports | null | undefined;

  constructor(
    message: IncomingMessage,
    private readonly clock: Clock,
    private readonly acknowledge: () => void,
    private readonly link: NatsLink,
  ) {
    this.subject = message.subject;
    this.headers = message.headers ?? NO_HEADERS;
    this.expectsReply = message.reply !== '';
    this.startedAt = clock.monotonic();
    const callId = this.headers.get(HEADERS.callId);
    this.callId = callId !== undefined && callId.length <= MAX_CALL_ID_CHARS ? callId : undefined;
    const asked = Number(this.headers.get(HEADERS.remainingMs) ?? DEFAULT_REMAINING_MS);
    this.remainingMs = Number.isFinite(asked) ? Math.min(Math.max(0, asked), MAX_REMAINING_MS) : DEFAULT_REMAINING_MS;
  }

  /** Instant by which the answer is wanted, on this process's wall clock. */
  get deadlineAt(): EpochMs {
    return this.clock.now() + this.timeLeftMs;
  }

  /** Milliseconds left until the deadline, measured on the monotonic clock. */
  get timeLeftMs(): Milliseconds {
    return Math.max(0, this.remainingMs - (this.clock.monotonic() - this.startedAt));
  }

  /** Aborted at the deadline and when the call is cancelled, with a ToolError as reason. Made when first asked for. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /**
   * Tells the caller of an exec hop that this process has the call. Call it before work that blocks the event loop;
   * otherwise the strategy does it after 150 ms. A no-op on other hops and when done before.
   */
  ack(): void {
    this.acknowledge();
  }

  /**
   * Tells the caller of an exec hop how far the work is: at most ten times a second, the newest report first. Undefined when
   * nobody wants to see it, so that no work is spent on gathering it.
   */
  get progress(): ((progress: CallProgress) => void) | undefined {
    this.#reports ??= ProgressReports.to(this.headers.get(HEADERS.progress), this.link, this.clock) ?? null;
    return this.#reports?.report;
  }

  /** Nothing is reported any more; used by the strategy before the answer leaves. */
  end(): void {
    this.#reports?.close();
  }

  /** Stops the work; used by the strategy. */
  abort(reason: ToolError): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** True once aborted. */
  get aborted(): boolean {
    return this.#reason !== undefined;
  }
}
