import { Client, SdkError, SdkErrorCode, type ClientOptions, type PriorDiscovery } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { isJsonObject, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import { CallScope, ScopedHttpTransport } from './call-scope.js';
import type { McpTarget } from './mcp-target.js';
import type { OpenSecret } from './open-secret.js';
import type { CredentialStore } from './oauth/credential-store.js';
import { guardedCommand } from './stdio-guard-command.js';

/** What sessions need of this process. */
export interface SessionParts {
  egress: EgressClient;
  clock: Clock;
  /** Expands `${VAR}` and opens what is sealed for the registration; throws AUTH_NOT_CONFIGURED. */
  expand: OpenSecret;
  /** Tokens outlive sessions. */
  credentials: CredentialStore;
  /** Bytes of one response when the server's registration names none. */
  maxResponseBytes: number;
  /** Local mode: server processes may be started. */
  allowStdio: boolean;
  version: string;
}

/** A long-lived notification stream is cut here; the SDK opens it again. */
const MAX_STREAM_BYTES = 64 * 1024 * 1024;
/** Safety net behind the per-call limits, which end first. */
const MAX_EXCHANGE_MS = 60 * 60_000;
const CONNECT_TIMEOUT_MS = 15_000;
/** A list may be longer than one result. */
const MAX_LIST_BYTES = 16 * 1024 * 1024;

/** One connection to one server with one credential. */
export class McpSession {
  private constructor(
    readonly client: Client,
    readonly target: McpTarget,
  ) {}

  /**
   * Connects: with an earlier verdict about the server's era without a round trip, else `server/discover`, else
   * `initialize`.
   * @throws whatever the SDK, the guard or the network throws; `judgeMcpError` reads it
   */
  static async open(
    target: McpTarget,
    parts: SessionParts,
    onToolsChanged: () => void,
    signal?: AbortSignal,
  ): Promise<McpSession> {
    const options: ClientOptions = {
      capabilities: {},
      versionNegotiation: { mode: 'auto' },
      inputRequired: { autoFulfill: false },
      // Mismatches with an output schema are not failures of the call.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
      listChanged: { tools: { autoRefresh: false, onChanged: onToolsChanged } },
    };
    const client = new Client({ name: 'toolfleet', version: parts.version }, options);
    client.onerror = () => undefined; // what matters arrives at the call it belongs to
    const transport = target.transport === 'stdio' ? stdioTransport(target, parts) : httpTransport(target, parts);
    const prior = priorOf(target.prior);
    try {
      await client.connect(transport, {
        timeout: CONNECT_TIMEOUT_MS,
        ...(prior ? { prior } : {}),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      await client.close().catch(() => undefined);
      throw target.stdio && isClosed(error) ? notStarted(target, error) : error;
    }
    return new McpSession(client, target);
  }

  /** `modern` (2026-07-28 and later) or `legacy`. */
  get era(): 'modern' | 'legacy' {
    return this.client.getProtocolEra() ?? 'legacy';
  }

  /** Era verdict for the next connection; nothing of the server's prose and nothing that changes from answer to answer. */
  get prior(): JsonObject {
    const discovered = this.client.getDiscoverResult() as unknown;
    if (this.era === 'legacy' || !isJsonObject(discovered)) return { kind: 'legacy' };
    const { supportedVersions = [], capabilities = {} } = discovered;
    const discover = { resultType: 'complete', ttlMs: 0, cacheScope: 'private', supportedVersions, capabilities };
    return { kind: 'modern', discover };
  }

  /** Ends the session at the server too, when it keeps one; never throws. */
  async close(): Promise<void> {
    const transport = this.client.transport;
    if (transport instanceof ScopedHttpTransport && transport.sessionId) {
      await transport.terminateSession().catch(() => undefined);
    }
    await this.client.close().catch(() => undefined);
  }
}

function httpTransport(target: McpTarget, parts: SessionParts): ScopedHttpTransport {
  const expand = (value: string): string => parts.expand(value, target.registration);
  const url = expand(target.url);
  parts.egress.check(url);
  const headers = Object.fromEntries(Object.entries(target.headers).map(([name, value]) => [name, expand(value)]));
  const credential = parts.credentials.of(target);
  const guarded = sessionFetch(target, parts);
  return new ScopedHttpTransport(new URL(url), {
    fetch: credential ? credential.wrap(guarded) : guarded,
    requestInit: { headers },
    redirectPolicy: 'same-origin',
    onInsufficientScope: 'throw',
    ...(credential ? { authProvider: credential } : {}),
  });
}

/** The guarded fetch with limits by kind of exchange: a call, a list, or the notification stream (GET). */
function sessionFetch(target: McpTarget, parts: SessionParts): typeof fetch {
  const maxBytes = target.maxResponseBytes ?? parts.maxResponseBytes;
  return egressFetch(parts.egress, (_url, init) => {
    const scope = CallScope.active;
    const stream = (init.method ?? 'GET') === 'GET';
    return {
      // The scope's own timers end a call; JSON answers send their headers only when the tool is done.
      timeouts: {
        headersMs: stream ? CONNECT_TIMEOUT_MS : null,
        bodyIdleMs: null,
        totalMs: stream ? null : MAX_EXCHANGE_MS,
      },
      maxBytes: stream ? MAX_STREAM_BYTES : scope?.isList ? Math.max(maxBytes, MAX_LIST_BYTES) : maxBytes,
      onBodyError: (error) => {
        if (scope) scope.streamError = error;
      },
    };
  });
}

function stdioTransport(target: McpTarget, parts: SessionParts): StdioClientTransport {
  if (!parts.allowStdio || !target.stdio) {
    throw new ToolError('EGRESS_REFUSED', {
      message: `The MCP server ${target.server} is a local process; those run in local mode only`,
    });
  }
  return new StdioClientTransport(guardedCommand(target.stdio, (value) => parts.expand(value, target.registration)));
}

const isClosed = (error: unknown): boolean => error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed;

/** All the SDK sees is the end of the process. */
function notStarted({ server, stdio }: McpTarget, cause: unknown): ToolError {
  return new ToolError('NETWORK_ERROR', {
    message: `The local MCP server ${server} cannot be started, or ends at once: ${stdio?.command}`,
    details: { server, delivered: false },
    cause,
  });
}

function priorOf(stored: JsonObject | undefined): PriorDiscovery | undefined {
  if (stored?.['kind'] === 'modern' && isJsonObject(stored['discover'])) return stored as unknown as PriorDiscovery;
  return stored?.['kind'] === 'legacy' ? { kind: 'legacy' } : undefined;
}

/** Time limits of one exchange. */
export interface ExchangeLimits {
  /** Longest silence; progress restarts it. */
  idleMs: Milliseconds;
  totalMs: Milliseconds;
  signal?: AbortSignal;
}

/**
 * Runs one exchange within its limits. Both limits and the caller's signal really abort the request; the error thrown is
 * then the reason for it.
 */
export async function withinLimits<T>(
  scope: CallScope,
  limits: ExchangeLimits,
  clock: Clock,
  work: (touch: () => void) => Promise<T>,
): Promise<T> {
  let touched = clock.monotonic();
  const timedOut = (what: string, ms: number): void =>
    scope.stop(
      new ToolError('ATTEMPT_TIMED_OUT', {
        message: `The MCP server did not answer within ${ms} ms (${what})`,
        details: { phase: what, limit_ms: ms },
      }),
    );
  const cancelTotal = clock.after(limits.totalMs, () => timedOut('total', limits.totalMs));
  let cancelIdle = (): void => undefined;
  const watchIdle = (): void => {
    const leftMs = touched + limits.idleMs - clock.monotonic();
    if (leftMs <= 0) return timedOut('idle', limits.idleMs);
    cancelIdle = clock.after(leftMs, watchIdle);
  };
  watchIdle();
  const onAbort = (): void => scope.stop(abortReason(limits.signal));
  if (limits.signal?.aborted) onAbort();
  limits.signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      const stopped = (): void => reject(scope.signal.reason);
      if (scope.signal.aborted) return stopped();
      scope.signal.addEventListener('abort', stopped, { once: true });
      scope.run(() => work(() => (touched = clock.monotonic()))).then(resolve, reject);
    });
  } catch (error) {
    throw scope.signal.aborted ? scope.signal.reason : error;
  } finally {
    cancelTotal();
    cancelIdle();
    limits.signal?.removeEventListener('abort', onAbort);
  }
}

function abortReason(signal: AbortSignal | undefined): ToolError {
  return signal?.reason instanceof ToolError ? signal.reason : new ToolError('CANCELLED');
}
