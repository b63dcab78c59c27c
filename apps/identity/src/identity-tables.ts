import type { UserAuth, UserAuthMode } from '@toolfleet/contracts/user-auth';
import {
  createTables,
  each,
  flag,
  integer,
  json,
  maybe,
  oneOf,
  table,
  text,
  type Migrations,
  type TablesOf,
} from '@toolfleet/database';
import type { Kysely, Selectable } from 'kysely';

/** One row per sign-in, of a browser or of an OAuth client. */
const sign_in_session = table(
  'sign_in_session',
  {
    session_id: text,
    /** SHA-256 of the secret in the cookie of the browser. */
    digest: text,
    ...each(text, 'tenant_id', 'user_id'),
    ...each(json<string[]>(), 'roles', 'groups'),
    ...each(integer, 'created_at', 'expires_at'),
    revoked_at: maybe(integer),
    ...each(maybe(text), 'issuer', 'subject', 'sid'),
    /** The OAuth client of the session; absent for browsers. */
    ...each(maybe(text), 'client_id', 'client_name'),
    /** When the provider last confirmed the user; absent: at the sign-in. When it is asked next; absent: it cannot be asked. */
    ...each(maybe(integer), 'asked_at', 'ask_at'),
  },
  {
    indexes: {
      digest: { on: ['digest'], unique: true },
      user: { on: ['tenant_id', 'user_id'] },
      subject: { on: ['issuer', 'subject'] },
      sid: { on: ['issuer', 'sid'] },
      end: { on: ['expires_at'] },
      ask: { on: ['ask_at'] },
    },
  },
);

/** States of sign-ins and ids of logout tokens that were used, by their SHA-256, until they would be refused anyway. */
const used_once = table(
  'used_once',
  { digest: text, expires_at: integer },
  { indexes: { end: { on: ['expires_at'] } } },
);

/** Codes, tokens, grants, interactions and registered clients of the authorization server. */
const oauth_record = table(
  'oauth_record',
  {
    /** SHA-256 of the kind and the id: an id is often the token itself. */
    digest: text,
    kind: text,
    ...each(maybe(text), 'grant_id', 'uid'),
    sealed: text,
    consumed_at: maybe(integer),
    expires_at: integer,
  },
  { indexes: { grant: { on: ['grant_id'] }, uid: { on: ['kind', 'uid'] }, end: { on: ['expires_at'] } } },
);

/** Credentials of users for sources, at most one for each. */
const user_grant = table(
  'user_grant',
  {
    ...each(text, 'grant_id', 'tenant_id', 'user_id', 'source'),
    mode: oneOf<UserAuthMode>(),
    /** Hash of what the credential is bound to. */
    binding: text,
    /** Space-separated; absent: none are known. */
    scopes: maybe(text),
    /** Counts the credentials; each stored one has a new number, which fences the refreshes of its tokens. */
    generation: integer,
    /** JSON of the credential, sealed for this grant. */
    sealed: text,
    /** End of the access token; absent: it has none. */
    expires_at: maybe(integer),
    /** Who refreshes this generation, and until when it holds the right to. */
    refresher: maybe(text),
    refresh_until: maybe(integer),
    /** When the refresh token of this generation was first sent. */
    refresh_since: maybe(integer),
    /** Whether the authorization server replaces refresh tokens; absent while that is not known. */
    rotates: maybe(flag),
    /** `auth.user` of the source; absent for personal keys. */
    auth: maybe(json<UserAuth>()),
    /** Why the credential can no longer be used. */
    reason: maybe(text),
    ...each(integer, 'created_at', 'updated_at'),
  },
  { indexes: { owner: { on: ['tenant_id', 'user_id', 'source'], unique: true } } },
);

/** Users that are at an authorization server. */
const connect_attempt = table('connect_attempt', {
  /** SHA-256 of the state. */
  digest: text,
  ...each(text, 'tenant_id', 'user_id', 'source'),
  auth: json<UserAuth>(),
  redirect_uri: text,
  /** JSON of state and PKCE verifier, sealed for the attempt. */
  sealed: text,
  expires_at: integer,
});

const TABLES = { sign_in_session, used_once, oauth_record, user_grant, connect_attempt };

type IdentityTables = TablesOf<typeof TABLES>;
/** A row of a table. */
export type IdentityRow<Name extends keyof IdentityTables> = Selectable<IdentityTables[Name]>;
export type IdentityDb = Kysely<IdentityTables>;

export const IDENTITY_MIGRATIONS: Migrations = {
  name: 'the store of sessions and grants',
  table: 'identity_migration',
  all: { '0.1.0': { up: (db) => createTables(db, Object.values(TABLES)) } },
};
