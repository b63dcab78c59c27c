import type { ApprovalRule, ApprovalState, ErrorCode } from '@toolfleet/contracts';
import type { ApprovalPerson, VotedGrant } from '@toolfleet/contracts/approvals';
import type { EventKind } from '@toolfleet/contracts/events';
import type { FinishedCall } from '@toolfleet/contracts/records';
import {
  bytes,
  createTables,
  each,
  flag,
  integer,
  json,
  maybe,
  oneOf,
  prefixedText,
  real,
  serial,
  table,
  text,
  type Migrations,
  type TablesOf,
} from '@toolfleet/database';
import type { Kysely, Selectable, Transaction } from 'kysely';

/**
 * One row per finished call. `position` is the instant of recording in microseconds, made unique: the one order of lists, streams, retention and
 * partitions. Partial indexes cover the few rows that people look for: failures, and calls of programs and agents.
 */
export const CALLS = table(
  'call_record',
  {
    position: integer,
    call_id: prefixedText,
    parent_call_id: maybe(prefixedText),
    ...each(maybe(text), 'request_id', 'trace_id', 'idempotency_key', 'replay_of'),
    ...each(text, 'tenant_id', 'user_id'),
    ...each(maybe(text), 'key_id', 'via'),
    roles: maybe(json<string[]>()),
    ...each(maybe(text), 'agent_id', 'task_id'),
    tool: text,
    ...each(maybe(text), 'revision', 'source', 'toolset', 'kind'),
    ...each(text, 'entry_point', 'origin', 'status', 'transport', 'protocol', 'tool_outcome'),
    ...each(maybe(text), 'code', 'error', 'provenance'),
    attempts: integer,
    retried: maybe(json<NonNullable<FinishedCall['retried']>>()),
    ended_at: integer,
    ...each(real, 'duration_ms', 'admit_ms', 'wait_ms', 'queue_ms', 'execute_ms', 'rest_ms'),
    ...each(integer, 'micro_usd', 'tokens'),
    body_bytes: maybe(integer),
    ...each(maybe(text), 'approval_grant', 'client', 'policy'),
    policy_rules: maybe(json<string[]>()),
    interceptions: maybe(json<string[]>()),
  },
  {
    partitionBy: 'position',
    indexes: {
      id: { on: ['call_id'] },
      tenant: { on: ['tenant_id', 'position'] },
      user: { on: ['tenant_id', 'user_id', 'position'] },
      tool: { on: ['tenant_id', 'tool', 'position'] },
      parent: { on: ['parent_call_id'], where: 'parent_call_id is not null' },
      failure: { on: ['tenant_id', 'position'], where: "status <> 'success'" },
    },
  },
);

/** The batches of the last day, so that one that is delivered again is stored once. */
const call_batch = table(
  'call_batch',
  { batch_id: text, stored_at: integer },
  { indexes: { time: { on: ['stored_at'] } } },
);

/** Sealed arguments and results, by the position of their call; apart, so that searches of calls do not read them. */
export const BODIES = table(
  'call_body',
  { position: integer, ...each(text, 'tenant_id', 'key_id'), sealed: bytes },
  { partitionBy: 'position' },
);

/** Sealed keys of tenants, the newest of which seals. */
const body_key = table(
  'body_key',
  { ...each(text, 'key_id', 'tenant_id', 'sealed'), made_at: integer },
  { indexes: { tenant: { on: ['tenant_id'] } } },
);

/** Readings of bodies by others than the maker of the call. */
const body_reading = table(
  'body_reading',
  {
    reading_id: text,
    position: integer,
    ...each(text, 'tenant_id', 'reader_tenant_id', 'reader_user_id'),
    reader_key_id: maybe(text),
    read_at: integer,
  },
  { indexes: { position: { on: ['position'] }, reader: { on: ['reader_tenant_id', 'reader_user_id'] } } },
);

/** Questions that people answer before a call runs. */
const call_approval = table(
  'call_approval',
  {
    call_id: text,
    program_id: maybe(text),
    ...each(text, 'tenant_id', 'user_id'),
    key_id: maybe(text),
    /** `personId` of the person that asked; absent: it is not known. */
    asker: maybe(text),
    asker_kind: maybe(text),
    ...each(text, 'acting_user_id', 'tool', 'revision', 'fingerprint'),
    /** Identifies the question when the call is made again. */
    ask_key: maybe(text),
    /** The call has an idempotency key; the fleet runs it once it is approved. */
    ...each(flag, 'keyed', 'parked'),
    state: oneOf<ApprovalState>(),
    questions: json<string[]>(),
    rule: json<ApprovalRule>(),
    micro_usd: integer,
    entry_point: text,
    ...each(integer, 'asked_at', 'until'),
    /** When something has to happen next; absent: its call has ended. */
    wake_at: maybe(integer),
    ended_at: maybe(integer),
    code: maybe(oneOf<ErrorCode>()),
    grant_id: maybe(text),
    seal_key_id: text,
    sealed: bytes,
  },
  {
    indexes: {
      key: { on: ['tenant_id', 'ask_key'], unique: true, where: 'ask_key is not null' },
      tenant: { on: ['tenant_id', 'asked_at'] },
      time: { on: ['asked_at'] },
      wake: { on: ['wake_at'], where: 'wake_at is not null' },
      program: { on: ['program_id'], where: 'program_id is not null' },
    },
  },
);

/** Answers to them, one per person. */
const approval_vote = table(
  'approval_vote',
  {
    call_id: text,
    /** `personId` of the voter, and the kind of that person. */
    voter: text,
    voter_kind: maybe(text),
    decision: oneOf<'approve' | 'reject'>(),
    ...each(text, 'tenant_id', 'user_id'),
    ...each(maybe(text), 'key_id', 'note'),
    at: integer,
    granted: maybe(json<VotedGrant>()),
    ...each(maybe(text), 'via', 'session_id'),
  },
  { key: ['call_id', 'voter'] },
);

/** Permissions for later calls that people gave with an approval. */
const approval_grant = table(
  'approval_grant',
  {
    ...each(text, 'grant_id', 'call_id', 'tenant_id', 'user_id'),
    /** Of a requester without a user; absent: all credentials of the user are covered. */
    key_id: maybe(text),
    /** `personId` of the person that asked for the call; absent: it is not known. */
    asker: maybe(text),
    ...each(text, 'acting_user_id', 'tool', 'revision'),
    rule: json<ApprovalRule>(),
    /** Arguments that may differ. */
    fields: json<string[]>(),
    ...each(integer, 'granted_at', 'until'),
    /** Those that agreed. */
    granted_by: json<ApprovalPerson[]>(),
    max_uses: maybe(integer),
    uses: integer,
    ...each(maybe(integer), 'last_used_at', 'revoked_at'),
    revoked_by: maybe(json<ApprovalPerson>()),
    seal_key_id: text,
    /** The arguments that may not differ, and their digest with the key that seals them. */
    sealed: bytes,
    digest: text,
  },
  {
    indexes: {
      owner: { on: ['tenant_id', 'user_id', 'tool', 'until'] },
      time: { on: ['granted_at'] },
    },
  },
);

/** The calls that a grant let through. */
const approval_grant_use = table(
  'approval_grant_use',
  { ...each(text, 'grant_id', 'use_key', 'call_id'), used_at: integer },
  { key: ['grant_id', 'use_key'] },
);

/** Events that other services report, so that one that is reported again is known. For the end of a call, its own row is enough. */
const fleet_event = table(
  'fleet_event',
  { ...each(text, 'event_id', 'tenant_id'), user_id: maybe(text), kind: text, seen_at: integer },
  { indexes: { seen: { on: ['seen_at'] }, tenant: { on: ['tenant_id'] } } },
);

/** Receivers of events. */
const webhook_endpoint = table(
  'webhook_endpoint',
  {
    ...each(text, 'endpoint_id', 'tenant_id', 'url'),
    description: maybe(text),
    kinds: json<EventKind[]>(),
    /** Empty lists let all pass. */
    ...each(json<string[]>(), 'tools', 'toolsets'),
    state: oneOf<'on' | 'off' | 'gone'>(),
    reason: maybe(text),
    failing_since: maybe(integer),
    last_error: maybe(text),
    /** Sealed. */
    secret: text,
    previous_secret: maybe(text),
    previous_until: maybe(integer),
    created_at: integer,
    created_by: text,
  },
  { indexes: { tenant: { on: ['tenant_id'] } } },
);

/** Events for each of them, stored before they are sent. */
const webhook_delivery = table(
  'webhook_delivery',
  {
    position: serial,
    ...each(text, 'endpoint_id', 'tenant_id'),
    user_id: maybe(text),
    /** `payload` is the JSON that is signed. */
    ...each(text, 'event_id', 'kind', 'payload'),
    state: oneOf<'pending' | 'delivered' | 'failed'>(),
    ...each(integer, 'attempts', 'event_at'),
    /** When the next attempt is due; while one runs, when it counts as lost. */
    next_at: integer,
    give_up_at: integer,
    ...each(maybe(integer), 'ended_at', 'status'),
    error: maybe(text),
    duration_ms: maybe(integer),
  },
  {
    indexes: {
      event: { on: ['endpoint_id', 'event_id'], unique: true },
      log: { on: ['endpoint_id', 'position'] },
      pending: { on: ['endpoint_id', 'next_at'], where: "state = 'pending'" },
      tenant: { on: ['tenant_id'] },
      ended: { on: ['ended_at'], where: 'ended_at is not null' },
    },
  },
);

const TABLES = {
  ...{
    call_record: CALLS,
    call_batch,
    call_body: BODIES,
    body_key,
    body_reading,
    call_approval,
    approval_vote,
    approval_grant,
  },
  ...{ approval_grant_use, fleet_event, webhook_endpoint, webhook_delivery },
};

export type RecordTables = TablesOf<typeof TABLES>;
/** A row of a table. */
export type RecordsRow<Name extends keyof RecordTables> = Selectable<RecordTables[Name]>;
export type RecordsDb = Kysely<RecordTables>;
export type RecordsTx = Transaction<RecordTables>;

export const RECORDS_MIGRATIONS: Migrations = {
  name: 'the store of calls',
  table: 'records_migration',
  all: { '0.1.0': { up: (db) => createTables(db, Object.values(TABLES)) } },
};
