import {
  InsufficientScopeError,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
  UrlElicitationRequiredError,
} from '@modelcontextprotocol/client';
import { isServerFault, isToolError, ToolError, type JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { addressFault } from '@toolfleet/contracts/person-address';
import { redact } from '@toolfleet/telemetry';

/** A failed exchange with a server, and its meaning for the session and the breaker. */
export interface McpFault {
  error: ToolError;
  /**
   * The session, revision or credential is outdated, and the next request needs a new session. `repeat`: this request too, because the server
   * refused it before anything ran. A request that was answered by its id is not repeated, whatever the answer says.
   */
  reconnect: false | 'next' | 'repeat';
  /** The target failed and not the request: counts for the breaker of the base URL. */
  targetFault: boolean;
}

/** JSON-RPC codes with which a server refuses the protocol revision or session. */
const REVISION_CODES = new Set([-32020, -32022]);
const MAX_UPSTREAM_TEXT = 200;

/** Classifies any failure of the SDK, the egress guard or the network. */
export function classifyMcpError(error: unknown, server: string): McpFault {
  const known = findToolError(error);
  if (known) {
    return {
      error: known,
      reconnect: false,
      targetFault: known.code === 'NETWORK_ERROR' || known.code === 'ATTEMPT_TIMED_OUT',
    };
  }
  if (error instanceof UnauthorizedError) return unauthorized(server, 401);
  if (error instanceof InsufficientScopeError) return unauthorized(server, 403, error.requiredScope);
  if (error instanceof SdkHttpError) return toHttpFault(error, server);
  if (error instanceof ProtocolError) return toProtocolFault(error, server);
  if (error instanceof SdkError) return toSdkFault(error, server);
  // The remaining errors are responses that are not MCP: invalid JSON, a body of another shape, or one too deep for the SDK.
  const what =
    error instanceof RangeError
      ? 'nested too deeply'
      : `that is not MCP: ${cut(error instanceof Error ? error.message : String(error))}`;
  return {
    error: upstream(`The MCP server ${server} answered with something ${what}`, { server }),
    reconnect: false,
    targetFault: !(error instanceof RangeError),
  };
}

/** Words of refusals because of the session or protocol revision. */
const ABOUT_SESSION =
  /\b(?:no|unknown|invalid|expired|missing|bad)\b.{0,20}\bsession|\bsession\b.{0,30}\b(?:not found|unknown|invalid|expired|terminated|closed|missing|required|exist|no longer)|not initiali[sz]ed|protocol.?version|unsupported version/i;

/**
 * An HTTP error without an answer to the request (`toReadable`). The status is evidence, and the text decides: a server that does not know the
 * session has not begun the request. Where both are silent about a failing server, the request may have begun.
 */
function toHttpFault(error: SdkHttpError, server: string): McpFault {
  const status = error.status ?? 0;
  if (status === 401 || status === 403) return unauthorized(server, status);
  const text = typeof error.data?.text === 'string' ? error.data.text : error.message;
  const refusal = readRefusal(text);
  const isOfSession = ABOUT_SESSION.test(refusal ?? text);
  // 404: the session has ended (2025-11-25 transports); 400, 405 and 410 also come from a server that changed its revision or restarted.
  const isRefused = status === 404 || status === 410 || ((status === 400 || status === 405) && refusal === undefined);
  return {
    error: statusFailure(status, refusal ?? text, { server }),
    // After a restart, a server may fail for sessions that it does not know.
    reconnect: isOfSession || isRefused ? 'repeat' : status >= 500 && 'next',
    targetFault: isServerFault(status) && !isOfSession,
  };
}

/** The failure of a request with no other answer than an HTTP error. */
export function statusFailure(status: number, text: string, details: JsonObject, retryAfterMs?: number): ToolError {
  const isRefused = status === 401 || status === 403;
  const isDown = isServerFault(status) && status !== 429;
  return new ToolError(isRefused ? 'AUTH_NOT_CONFIGURED' : isDown ? 'NETWORK_ERROR' : 'UPSTREAM_ERROR', {
    message: `HTTP ${status}: ${cut(text)}`,
    details: { ...details, status },
    facts: { status, delivered: true },
    retryAfterMs,
  });
}

/** The message of a JSON-RPC error without the id of a request; undefined for other texts. */
function readRefusal(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    return typeof error?.message === 'string' ? error.message : undefined;
  } catch {
    return undefined;
  }
}

function toProtocolFault(error: ProtocolError, server: string): McpFault {
  const missing = readMissingInput(error);
  if (missing) return { error: inputRequired(server, missing, error.code), reconnect: false, targetFault: false };
  return {
    error: upstream(cut(error.message, 1_000), { server, rpc_code: error.code }).withFacts({
      // One code for both revisions.
      rpcCode: error instanceof ResourceNotFoundError ? ProtocolErrorCode.ResourceNotFound : error.code,
    }),
    reconnect: (REVISION_CODES.has(error.code) || /session/i.test(error.message)) && 'next',
    // An answer shows that the server is up.
    targetFault: false,
  };
}

/** Client capabilities by which a server asks for input. */
const INPUT_CAPABILITIES = ['elicitation', 'sampling', 'roots'];

/** The input that a tool needs and its caller did not declare; undefined for all other errors. */
function readMissingInput(error: ProtocolError): JsonObject | undefined {
  if (error instanceof UrlElicitationRequiredError) {
    const urls = error.elicitations.map(({ url }) => url);
    const faults = urls.flatMap((url) => addressFault(url) ?? []);
    return {
      urls: urls.filter((url) => addressFault(url) === undefined),
      ...(faults.length > 0 && { refused: faults }),
    };
  }
  if (!(error instanceof MissingRequiredClientCapabilityError)) return undefined;
  const required = error.requiredCapabilities as JsonObject;
  return INPUT_CAPABILITIES.some((name) => name in required) ? { required_capabilities: required } : undefined;
}

/** How the official SDKs of servers of the 2025 revisions word that the client declared no elicitation. */
const UNDECLARED = /\bclient\b.*\b(?:does not support|did not declare)\b/i;

/** Whether a failed result of a server of the 2025 revisions says that its caller cannot be asked. */
export function reportsMissingInput({ ok, text }: Pick<ExecResponse, 'ok' | 'text'>): boolean {
  return !ok && /elicitation/i.test(text) && UNDECLARED.test(text);
}

/** The tool needs input, and its caller cannot be asked for it. */
export function inputRequired(server: string, missing: JsonObject, rpcCode?: number): ToolError {
  const message = `The MCP server ${server} asks for input, and the caller of this tool cannot be asked`;
  return new ToolError('INPUT_REQUIRED', {
    message,
    details: { server, ...missing },
    facts: rpcCode === undefined ? {} : { rpcCode },
  });
}

function toSdkFault(error: SdkError, server: string): McpFault {
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
          // A connection that closes during a request may have delivered it.
          details: { server },
          facts: { delivered: error.code === SdkErrorCode.ConnectionClosed },
        }),
        reconnect: false,
        targetFault: true,
      };
    case SdkErrorCode.EraNegotiationFailed:
      return { error: upstream(cut(error.message), { server }), reconnect: 'repeat', targetFault: false };
    default:
      return {
        error: upstream(`The MCP server ${server} answered with something that is not MCP: ${cut(error.message)}`, {
          server,
          reason: error.code,
        }),
        reconnect: false,
        // A result that cannot be read shows that the server is up.
        targetFault: !isUnreadable(error),
      };
  }
}

/** Whether the SDK cannot read the result of an ended request. */
export function isUnreadable(error: unknown): error is SdkError {
  return (
    error instanceof SdkError &&
    (error.code === SdkErrorCode.InvalidResult || error.code === SdkErrorCode.UnsupportedResultType)
  );
}

/** @param wanted the scope that a valid credential lacks; only the operator can request it (`oauth.scope`) */
function unauthorized(server: string, status: number, wanted?: string): McpFault {
  const scope = wanted === undefined ? '' : `: it requires the scope ${cut(wanted)}`;
  return {
    error: new ToolError('AUTH_NOT_CONFIGURED', {
      message: `The MCP server ${server} refused access (HTTP ${status})${scope}; set or correct the credential of its source`,
      details: { server, status, state: 'auth_failed' },
      facts: { reason: 'auth_failed' },
    }),
    reconnect: status === 401 && 'repeat',
    targetFault: false,
  };
}

/** The ToolError in the chain of causes, if any: the SDK wraps errors of its fetch. */
function findToolError(error: unknown): ToolError | undefined {
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
/** Upstream text for an error message: shortened, and with credentials redacted. */
function cut(text: string, length = MAX_UPSTREAM_TEXT): string {
  const clean = redact(text);
  return clean.length > length ? `${clean.slice(0, length)}…` : clean;
}
