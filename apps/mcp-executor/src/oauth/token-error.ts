import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/client';
import { isToolError, ToolError } from '@toolfleet/contracts';
import { redact } from '@toolfleet/telemetry';

const MAX_REASON = 200;
/** Answers that say nothing about the credential. */
const TEMPORARY: ReadonlySet<string> = new Set([
  OAuthErrorCode.ServerError,
  OAuthErrorCode.TemporarilyUnavailable,
  OAuthErrorCode.TooManyRequests,
]);

/**
 * Why no token was had, as the caller sees it: NETWORK_ERROR when the authorization server is in trouble, else
 * AUTH_NOT_CONFIGURED with `state: auth_failed`. Errors of the guard and of expansion stay as they are.
 */
export function tokenError(error: unknown): ToolError {
  if (isToolError(error)) return error;
  if (error instanceof Error && isToolError(error.cause)) return error.cause;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof OAuthError ? error.code : undefined;
  const reason = redact(code === undefined || message.startsWith(code) ? message : `${code}: ${message}`);
  const text = `The authorization server gave no token: ${reason.slice(0, MAX_REASON)}`;
  const isTemporary = code !== undefined && TEMPORARY.has(code) && !/^HTTP 4(?!08|29)/.test(message);
  if (isTemporary)
    return new ToolError('NETWORK_ERROR', { message: text, details: { delivered: false }, cause: error });
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: text,
    details: { state: 'auth_failed', ...(code === undefined ? {} : { oauth_error: code }) },
    cause: error,
  });
}
