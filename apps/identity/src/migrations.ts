import type { Migration, Migrations } from '@toolfleet/database';
import { oauth } from './oauth/migrations.js';
import { signIn } from './sign-in/migrations.js';

/**
 * `sign_in_session` has one row per sign-in of a browser, found by the SHA-256 of the secret in its cookie. `sealed` has the tokens of
 * the OpenID provider, sealed with `IDENTITY_SECRET_KEYS`.
 */
const sessions: Migration = {
  async up(db) {
    await db.schema
      .createTable('sign_in_session')
      .addColumn('session_id', 'text', (column) => column.primaryKey())
      .addColumn('digest', 'text', (column) => column.notNull().unique())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('roles', 'text', (column) => column.notNull())
      .addColumn('groups', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .addColumn('revoked_at', 'bigint')
      .addColumn('issuer', 'text')
      .addColumn('subject', 'text')
      .addColumn('sid', 'text')
      .addColumn('sealed', 'text')
      .execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`sign_in_session_${name}`).on('sign_in_session').columns(columns).execute();
    await index('user', ['tenant_id', 'user_id']);
    await index('subject', ['issuer', 'subject']);
    await index('sid', ['issuer', 'sid']);
    await index('end', ['expires_at']);
  },
};

/**
 * `user_grant` has the credential of a user for a source, at most one for each, sealed with `IDENTITY_SECRET_KEYS`. `generation` fences
 * the refreshes of its tokens, and `refresher` has the right to the next one.
 */
const grants: Migration = {
  async up(db) {
    await db.schema
      .createTable('user_grant')
      .addColumn('grant_id', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('source', 'text', (column) => column.notNull())
      .addColumn('mode', 'text', (column) => column.notNull())
      .addColumn('binding', 'text', (column) => column.notNull())
      .addColumn('scopes', 'text')
      .addColumn('generation', 'integer', (column) => column.notNull())
      .addColumn('sealed', 'text', (column) => column.notNull())
      .addColumn('expires_at', 'bigint')
      .addColumn('refresher', 'text')
      .addColumn('refresh_until', 'bigint')
      .addColumn('reason', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .addUniqueConstraint('user_grant_owner', ['tenant_id', 'user_id', 'source'])
      .execute();
  },
};

/** `connect_attempt` has users that are at an authorization server, by the SHA-256 of the state that comes back. */
const attempts: Migration = {
  async up(db) {
    await db.schema.alterTable('user_grant').addColumn('rotates', 'integer').execute();
    await db.schema.alterTable('user_grant').addColumn('auth', 'text').execute();
    await db.schema
      .createTable('connect_attempt')
      .addColumn('digest', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('source', 'text', (column) => column.notNull())
      .addColumn('auth', 'text', (column) => column.notNull())
      .addColumn('redirect_uri', 'text', (column) => column.notNull())
      .addColumn('sealed', 'text', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .execute();
  },
};

/** `refresh_since` bounds the second use of a refresh token whose outcome is unknown (`refresh_grace_seconds`). */
const refreshGrace: Migration = {
  async up(db) {
    await db.schema.alterTable('user_grant').addColumn('refresh_since', 'bigint').execute();
  },
};

/** The provider is asked again about users who are signed in. Its tokens belong to a session, so that each refreshes its own. */
const asks: Migration = {
  async up(db) {
    for (const column of ['asked_at', 'ask_at'])
      await db.schema.alterTable('sign_in_session').addColumn(column, 'bigint').execute();
    await db.schema.createIndex('sign_in_session_ask').on('sign_in_session').column('ask_at').execute();
  },
};

/** The migrations of the service. */
export const IDENTITY_MIGRATIONS: Migrations = {
  name: 'the store of sessions and grants',
  table: 'identity_migration',
  all: {
    '0001-sessions': sessions,
    '0002-sign-in': signIn,
    '0003-oauth': oauth,
    '0004-grants': grants,
    '0005-attempts': attempts,
    '0006-refresh-grace': refreshGrace,
    '0007-asks': asks,
  },
};
