import type { Migration, Migrations } from '@toolfleet/database';
import { PostgresAdapter, sql } from 'kysely';

/**
 * `call_record` has one row per finished call. `position` is the instant of recording in microseconds, made unique: the one order of
 * lists, streams, retention and partitions. PostgreSQL partitions by its day. `call_batch` has the batches of the last day, so that a
 * batch that is delivered again is stored once.
 *
 * Partial indexes cover the few rows that people look for: failures, and calls of programs and agents.
 */
const calls: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    // Ids are searched by their start, which an index serves in the order of bytes only.
    const id = isPostgres ? sql`text collate "C"` : ('text' as const);
    const real = 'double precision' as const;
    const table = db.schema
      .createTable('call_record')
      .addColumn('position', isPostgres ? 'bigint' : 'integer', (column) => column.primaryKey())
      .addColumn('call_id', id, (column) => column.notNull())
      .addColumn('parent_call_id', id)
      .addColumn('request_id', 'text')
      .addColumn('trace_id', 'text')
      .addColumn('idempotency_key', 'text')
      .addColumn('replay_of', 'text')
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text')
      .addColumn('agent_id', 'text')
      .addColumn('task_id', 'text')
      .addColumn('tool', 'text', (column) => column.notNull())
      .addColumn('revision', 'text')
      .addColumn('source', 'text')
      .addColumn('toolset', 'text')
      .addColumn('kind', 'text')
      .addColumn('entry_point', 'text', (column) => column.notNull())
      .addColumn('origin', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('transport', 'text', (column) => column.notNull())
      .addColumn('protocol', 'text', (column) => column.notNull())
      .addColumn('tool_outcome', 'text', (column) => column.notNull())
      .addColumn('code', 'text')
      .addColumn('error', 'text')
      .addColumn('provenance', 'text')
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('retried', 'text')
      .addColumn('ended_at', 'bigint', (column) => column.notNull())
      .addColumn('duration_ms', real, (column) => column.notNull())
      .addColumn('admit_ms', real, (column) => column.notNull())
      .addColumn('wait_ms', real, (column) => column.notNull())
      .addColumn('queue_ms', real, (column) => column.notNull())
      .addColumn('execute_ms', real, (column) => column.notNull())
      .addColumn('rest_ms', real, (column) => column.notNull())
      .addColumn('micro_usd', 'bigint', (column) => column.notNull())
      .addColumn('tokens', 'bigint', (column) => column.notNull());
    await (isPostgres ? table.modifyEnd(sql`partition by range (position)`) : table).execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`call_record_${name}`).on('call_record').columns(columns);
    await index('id', ['call_id']).execute();
    await index('tenant', ['tenant_id', 'position']).execute();
    await index('tool', ['tenant_id', 'tool', 'position']).execute();
    await index('parent', ['parent_call_id']).where(sql.ref('parent_call_id'), 'is not', null).execute();
    await index('failure', ['tenant_id', 'position']).where(sql.ref('status'), '<>', sql.lit('success')).execute();
    await db.schema
      .createTable('call_batch')
      .addColumn('batch_id', 'text', (column) => column.primaryKey())
      .addColumn('stored_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('call_batch_time').on('call_batch').columns(['stored_at']).execute();
  },
};

/**
 * `call_body` has the sealed arguments and results of calls, by the position of the call; `body_key` the sealed keys of tenants;
 * `body_reading` who read a body other than the caller. They are apart from `call_record`, so that searches do not read them.
 */
const bodies: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    await db.schema.alterTable('call_record').addColumn('body_bytes', 'integer').execute();
    const body = db.schema
      .createTable('call_body')
      .addColumn('position', isPostgres ? 'bigint' : 'integer', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text', (column) => column.notNull())
      .addColumn('sealed', isPostgres ? 'bytea' : 'blob', (column) => column.notNull());
    await (isPostgres ? body.modifyEnd(sql`partition by range (position)`) : body).execute();
    await db.schema
      .createTable('body_key')
      .addColumn('key_id', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('sealed', 'text', (column) => column.notNull())
      .addColumn('made_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('body_key_tenant').on('body_key').columns(['tenant_id']).execute();
    await db.schema
      .createTable('body_reading')
      .addColumn('reading_id', 'text', (column) => column.primaryKey())
      .addColumn('position', 'bigint', (column) => column.notNull())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('reader_tenant_id', 'text', (column) => column.notNull())
      .addColumn('reader_user_id', 'text', (column) => column.notNull())
      .addColumn('reader_key_id', 'text')
      .addColumn('read_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('body_reading_position').on('body_reading').columns(['position']).execute();
    await db.schema
      .createIndex('body_reading_reader')
      .on('body_reading')
      .columns(['reader_tenant_id', 'reader_user_id'])
      .execute();
  },
};

/** What policies decide by besides: how the caller authenticated, and its roles as a JSON list. Null in rows of earlier releases. */
const caller: Migration = {
  async up(db) {
    await db.schema.alterTable('call_record').addColumn('via', 'text').execute();
    await db.schema.alterTable('call_record').addColumn('roles', 'text').execute();
  },
};

/**
 * `call_approval` has the questions that people answer before a call runs, with its arguments sealed; `approval_vote` their answers,
 * one per user. `wake_at` is the next instant at which something has to happen.
 */
const approvals: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    await db.schema
      .createTable('call_approval')
      .addColumn('call_id', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text')
      .addColumn('acting_user_id', 'text', (column) => column.notNull())
      .addColumn('tool', 'text', (column) => column.notNull())
      .addColumn('revision', 'text', (column) => column.notNull())
      .addColumn('fingerprint', 'text', (column) => column.notNull())
      .addColumn('ask_key', 'text')
      .addColumn('keyed', 'integer', (column) => column.notNull())
      .addColumn('parked', 'integer', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('questions', 'text', (column) => column.notNull())
      .addColumn('rule', 'text', (column) => column.notNull())
      .addColumn('micro_usd', 'bigint', (column) => column.notNull())
      .addColumn('entry_point', 'text', (column) => column.notNull())
      .addColumn('asked_at', 'bigint', (column) => column.notNull())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .addColumn('wake_at', 'bigint')
      .addColumn('ended_at', 'bigint')
      .addColumn('code', 'text')
      .addColumn('seal_key_id', 'text', (column) => column.notNull())
      .addColumn('sealed', isPostgres ? 'bytea' : 'blob', (column) => column.notNull())
      .execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`call_approval_${name}`).on('call_approval').columns(columns);
    await index('key', ['tenant_id', 'ask_key']).unique().where(sql.ref('ask_key'), 'is not', null).execute();
    await index('tenant', ['tenant_id', 'asked_at']).execute();
    await index('time', ['asked_at']).execute();
    await index('wake', ['wake_at']).where(sql.ref('wake_at'), 'is not', null).execute();
    await db.schema
      .createTable('approval_vote')
      .addColumn('call_id', 'text', (column) => column.notNull())
      .addColumn('voter', 'text', (column) => column.notNull())
      .addColumn('decision', 'text', (column) => column.notNull())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text')
      .addColumn('note', 'text')
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('approval_vote_key', ['call_id', 'voter'])
      .execute();
  },
};

/**
 * `fleet_event` has the events that other services report, so that one that is reported again is known. The end of a call has no row
 * there: that of the call is enough. `webhook_endpoint` has the receivers, `webhook_delivery` what each receives, before it is
 * attempted; a row is unique by endpoint and event.
 */
const webhooks: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    await db.schema
      .createTable('fleet_event')
      .addColumn('event_id', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text')
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('seen_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('fleet_event_seen').on('fleet_event').columns(['seen_at']).execute();
    await db.schema.createIndex('fleet_event_tenant').on('fleet_event').columns(['tenant_id']).execute();
    await db.schema
      .createTable('webhook_endpoint')
      .addColumn('endpoint_id', 'text', (column) => column.primaryKey())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('url', 'text', (column) => column.notNull())
      .addColumn('description', 'text')
      .addColumn('kinds', 'text', (column) => column.notNull())
      .addColumn('tools', 'text', (column) => column.notNull())
      .addColumn('toolsets', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('reason', 'text')
      .addColumn('failing_since', 'bigint')
      .addColumn('last_error', 'text')
      .addColumn('secret', 'text', (column) => column.notNull())
      .addColumn('previous_secret', 'text')
      .addColumn('previous_until', 'bigint')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('created_by', 'text', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('webhook_endpoint_tenant').on('webhook_endpoint').columns(['tenant_id']).execute();
    await db.schema
      .createTable('webhook_delivery')
      .addColumn('position', isPostgres ? 'bigserial' : 'integer', (column) => column.primaryKey())
      .addColumn('endpoint_id', 'text', (column) => column.notNull())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text')
      .addColumn('event_id', 'text', (column) => column.notNull())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('payload', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('event_at', 'bigint', (column) => column.notNull())
      .addColumn('next_at', 'bigint', (column) => column.notNull())
      .addColumn('give_up_at', 'bigint', (column) => column.notNull())
      .addColumn('ended_at', 'bigint')
      .addColumn('status', 'integer')
      .addColumn('error', 'text')
      .addColumn('duration_ms', 'integer')
      .execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`webhook_delivery_${name}`).on('webhook_delivery').columns(columns);
    await index('event', ['endpoint_id', 'event_id']).unique().execute();
    await index('log', ['endpoint_id', 'position']).execute();
    await index('pending', ['endpoint_id', 'next_at']).where(sql.ref('state'), '=', sql.lit('pending')).execute();
    await index('tenant', ['tenant_id']).execute();
    await index('ended', ['ended_at']).where(sql.ref('ended_at'), 'is not', null).execute();
  },
};

/**
 * `approval_grant` has what people allow besides the call that they approved, with the arguments that may not differ sealed;
 * `approval_grant_use` each call that it let through.
 */
const approvalGrants: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    await db.schema.alterTable('call_record').addColumn('approval_grant', 'text').execute();
    await db.schema.alterTable('call_approval').addColumn('grant_id', 'text').execute();
    await db.schema.alterTable('approval_vote').addColumn('granted', 'text').execute();
    await db.schema
      .createTable('approval_grant')
      .addColumn('grant_id', 'text', (column) => column.primaryKey())
      .addColumn('call_id', 'text', (column) => column.notNull())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text')
      .addColumn('acting_user_id', 'text', (column) => column.notNull())
      .addColumn('tool', 'text', (column) => column.notNull())
      .addColumn('revision', 'text', (column) => column.notNull())
      .addColumn('rule', 'text', (column) => column.notNull())
      .addColumn('fields', 'text', (column) => column.notNull())
      .addColumn('granted_at', 'bigint', (column) => column.notNull())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .addColumn('granted_by', 'text', (column) => column.notNull())
      .addColumn('max_uses', 'integer')
      .addColumn('uses', 'integer', (column) => column.notNull())
      .addColumn('last_used_at', 'bigint')
      .addColumn('revoked_at', 'bigint')
      .addColumn('revoked_by', 'text')
      .addColumn('seal_key_id', 'text', (column) => column.notNull())
      .addColumn('sealed', isPostgres ? 'bytea' : 'blob', (column) => column.notNull())
      .addColumn('digest', 'text', (column) => column.notNull())
      .execute();
    const index = (name: string, columns: string[]) =>
      db.schema.createIndex(`approval_grant_${name}`).on('approval_grant').columns(columns);
    await index('owner', ['tenant_id', 'user_id', 'tool', 'until']).execute();
    await index('time', ['granted_at']).execute();
    await db.schema
      .createTable('approval_grant_use')
      .addColumn('grant_id', 'text', (column) => column.notNull())
      .addColumn('use_key', 'text', (column) => column.notNull())
      .addColumn('call_id', 'text', (column) => column.notNull())
      .addColumn('used_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('approval_grant_use_key', ['grant_id', 'use_key'])
      .execute();
  },
};

/** The calls of one user, which a user looks for more often than for all of its tenant. */
const callsOfUsers: Migration = {
  async up(db) {
    const index = db.schema.createIndex('call_record_user').on('call_record');
    await index.columns(['tenant_id', 'user_id', 'position']).execute();
  },
};

/** Approvals of calls of programs, which wait for one of them at a time. */
const programs: Migration = {
  async up(db) {
    await db.schema.alterTable('call_approval').addColumn('program_id', 'text').execute();
    await db.schema
      .createIndex('call_approval_program')
      .on('call_approval')
      .columns(['program_id'])
      .where(sql.ref('program_id'), 'is not', null)
      .execute();
  },
};

/** The program that made a call, what the policy decided, and its rules that did as a JSON list. Null in rows of earlier releases. */
const decisions: Migration = {
  async up(db) {
    for (const column of ['client', 'policy', 'policy_rules'])
      await db.schema.alterTable('call_record').addColumn(column, 'text').execute();
  },
};

/**
 * The persons behind the credentials that asked and voted. `asker` has the form of `voter`, which names the person where its kind is known.
 * Null in rows of earlier releases.
 */
const persons: Migration = {
  async up(db) {
    await db.schema.alterTable('call_approval').addColumn('asker', 'text').execute();
    await db.schema.alterTable('call_approval').addColumn('asker_kind', 'text').execute();
    await db.schema.alterTable('approval_vote').addColumn('voter_kind', 'text').execute();
    await db.schema.alterTable('approval_grant').addColumn('asker', 'text').execute();
  },
};

/** The credentials with which people voted. */
const credentials: Migration = {
  async up(db) {
    await db.schema.alterTable('approval_vote').addColumn('via', 'text').execute();
    await db.schema.alterTable('approval_vote').addColumn('session_id', 'text').execute();
  },
};

/** The migrations of the records of calls. */
export const RECORDS_MIGRATIONS: Migrations = {
  name: 'the store of calls',
  table: 'records_migration',
  all: {
    '0001-calls': calls,
    '0002-bodies': bodies,
    '0003-caller': caller,
    '0004-approvals': approvals,
    '0005-webhooks': webhooks,
    '0006-approval-grants': approvalGrants,
    '0007-calls-of-users': callsOfUsers,
    '0008-programs': programs,
    '0009-decisions': decisions,
    '0010-persons': persons,
    '0011-credentials': credentials,
  },
};
