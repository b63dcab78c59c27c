import { AsyncLocalStorage } from 'node:async_hooks';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ToolError } from '@toolfleet/contracts';

type SendArguments = Parameters<StreamableHTTPClientTransport['send']>;

/**
 * One exchange with a server, as seen by its transport. The SDK hands neither its abort signal (2025 era) nor the end of
 * a response stream to its caller, so without this a timeout would leave the socket open and a dropped connection would
 * go unnoticed until the timeout.
 */
export class CallScope {
  private static readonly current = new AsyncLocalStorage<CallScope>();
  private readonly controller = new AbortController();
  /** What broke the response's body, when that is known. */
  streamError: unknown;

  /** @param isList the exchange lists tools; its answer may be longer than a result */
  constructor(readonly isList = false) {}

  /** The exchange the calling code runs in. */
  static get active(): CallScope | undefined {
    return CallScope.current.getStore();
  }

  /** Aborted when the exchange must stop: socket and all. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Runs work that belongs to no exchange. */
  static outside<T>(work: () => T): T {
    return CallScope.current.exit(work);
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return CallScope.current.run(this, work);
  }

  /** Stops the exchange; the first reason stays. */
  stop(reason: ToolError): void {
    if (!this.controller.signal.aborted) this.controller.abort(reason);
  }

  /** The response stream ended and no answer was in it: the connection was lost. */
  streamEnded(): void {
    // The last message may still be on its way through the SDK's queue of microtasks.
    setImmediate(() =>
      this.stop(
        this.streamError instanceof ToolError
          ? this.streamError
          : new ToolError('NETWORK_ERROR', {
              message: 'The connection to the MCP server was lost',
              details: { delivered: true },
            }),
      ),
    );
  }
}

/** The SDK's transport, tied to the exchange it works for. */
export class ScopedHttpTransport extends StreamableHTTPClientTransport {
  override send(...[message, options]: SendArguments): Promise<void> {
    const scope = CallScope.active;
    const isRequest = !Array.isArray(message) && 'method' in message && 'id' in message;
    if (!scope || !isRequest) return super.send(message, options);
    const theirs = options?.requestSignal;
    return super.send(message, {
      ...options,
      requestSignal: theirs ? AbortSignal.any([theirs, scope.signal]) : scope.signal,
      onRequestStreamEnd: () => {
        options?.onRequestStreamEnd?.();
        scope.streamEnded();
      },
    });
  }
}
