import { isToolError, ToolError } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

/** Time limits of one request in ms; null switches a limit off (long-lived streams). */
export interface EgressTimeouts {
  /** From the start until the response headers are complete, connecting included. */
  headersMs: number | null;
  /** Longest silence between two pieces of the body. */
  bodyIdleMs: number | null;
  /** Everything, redirects and reading the body included. */
  totalMs: number | null;
}

/**
 * Aborts a request when its caller gives up or a limit passes. One signal for all causes, whose reason is the error to
 * report: a ToolError, or the caller's own reason.
 */
export class RequestWatch {
  private readonly controller = new AbortController();
  private readonly timers = new Set<CancelTimer>();
  private lastActivity = 0;
  private readonly onCallerAbort = () => this.controller.abort(callerReason(this.caller));

  constructor(
    private readonly clock: Clock,
    private readonly timeouts: EgressTimeouts,
    private readonly caller: AbortSignal | undefined,
    private readonly host: string,
  ) {
    if (caller?.aborted) this.onCallerAbort();
    else caller?.addEventListener('abort', this.onCallerAbort, { once: true });
    this.arm('total', timeouts.totalMs);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Starts the limit on headers; the returned function ends it. */
  awaitHeaders(): () => void {
    return this.arm('headers', this.timeouts.headersMs);
  }

  /** Starts the limit on silence; `touch` restarts it. */
  watchIdle(): void {
    const limitMs = this.timeouts.bodyIdleMs;
    if (limitMs === null) return;
    this.touch();
    const check = (hasLooked: boolean): void => {
      const leftMs = this.lastActivity + limitMs - this.clock.monotonic();
      if (leftMs <= 0 && hasLooked) return this.expire('body', limitMs);
      // Timers come before sockets: a process that was busy itself looks into them once before it calls that silence.
      const cancel = this.clock.after(Math.max(0, leftMs), () => {
        this.timers.delete(cancel);
        check(leftMs <= 0);
      });
      this.timers.add(cancel);
    };
    check(false);
  }

  /** A piece of the body arrived. */
  touch(): void {
    this.lastActivity = this.clock.monotonic();
  }

  /** Ends every limit and forgets the caller's signal. */
  end(): void {
    for (const cancel of this.timers) cancel();
    this.timers.clear();
    this.caller?.removeEventListener('abort', this.onCallerAbort);
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
    this.controller.abort(
      new ToolError('ATTEMPT_TIMED_OUT', {
        message: `No complete answer from ${this.host} within ${limitMs} ms (${phase})`,
        details: { phase, limit_ms: limitMs, host: this.host },
      }),
    );
  }
}

/** The caller's reason when it is a ToolError (a deadline, say), else CANCELLED. */
function callerReason(caller: AbortSignal | undefined): ToolError {
  return isToolError(caller?.reason) ? caller.reason : new ToolError('CANCELLED', { cause: caller?.reason });
}
