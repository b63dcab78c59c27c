import { ToolError } from '@toolfleet/contracts';

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
