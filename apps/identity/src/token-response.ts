import { isToolError, ToolError } from '@toolfleet/contracts';
import * as oauth from 'oauth4webapi';

/** The answer of an authorization server. */
export interface Tokens {
  access_token: string;
  refresh_token?: string;
  id_token?: string;
  /** Seconds. */
  expires_in?: number;
  scopes?: string[];
}

/** Life of an access token without `expires_in` (left open by RFC 6749 section 5.1). */
export const DEFAULT_LIFE_S = 300;

/** The authorization server refuses the user's grant; another try would be refused as well. */
export class RefreshRefused extends Error {}
/** Whether the authorization server has replaced the refresh token is not known. */
export class RefreshUncertain extends Error {}

/** Errors that the operator corrects (RFC 6749 section 5.2, RFC 8707): nothing of a user was used, and nothing is to be forgotten. */
const CONFIGURATION = new Set([
  'invalid_client',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
]);

/** Nothing was sent: the operator has to correct something. */
const UNSENT = new Set(['AUTH_NOT_CONFIGURED', 'EGRESS_REFUSED']);

export function toTokens({
  access_token,
  refresh_token,
  id_token,
  expires_in,
  scope,
}: oauth.TokenEndpointResponse): Tokens {
  return {
    access_token,
    ...(refresh_token !== undefined && { refresh_token }),
    ...(id_token !== undefined && { id_token }),
    ...(expires_in !== undefined && { expires_in }),
    ...(scope !== undefined && { scopes: scope.split(' ').filter(Boolean) }),
  };
}

/** The error code of the protocol; never a text that may quote the request. */
export function reasonOf(error: unknown): string {
  if (error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError) return error.error;
  return error instanceof oauth.OperationProcessingError
    ? (error.code ?? 'an invalid response')
    : 'an invalid response';
}

/**
 * Why a token request failed.
 * @returns RefreshRefused; RefreshUncertain when the server may have done its work; ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR when
 *   it has not
 */
export function tokenFailure(source: string, error: unknown): Error {
  if (error instanceof oauth.WWWAuthenticateChallengeError) return refusesClient(source, `HTTP ${error.status}`, error);
  if (error instanceof oauth.ResponseBodyError && error.status < 500 && error.status !== 429) {
    if (CONFIGURATION.has(error.error)) return refusesClient(source, error.error, error);
    return new RefreshRefused(reasonOf(error), { cause: error });
  }
  const isUnsent = isToolError(error) && error.facts?.delivered === false;
  if (isUnsent || error instanceof oauth.ResponseBodyError)
    return new ToolError('NETWORK_ERROR', { message: `${source} issues no tokens at the moment`, cause: error });
  if (isToolError(error) && UNSENT.has(error.code)) return error;
  return new RefreshUncertain('the response was lost', { cause: error });
}

const refusesClient = (source: string, why: string, cause: unknown): ToolError =>
  new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The authorization server of ${source} refuses the request of this fleet (${why}); check client and scopes in auth.user`,
    cause,
  });
