import { flag, maybe, record, text, type Value } from '../json-schema.js';
import type { EpochMs } from '../units.js';

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
  provider?: Value<typeof PROVIDER>;
  /** The OAuth client that the user connected; absent: a browser. The name is its own. */
  client?: { id: string; name?: string };
}

/** `identity.session.get`: the session of a browser, while it is valid. */
export const SESSION_GET = record({ digest: DIGEST });
export type SessionGet = Value<typeof SESSION_GET>;
export interface SessionGetReply {
  /** Absent: unknown, expired or revoked. */
  session?: SignInSession;
}

/** `identity.session.list`: the valid sessions of a tenant or of one of its users, newest first, up to 1,000. */
export const SESSION_LIST = record({ tenant_id: ID, user_id: maybe(ID) });
export type SessionList = Value<typeof SESSION_LIST>;
export interface SessionListReply {
  sessions: SignInSession[];
}

/**
 * `identity.session.revoke`: ends the valid sessions that match all members. At least one member is given: `digest` for a sign-out,
 * `tenant_id` with `session_id` or `user_id` for people, `issuer` with `sid` or `subject` for a logout of the provider.
 */
export const SESSION_REVOKE = record({
  digest: maybe(DIGEST),
  tenant_id: maybe(ID),
  session_id: maybe(ID),
  user_id: maybe(ID),
  issuer: maybe(URL_TEXT),
  sid: maybe(ID),
  subject: maybe(ID),
  /** Reply with the ID token, for the logout at the provider. Only for one session, by its digest. */
  with_id_token: maybe(flag()),
});
export type SessionRevoke = Value<typeof SESSION_REVOKE>;
export interface SessionRevokeReply {
  revoked: number;
  /** `id_token_hint` of the revoked session (OpenID Connect RP-Initiated Logout 1.0). */
  id_token?: string;
}
