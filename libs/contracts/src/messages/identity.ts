import { flag, integer, maybe, record, text, type Value } from '../json-schema.js';
import type { EpochMs, Milliseconds } from '../units.js';
import { BOUND_USER_AUTH, type UserAuthMode } from '../user-auth.js';

const ID = text(undefined, { minLength: 1, maxLength: 255 });
/** SHA-256 of the secret that a browser holds, base64url. The service gives the secret to the browser and forgets it. */
const DIGEST = text(undefined, { pattern: '^[A-Za-z0-9_-]{43}$' });
const URL_TEXT = text(undefined, { minLength: 1, maxLength: 2_000 });

/** Who an OpenID provider says that the user is, and its session there (`sid`), for logouts that the provider begins. */
const PROVIDER = record({ issuer: URL_TEXT, subject: ID, sid: maybe(ID) });

/** A sign-in session. It ends at `expires_at`, or earlier when it is revoked. */
export interface SignInSession {
  /** Public name of the session; the secret of its browser cannot be derived from it. */
  session_id: string;
  tenant_id: string;
  user_id: string;
  roles: string[];
  groups: string[];
  created_at: EpochMs;
  expires_at: EpochMs;
  /** When the provider last confirmed the user; absent where it cannot be asked again. */
  asked_at?: EpochMs;
  provider?: Value<typeof PROVIDER>;
  /** The OAuth client that the user connected; absent: a browser. The name is its own. */
  client?: { id: string; name?: string };
}

/** `identity.session.get`: the session of a browser, while it is valid. */
export const SESSION_GET = record({ digest: DIGEST });

/** `identity.session.revoke`: ends the valid sessions of a user. */
export const SESSION_REVOKE = record({ tenant_id: ID, user_id: ID });
export interface SessionRevokeReply {
  revoked: number;
  /** Up to 1,000 of them. */
  ended: SignInSession[];
}

const SOURCE = text(undefined, { pattern: '^(mcp|openapi)/[^/]{1,250}$' });
/** The source of a tool, and its `auth.user`. */
const OF_SOURCE = { source: SOURCE, auth: BOUND_USER_AUTH };
const OF_USER = { tenant_id: ID, user_id: ID };

/** `identity.grant.find`: whether a user has a credential for a source. */
export const GRANT_FIND = record({
  ...OF_USER,
  ...OF_SOURCE,
  /** How the caller proves its sign-in, for the modes `exchange` and `id_jag`: a session, the token that it presented and its end, */
  session_id: maybe(ID),
  subject_token: maybe(text(undefined, { minLength: 1, maxLength: 8_192 })),
  subject_until: maybe(integer()),
  /** or that it proved it when the call was accepted. */
  is_continued: maybe(flag()),
});
export type GrantFind = Value<typeof GRANT_FIND>;
export interface GrantFindReply {
  /** Changes whenever the user connects again, so that nothing of another account is reused. Absent: the user has to connect first. */
  grant_id?: string;
  /** Why the grant that was there can no longer be used. */
  reason?: string;
}

/** `identity.grant.put`: a personal key for a source. */
export const GRANT_PUT = record({
  ...OF_USER,
  ...OF_SOURCE,
  api_key: text(undefined, { minLength: 1, maxLength: 8_192 }),
});
export type GrantPut = Value<typeof GRANT_PUT>;

/** `identity.grant.authorize`: begins the sign-in of a user at the authorization server of a source. */
export const GRANT_AUTHORIZE = record({ ...OF_USER, ...OF_SOURCE, redirect_uri: URL_TEXT });
export type GrantAuthorize = Value<typeof GRANT_AUTHORIZE>;

/** `identity.grant.finish`: the browser came back. REQUEST_INVALID: unknown, used or expired, or of another user. */
export const GRANT_FINISH = record({
  ...OF_USER,
  /** The query of the redirect: `code`, `state`, `iss`, `error`. */
  redirect: text(undefined, { minLength: 1, maxLength: 16_384 }),
  /** The address without its query. */
  redirect_uri: URL_TEXT,
});
export type GrantFinish = Value<typeof GRANT_FINISH>;

/** A grant without its credential. */
export interface UserGrant {
  grant_id: string;
  tenant_id: string;
  user_id: string;
  source: string;
  mode: UserAuthMode;
  /** Scopes that the authorization server granted. */
  scopes?: string[];
  created_at: EpochMs;
  updated_at: EpochMs;
  /** Why the user has to connect again. */
  reason?: string;
}

/** `identity.grant.list`: grants of a tenant or of one of its users, up to 1,000. */
export const GRANT_LIST = record({ tenant_id: ID, user_id: maybe(ID) });

/** `identity.grant.revoke`: deletes the credentials of a user, of one source or of all. */
export const GRANT_REVOKE = record({ ...OF_USER, source: maybe(SOURCE) });
export type GrantRevoke = Value<typeof GRANT_REVOKE>;

/** `identity.grant.token`: the credential of a call, for its executor. */
export const GRANT_TOKEN = record({
  /** The token of the call (`ExecContext.grant_token`). */
  token: text(undefined, { minLength: 1, maxLength: 8_192 }),
  /** The upstream refused the credential of this generation. */
  refused: maybe(integer()),
});
export type GrantToken = Value<typeof GRANT_TOKEN>;
export interface GrantTokenReply {
  /** `key`: as the user entered it. `token`: an OAuth access token. */
  kind: 'key' | 'token';
  value: string;
  /** Counts the credentials of the grant. */
  generation: number;
  /** For how long the executor may use it. */
  lives_ms: Milliseconds;
}

/** `identity.grant.changed`: published when users connected again, or grants were revoked; others must forget them. */
export interface GrantsChanged {
  grants: { tenant_id: string; user_id: string; source: string; grant_id: string }[];
}

/** `identity.user.changed`: published with each answer of the provider; gateways bound the keys that the user made by these roles. */
export interface UserChanged {
  tenant_id: string;
  user_id: string;
  roles: string[];
}
