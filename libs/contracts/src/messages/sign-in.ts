import { list, maybe, record, text, type Value } from '../json-schema.js';
import type { SignInSession } from './identity.js';

/** Maximum size of the body of a request or answer of sign-in, in characters: a form, a document or a page. */
export const MAX_SIGN_IN_BODY = 64 * 1024;

/**
 * `identity.http`: a request of a browser or an OAuth client below `/auth/`, `/oauth/` or `/.well-known/` that gateways pass on as it
 * came. The service answers it whole, cookies included.
 */
export const IDENTITY_HTTP = record({
  /** Public address of the gateway, without a path: `https://tools.example.com`. */
  origin: text(undefined, { minLength: 1, maxLength: 300 }),
  method: text(undefined, { pattern: '^(GET|HEAD|POST|DELETE|OPTIONS)$' }),
  /** Path with its query. */
  url: text(undefined, { pattern: '^/', maxLength: 16_384 }),
  /** Names and values. */
  headers: list(list(text(undefined, { maxLength: 32_768 }), undefined, { minItems: 2, maxItems: 2 }), undefined, {
    maxItems: 40,
  }),
  body: maybe(text(undefined, { maxLength: MAX_SIGN_IN_BODY })),
});
export type IdentityHttp = Value<typeof IDENTITY_HTTP>;
export interface IdentityHttpReply {
  status: number;
  /** Names and values; `set-cookie` may occur several times. */
  headers: [string, string][];
  body: string;
}

/** `identity.client.get`: the session behind an access token that the service issued to an OAuth client. */
export const CLIENT_GET = record({ token: text(undefined, { pattern: '^[A-Za-z0-9_-]{43}$' }) });
export interface ClientGetReply {
  /** Absent: the token is unknown or expired, or its session ended. */
  session?: SignInSession;
  /** When the token expires, epoch ms. */
  expires_at?: number;
  /** Path of the resource that the token is for: `/mcp`, or `/mcp/t/<toolset>`. */
  resource?: string;
}

/** `identity.session.live`: whether a session is valid, for work that outlives its request. */
export const SESSION_LIVE = record({
  session_id: text(undefined, { minLength: 1, maxLength: 64 }),
});

/** `identity.sign_out`: ends the session of a browser. */
export const SIGN_OUT = record({
  /** SHA-256 of the secret in its cookie, base64url. */
  digest: text(undefined, { pattern: '^[A-Za-z0-9_-]{43}$' }),
  origin: text(undefined, { minLength: 1, maxLength: 300 }),
});
export type SignOut = Value<typeof SIGN_OUT>;
export interface SignOutReply {
  /** Where the browser goes on to end its session at the company's provider; absent if the provider has no such address. */
  url?: string;
  /** `Set-Cookie` that the page at `url` reads. */
  cookie?: string;
}
