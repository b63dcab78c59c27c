import { AsyncLocalStorage } from 'node:async_hooks';
import type { ElicitResult } from '@modelcontextprotocol/client';
import { ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { AbortSource, onAbort, type Clock } from '@toolfleet/resilience';

/** Asks the caller for the server of an exchange. */
export interface Asker {
  ask(params: JsonObject, signal: AbortSignal): Promise<ElicitResult>;
}

/**
 * One exchange with a server, as seen by its transport. The SDK reports neither its abort signal (in 2025 revisions) nor the
 * end of a response stream to its caller. Without this class a timeout would leave the socket open, and a dropped connection
 * would go unnoticed until the timeout.
 */
export class RequestExchange {
  private static readonly current = new AsyncLocalStorage<RequestExchange>();
  private readonly source = new AbortSource();
  /** Aborted when the exchange must stop, including its socket. */
  readonly signal: AbortSignal = this.source.signal;
  /** Why the response body broke, if known. */
  streamError: unknown;
  private answer: Response | undefined;
  private requests = 0;
  /** Absent where the caller cannot be asked. */
  asker: Asker | undefined;
  /** The server asked the caller, and nothing could pass the question on. */
  isAskedInVain = false;
  /** Parts of results that could not be read, by name, with reasons. */
  readonly dropped: string[] = [];

  /** @param isList the exchange lists tools: its response may be longer than a result */
  constructor(readonly isList = false) {}

  /** The exchange that the calling code runs in. */
  static get active(): RequestExchange | undefined {
    return RequestExchange.current.getStore();
  }

  /** Runs work outside any exchange. */
  static outside<T>(work: () => T): T {
    return RequestExchange.current.exit(work);
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return RequestExchange.current.run(this, work);
  }

  /** Leaves a response that has arrived to the SDK: its next fetch in this exchange gets it, and sends nothing. */
  leaveToSdk(answer: Response): void {
    this.answer = answer;
  }

  /** The response that was left to the SDK, once. */
  takeAnswer(): Response | undefined {
    const { answer } = this;
    this.answer = undefined;
    return answer;
  }

  /** Stops the exchange; the first reason wins. */
  stop(reason: ToolError): void {
    this.source.abort(reason);
  }

  /** Counts a request, such as for one page of a list. @returns its number */
  beginRequest(): number {
    this.requests += 1;
    return this.requests;
  }

  /** The response stream of a request ended. Without a response, the connection was lost. */
  streamEnded(request: number): void {
    // The response may still be in the SDK's microtask queue. Where the next request follows, it has arrived.
    setImmediate(() => {
      if (request !== this.requests) return;
      this.stop(this.streamError instanceof ToolError ? this.streamError : connectionLost());
    });
  }

  /** The connection was closed while the exchange was in progress. */
  connectionClosed(): void {
    this.stop(connectionLost());
  }
}

const connectionLost = (): ToolError =>
  new ToolError('NETWORK_ERROR', {
    message: 'The connection to the MCP server was lost',
    facts: { delivered: true },
  });

/** Limits of one exchange. */
interface ExchangeLimits {
  /** Longest silence in ms; progress restarts it. */
  idleMs: Milliseconds;
  totalMs: Milliseconds;
  signal?: AbortSignal;
}

/**
 * Runs one exchange within its limits. A limit or the caller's signal aborts the request itself, not only the wait for it.
 * @param work gets a function to call on progress; it restarts the idle limit
 * @throws ToolError ATTEMPT_TIMED_OUT, the reason of `limits.signal` or CANCELLED; otherwise whatever `work` throws
 */
export async function runWithLimits<T>(
  exchange: RequestExchange,
  limits: ExchangeLimits,
  clock: Clock,
  work: (touch: () => void) => Promise<T>,
): Promise<T> {
  let touched = clock.monotonic();
  const endsAt = touched + limits.totalMs;
  const timedOut = (what: string, ms: number): void =>
    exchange.stop(
      new ToolError('ATTEMPT_TIMED_OUT', {
        message: `The MCP server did not answer within ${ms} ms (${what})`,
        details: { phase: what, limit_ms: ms },
      }),
    );
  let cancel = (): void => undefined;
  const watch = (now: Milliseconds): void => {
    const idleAt = touched + limits.idleMs;
    if (now >= endsAt) timedOut('total', limits.totalMs);
    else if (now >= idleAt) timedOut('idle', limits.idleMs);
    else cancel = clock.after(Math.min(endsAt, idleAt) - now, () => watch(clock.monotonic()));
  };
  watch(touched);
  const { signal } = limits;
  const follow = (): void => exchange.stop(abortReason(signal));
  if (signal?.aborted) follow();
  const leave = signal && onAbort(signal, follow);
  try {
    return await new Promise<T>((resolve, reject) => {
      const stopped = (): void => reject(exchange.signal.reason);
      if (exchange.signal.aborted) return stopped();
      onAbort(exchange.signal, stopped);
      exchange.run(() => work(() => (touched = clock.monotonic()))).then(resolve, reject);
    });
  } catch (error) {
    throw exchange.signal.aborted ? exchange.signal.reason : error;
  } finally {
    cancel();
    leave?.();
  }
}

function abortReason(signal: AbortSignal | undefined): ToolError {
  return signal?.reason instanceof ToolError ? signal.reason : new ToolError('CANCELLED');
}
