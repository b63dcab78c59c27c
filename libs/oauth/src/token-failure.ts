import { isServerFault, isToolError, ToolError } from '@toolfleet/contracts';
import { redact } from '@toolfleet/telemetry';
import * as oauth from 'oauth4webapi';

/**
 * Why a token request brought no token. `client`: the server refuses this client or its request (RFC 6749 section 5.2, RFC 8707), which the
 * operator corrects. `grant`: it refuses the code, refresh token or assertion. `unavailable`: it did nothing. `lost`: it may have done its
 * work, and its answer did not arrive or cannot be read.
 */
type FailureKind = 'client' | 'grant' | 'unavailable' | 'lost';

const OF_CLIENT = new Set([
  'invalid_client',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
]);
const TEMPORARY = new Set(['server_error', 'temporarily_unavailable', 'slow_down', 'too_many_requests']);
/** Errors of configuration and egress name the correction themselves: nothing was sent. */
const UNSENT = new Set(['AUTH_NOT_CONFIGURED', 'EGRESS_REFUSED']);

/**
 * A token request without a token: NETWORK_ERROR when the server fails for the moment, otherwise AUTH_NOT_CONFIGURED with
 * `state: auth_failed` and the `oauth_error` of the server.
 */
export class TokenFailure extends ToolError {
  /** @param reason code of the protocol, or our own words: never a text that may quote the request */
  constructor(
    readonly kind: FailureKind,
    readonly reason: string,
    { text = reason, oauth_error, cause }: { text?: string; oauth_error?: string; cause?: unknown } = {},
  ) {
    const isTemporary = kind === 'unavailable' || kind === 'lost';
    super(isTemporary ? 'NETWORK_ERROR' : 'AUTH_NOT_CONFIGURED', {
      message: `The authorization server returned no token: ${redact(text).slice(0, 200)}`,
      details: isTemporary ? undefined : oauth_error ? { state: 'auth_failed', oauth_error } : { state: 'auth_failed' },
      facts: isTemporary ? { delivered: false } : { reason: 'auth_failed' },
      cause,
    });
  }
}

/**
 * The failure behind an error of `oauth4webapi` or of its fetch.
 * @param sent values of the request: a description that quotes one is not shown
 * @returns ToolErrors of requests that were never sent, unchanged
 */
export function toTokenFailure(cause: unknown, sent: readonly string[]): ToolError {
  if (isToolError(cause)) {
    if (UNSENT.has(cause.code)) return cause;
    return new TokenFailure(cause.facts?.delivered === false ? 'unavailable' : 'lost', cause.message, { cause });
  }
  if (cause instanceof oauth.AuthorizationResponseError) return new TokenFailure('grant', cause.error, { cause });
  if (cause instanceof oauth.WWWAuthenticateChallengeError)
    return new TokenFailure('client', `HTTP ${cause.status}`, { cause });
  if (cause instanceof oauth.ResponseBodyError) {
    const { error, error_description: said, status } = cause;
    const isTemporary = isServerFault(status) || TEMPORARY.has(error);
    const isQuoting = said === undefined || sent.some((value) => value.length > 7 && said.includes(value));
    const text = isQuoting ? error : `${error}: ${said}`;
    const kind = isTemporary ? 'unavailable' : OF_CLIENT.has(error) ? 'client' : 'grant';
    return new TokenFailure(kind, error, { text, oauth_error: error, cause });
  }
  const { message, cause: response } = cause as Error;
  const text = response instanceof Response ? `HTTP ${response.status}, ${message}` : message;
  return new TokenFailure('lost', 'an invalid response', { text, cause });
}
