import { isToolError, ToolError } from '@toolfleet/contracts';

/** Where the guard caught a request: before any DNS query, after resolving, or on a redirect. */
export type EgressLayer = 'url' | 'connect' | 'redirect';

/** Why the guard refused; stable names, used as a metric label. */
export type EgressReason =
  | 'characters'
  | 'malformed'
  | 'scheme'
  | 'userinfo'
  | 'port'
  | 'ip_literal'
  | 'not_allowlisted'
  | 'internal_name'
  | 'address'
  | 'no_resolver_answer'
  | 'downgrade'
  | 'redirect_method'
  | 'too_many_redirects'
  | 'header'
  | 'request_target';

/** Called for every refusal, before it is thrown. */
export type BlockedHook = (layer: EgressLayer, reason: EgressReason) => void;

/**
 * A refusal of the guard: EGRESS_REFUSED with `layer` and `reason` in the details. The host is named because the
 * operator needs it; path and query never are, they may hold secrets.
 */
export function refusal(layer: EgressLayer, reason: EgressReason, host?: string): ToolError {
  return new ToolError('EGRESS_REFUSED', {
    message: `Refused by the egress guard (${reason.replaceAll('_', ' ')})${host ? `: ${host}` : ''}`,
    details: { layer, reason, ...(host ? { host } : {}) },
  });
}

/**
 * A failure of undici, the socket or TLS as a ToolError. `delivered: false` says that the request provably never left,
 * so that even a call that is not idempotent may be tried again.
 */
export function networkError(error: unknown, host: string, delivered: boolean): ToolError {
  if (isToolError(error)) return error;
  const code = codeOf(error);
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'HPE_HEADER_OVERFLOW') {
    return new ToolError('RESULT_TOO_LARGE', {
      message: 'Response headers too large',
      details: { what: 'headers' },
      cause: error,
    });
  }
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return new ToolError('ATTEMPT_TIMED_OUT', {
      message: `No connection to ${host} in time`,
      details: { phase: 'connect', delivered: false, host },
      cause: error,
    });
  }
  return new ToolError('NETWORK_ERROR', {
    message: `The upstream ${host} could not be reached or broke off (${code})`,
    details: { reason: code, delivered, host },
    cause: error,
  });
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  return error instanceof Error ? error.name : 'unknown';
}
