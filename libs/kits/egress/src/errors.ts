import { isCodedError, CodedError } from '@toolfleet/base';

/** The stage that refused a request: before any DNS query, after resolving, or on a redirect. */
export type EgressLayer = 'url' | 'connect' | 'redirect';

/** Why a request was refused; a metric label and part of the error details, so the names are stable. */
type EgressReason =
  | 'characters'
  | 'malformed'
  | 'scheme'
  | 'userinfo'
  | 'port'
  | 'ip_literal'
  | 'not_allowlisted'
  | 'internal_name'
  | 'address'
  | 'downgrade'
  | 'too_many_redirects'
  | 'header'
  | 'request_target';

/** Called for every refusal, before it is thrown. */
export type BlockedHook = (layer: EgressLayer, reason: EgressReason) => void;

/** Refusals that the operator can lift. */
const ALLOWABLE: ReadonlySet<EgressReason> = new Set([
  'scheme',
  'port',
  'ip_literal',
  'not_allowlisted',
  'internal_name',
  'address',
]);

let advice = 'to allow this origin, add it to allowedEndpoints';

/** Sets how refusals say that an origin is allowed, in words that the operator of the product knows. */
export function adviseRefusals(text: string): void {
  advice = text;
}

/**
 * EGRESS_REFUSED, with labels of the metric of refusals. It names the host, so that the operator can allow it, but never path
 * or query (these may contain secrets).
 */
export class EgressRefusal extends CodedError {
  constructor(
    readonly layer: EgressLayer,
    readonly reason: EgressReason,
    host?: string,
    /** For a public host: what to add to which list of hosts. Only other origins need an exemption from the checks of addresses. */
    listing?: string,
  ) {
    const allow = listing ? `to allow it, the operator adds ${listing}` : advice;
    const remedy = host && ALLOWABLE.has(reason) ? `; ${allow}` : '';
    super('EGRESS_REFUSED', {
      message: `Refused by the egress guard (${reason.replaceAll('_', ' ')})${host ? `: ${host}` : ''}${remedy}`,
      details: host ? { layer, reason, host } : { layer, reason },
    });
  }
}

export function refusal(layer: EgressLayer, reason: EgressReason, host?: string, listing?: string): CodedError {
  return new EgressRefusal(layer, reason, host, listing);
}

/**
 * Converts a failure of undici, the socket or TLS to RESULT_TOO_LARGE (headers), ATTEMPT_TIMED_OUT or NETWORK_ERROR.
 * CodedErrors pass unchanged.
 * @param delivered false if the request provably never left this process, so that even a call that is not idempotent may
 * be retried
 */
export function networkError(error: unknown, host: string, delivered: boolean): CodedError {
  if (isCodedError(error)) return error;
  const code = errorCode(error);
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'HPE_HEADER_OVERFLOW') {
    return new CodedError('RESULT_TOO_LARGE', {
      message: 'Response headers too large',
      details: { what: 'headers' },
      cause: error,
    });
  }
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return new CodedError('ATTEMPT_TIMED_OUT', {
      message: `Connecting to ${host} timed out`,
      details: { phase: 'connect', host },
      facts: { delivered: false },
      cause: error,
    });
  }
  return new CodedError('NETWORK_ERROR', {
    message: `The connection to ${host} failed (${code})`,
    details: { reason: code, host },
    facts: { delivered },
    cause: error,
  });
}

function errorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  return error instanceof Error ? error.name : 'unknown';
}
