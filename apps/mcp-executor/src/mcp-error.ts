import {
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { isToolError, ToolError, type JsonObject } from '@toolfleet/contracts';
import { redact } from '@toolfleet/telemetry';

/** What a failed exchange with a server means for the session and for repeating. */
export interface McpFault {
  error: ToolError;
  /** The server refused before doing anything, because of our session, era or credential: reconnect and repeat once. */
  reconnect: boolean;
  /** Counts for the breaker of the base URL: the target is broken, not the request. */
  targetFault: boolean;
}

/** JSON-RPC codes that mean "this revision or session is not spoken here". */
const ERA_CODES = new Set([-32020, -32021, -32022]);
const INTERNAL_ERROR = -32603;
const MAX_UPSTREAM_TEXT = 200;

/** Any failure of the SDK, the guard or the network, judged once. */
export function judgeMcpError(error: unknown, server: string): McpFault {
  const ours = toolErrorIn(error);
  if (ours) {
    return {
      error: ours,
      reconnect: false,
      targetFault: ours.code === 'NETWORK_ERROR' || ours.code === 'ATTEMPT_TIMED_OUT',
    };
  }
  if (error instanceof UnauthorizedError) return unauthorized(server, 401);
  if (error instanceof InsufficientScopeError) return insufficientScope(error, server);
  if (error instanceof SdkHttpError) return httpFault(error, server);
  if (error instanceof ProtocolError) return protocolFault(error, server);
  if (error instanceof SdkError) return sdkFault(error, server);
  // What is left is an answer that is not MCP: bad JSON, a body of another shape, or one in which the SDK's recursion ends.
  const what = error instanceof RangeError ? 'nested too deeply' : `that is not MCP: ${cut(messageOf(error))}`;
  return {
    error: upstream(`The MCP server ${server} answered with something ${what}`, { server }),
    reconnect: false,
    targetFault: true,
  };
}

function httpFault(error: SdkHttpError, server: string): McpFault {
  const status = error.status ?? 0;
  if (status === 401 || status === 403) return unauthorized(server, status);
  const text = typeof error.data?.text === 'string' ? error.data.text : error.message;
  const retryable = status === 408 || status === 429 || status >= 500;
  const failure = new ToolError(retryable && status !== 429 ? 'NETWORK_ERROR' : 'UPSTREAM_ERROR', {
    message: `HTTP ${status}: ${cut(text)}`,
    details: { server, status, delivered: true },
  });
  // 404 with a session id: the session is gone (2025-11-25 transports); 400/405/406 also come from a changed revision.
  return {
    error: failure,
    reconnect: status === 404 || status === 400 || status === 405,
    targetFault: status >= 500 || status === 408 || status === 429,
  };
}

function protocolFault(error: ProtocolError, server: string): McpFault {
  return {
    error: upstream(cut(error.message, 1_000), { server, rpc_code: error.code }),
    reconnect: ERA_CODES.has(error.code) || /session/i.test(error.message),
    targetFault: error.code === INTERNAL_ERROR,
  };
}

function sdkFault(error: SdkError, server: string): McpFault {
  switch (error.code) {
    case SdkErrorCode.RequestTimeout:
      return {
        error: new ToolError('ATTEMPT_TIMED_OUT', {
          message: `The MCP server ${server} did not answer in time`,
          details: { server },
        }),
        reconnect: false,
        targetFault: true,
      };
    case SdkErrorCode.ConnectionClosed:
    case SdkErrorCode.NotConnected:
      return {
        error: new ToolError('NETWORK_ERROR', {
          message: `The connection to the MCP server ${server} was lost`,
          // What closes under a request may have taken it before.
          details: { server, delivered: error.code === SdkErrorCode.ConnectionClosed },
        }),
        reconnect: false,
        targetFault: true,
      };
    case SdkErrorCode.EraNegotiationFailed:
      return { error: upstream(cut(error.message), { server }), reconnect: true, targetFault: false };
    default:
      return {
        error: upstream(`The MCP server ${server} answered with something that is not MCP: ${cut(error.message)}`, {
          server,
          reason: error.code,
        }),
        reconnect: false,
        targetFault: true,
      };
  }
}

function unauthorized(server: string, status: number): McpFault {
  return {
    error: new ToolError('AUTH_NOT_CONFIGURED', {
      message: `The MCP server ${server} refused our credential (HTTP ${status})`,
      details: { server, status, state: 'auth_failed' },
    }),
    reconnect: status === 401,
    targetFault: false,
  };
}

/** Our credential is good for other things: only the operator can ask for more (`oauth.scope`). */
function insufficientScope({ requiredScope }: InsufficientScopeError, server: string): McpFault {
  const wanted = requiredScope === undefined ? '' : `: it wants the scope ${cut(requiredScope)}`;
  return {
    error: new ToolError('AUTH_NOT_CONFIGURED', {
      message: `The MCP server ${server} refused our credential (HTTP 403)${wanted}`,
      details: { server, status: 403, state: 'auth_failed' },
    }),
    reconnect: false,
    targetFault: false,
  };
}

/** An error of ours somewhere in the chain of causes: the SDK wraps what its fetch throws. */
function toolErrorIn(error: unknown): ToolError | undefined {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth += 1) {
    if (isToolError(at)) return at;
    const inner = (at as { data?: { error?: unknown; cause?: unknown } }).data;
    if (isToolError(inner?.error)) return inner.error;
    if (isToolError(inner?.cause)) return inner.cause;
  }
  return undefined;
}

const upstream = (message: string, details: JsonObject): ToolError =>
  new ToolError('UPSTREAM_ERROR', { message, details });
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
/** Upstream words in a message of ours: short, and without a credential they may repeat. */
function cut(text: string, length = MAX_UPSTREAM_TEXT): string {
  const clean = redact(text);
  return clean.length > length ? `${clean.slice(0, length)}…` : clean;
}
