import { isCodedError, CodedError, onAbort, type CancelTimer, type Clock } from '@toolfleet/base';

/** Time limits of one request in ms; null disables a limit (for long-lived streams). */
export interface EgressTimeouts {
  /** From the start until the response headers are complete, including connecting. */
  headersMs: number | null;
  /** Maximum pause between two chunks of the body. */
  bodyIdleMs: number | null;
  /** The whole request, including redirects and reading the body. */
  totalMs: number | null;
}

/**
 * Stops a request when its caller aborts or a limit expires. The reason is the error to report: ATTEMPT_TIMED_OUT with the
 * phase, the caller's CodedError, or CANCELLED.
 */
export class RequestTimeouts {
  /** The response to stop; a redirect begins another one. */
  response: { stop(reason: CodedError): void } | undefined;
  private stopReason: CodedError | undefined;
  private readonly timers = new Set<CancelTimer>();
  private lastActivity = 0;
  /** Ends the wait for the signal of the caller. */
  private leave: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly timeouts: EgressTimeouts,
    caller: AbortSignal | undefined,
    private readonly host: string,
  ) {
    if (caller?.aborted) this.stop(callerReason(caller));
    else if (caller) this.leave = onAbort(caller, () => this.stop(callerReason(caller)));
    this.arm('total', timeouts.totalMs);
  }

  /** Why the request was stopped, if it was. */
  get stopped(): CodedError | undefined {
    return this.stopReason;
  }

  /** @throws why the request was stopped, if it was */
  throwIfStopped(): void {
    if (this.stopReason) throw this.stopReason;
  }

  /** Starts the limit for headers; the returned function ends it. */
  awaitHeaders(): () => void {
    return this.arm('headers', this.unlessTotal(this.timeouts.headersMs));
  }

  /** Starts the limit for pauses of the body; `touch` restarts it. */
  watchIdle(): void {
    const limitMs = this.unlessTotal(this.timeouts.bodyIdleMs);
    if (limitMs === null) return;
    this.touch();
    const check = (hasPolled: boolean): void => {
      const leftMs = this.lastActivity + limitMs - this.clock.monotonic();
      if (leftMs <= 0 && hasPolled) return this.expire('body', limitMs);
      // The event loop runs timers before it polls sockets. If this process itself was blocked, data may be waiting there,
      // so the limit expires only after one more poll.
      const cancel = this.clock.after(Math.max(0, leftMs), () => {
        this.timers.delete(cancel);
        check(leftMs <= 0);
      });
      this.timers.add(cancel);
    };
    check(false);
  }

  /** Call for every chunk of the body. */
  touch(): void {
    this.lastActivity = this.clock.monotonic();
  }

  /** Clears all timers and detaches from the caller's signal. */
  end(): void {
    for (const cancel of this.timers) cancel();
    this.timers.clear();
    this.leave?.();
  }

  /** A limit that the total limit always precedes needs no timer. */
  private unlessTotal(limitMs: number | null): number | null {
    return limitMs !== null && limitMs >= (this.timeouts.totalMs ?? Infinity) ? null : limitMs;
  }

  private stop(reason: CodedError): void {
    if (this.stopReason) return;
    this.stopReason = reason;
    this.response?.stop(reason);
  }

  private arm(phase: 'total' | 'headers', limitMs: number | null): () => void {
    if (limitMs === null) return () => undefined;
    const cancel = this.clock.after(limitMs, () => this.expire(phase, limitMs));
    this.timers.add(cancel);
    return () => {
      cancel();
      this.timers.delete(cancel);
    };
  }

  private expire(phase: 'total' | 'headers' | 'body', limitMs: number): void {
    this.stop(
      new CodedError('ATTEMPT_TIMED_OUT', {
        message: `No complete response from ${this.host} within ${limitMs} ms (${phase})`,
        details: { phase, limit_ms: limitMs, host: this.host },
      }),
    );
  }
}

/** The caller's reason if it is a CodedError, such as a deadline; else CANCELLED. */
function callerReason({ reason }: AbortSignal): CodedError {
  return isCodedError(reason) ? reason : new CodedError('CANCELLED', { cause: reason });
}
