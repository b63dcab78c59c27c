import { jsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import { DELEGATION_PREFIX } from './signed-tokens.js';

/**
 * A credential as presented. `api_key` (from `X-API-Key`) may only be a key; `bearer` may be a key, a JWT, a delegation token or a token
 * of an OAuth client; `session` is the secret of a session cookie.
 */
export interface Credential {
  kind: 'bearer' | 'api_key' | 'session';
  token: string;
}

/** Longer tokens are refused without further checks in time linear in the length. */
const MAX_TOKEN_LENGTH = 8_191;
/** A delegation token carries the tool globs of its caller. It is sent over NATS, with longer headers than HTTP's. */
const MAX_DELEGATION_LENGTH = 32_768;
/** RFC 6750 section 2.1, `b64token`, widened to visible ASCII so that any development key can be sent. */
const BEARER_PATTERN = /^bearer +([\x21-\x7e]+)$/i;
const KEY_PATTERN = /^[\x21-\x7e]+$/;

/**
 * Reads the credential of a request from all values of its two headers; undefined if there is none. Query strings are not
 * read: they end up in logs and browser histories.
 * @throws ToolError UNAUTHENTICATED for two credentials, a duplicate header, another scheme, or an over-long token.
 */
export function readCredential(authorization: readonly string[], apiKey: readonly string[]): Credential | undefined {
  const count = authorization.length + apiKey.length;
  if (count === 0) return undefined;
  if (count > 1) throw unauthenticated('several');
  const bearer = authorization[0] === undefined ? undefined : BEARER_PATTERN.exec(authorization[0].trim())?.[1];
  const token = apiKey[0] === undefined ? bearer : apiKey[0].trim();
  const longest = token?.startsWith(DELEGATION_PREFIX) ? MAX_DELEGATION_LENGTH : MAX_TOKEN_LENGTH;
  if (token === undefined || token.length > longest || !KEY_PATTERN.test(token)) throw unauthenticated('malformed');
  return { kind: apiKey[0] === undefined ? 'bearer' : 'api_key', token };
}

/** The values of a header by its name in lower case, from Node's flat `rawHeaders` list. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const given = rawHeaders[i]!;
    if (given.length === name.length && given.toLowerCase() === name) values.push(rawHeaders[i + 1]!);
  }
  return values;
}

/**
 * The same from Node's flat `rawHeaders` list. The parsed `headers` object is unsuitable: it silently drops the second of two
 * `Authorization` headers.
 */
export function readRawCredential(rawHeaders: readonly string[]): Credential | undefined {
  const authorization: string[] = [];
  const apiKey: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    // Length first: most headers are neither, and lower-casing all of them would cost more than the rest of the check.
    if (name.length === 13 && name.toLowerCase() === 'authorization') authorization.push(rawHeaders[i + 1]!);
    else if (name.length === 9 && name.toLowerCase() === 'x-api-key') apiKey.push(rawHeaders[i + 1]!);
  }
  return readCredential(authorization, apiKey);
}

/**
 * The fault of a credential. `invalid` is the one answer for an unknown key and a wrong secret. Only callers that have proved
 * the secret learn of `expired` and `revoked`.
 */
const PROBLEMS = {
  none: 'No credentials: send a key as Authorization: Bearer <key> or X-API-Key: <key>.',
  several: 'Two credentials: send one, as Authorization: Bearer <key> or X-API-Key: <key>.',
  malformed: 'Malformed credentials: send a whole key as Authorization: Bearer <key> or X-API-Key: <key>.',
  invalid: 'Invalid credentials.',
  expired: 'This key has expired.',
  revoked: 'This key was revoked.',
  signed_out: 'The session has ended. Sign in again.',
  other_resource: 'This token is for the MCP endpoint /mcp only. Send a key as Authorization: Bearer <key>.',
  session_header:
    'A session cookie counts only with the header X-Toolfleet-Session. Send a key as Authorization: Bearer <key> instead.',
  session_origin: 'A session cookie counts only on requests of the console of this gateway.',
} as const;

/** Why a token was refused, in words for the operator's log. Its caller learns only that it was. */
export class TokenRefused extends Error {}

/** The error of a failed authentication. */
export function unauthenticated(problem: keyof typeof PROBLEMS = 'invalid', cause?: TokenRefused): ToolError {
  return new ToolError('UNAUTHENTICATED', { message: PROBLEMS[problem], cause });
}

/** Name of the protection space in `WWW-Authenticate`. */
const REALM = 'toolfleet';

/**
 * Value of `WWW-Authenticate` on every 401 (RFC 6750 section 3).
 * @param resourceMetadataUrl address of the protected-resource metadata, required by MCP (RFC 9728 section 5.1)
 */
export function challenge(resourceMetadataUrl?: string): string {
  const base = `Bearer realm="${REALM}"`;
  return resourceMetadataUrl === undefined ? base : `${base}, resource_metadata="${resourceMetadataUrl}"`;
}

/** The document at `/.well-known/oauth-protected-resource` (RFC 9728 section 2): which issuers' tokens this resource takes. */
export function protectedResourceMetadata(resource: string, issuers: readonly string[]): JsonObject {
  return jsonObject({
    resource,
    resource_name: REALM,
    bearer_methods_supported: ['header'],
    authorization_servers: issuers.length === 0 ? undefined : [...issuers],
  });
}
