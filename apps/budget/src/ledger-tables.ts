import type { BudgetPeriod, BudgetSubject } from '@toolfleet/contracts/budget';
import {
  createTables,
  each,
  integer,
  maybe,
  oneOf,
  real,
  table,
  text,
  type Migrations,
  type TablesOf,
} from '@toolfleet/database';
import type { Kysely } from 'kysely';

/**
 * One row per call or slice; the columns up to `cache_creation_tokens` are those that existing reports read. The primary key makes a repeated
 * delivery harmless: on PostgreSQL the instant of the charge belongs to it, which a repetition does not change.
 */
export const USAGE = table(
  'token_usage',
  {
    user_id: text,
    task_id: maybe(text),
    ...each(text, 'agent_id', 'provider', 'model'),
    ...each(integer, 'prompt_tokens', 'completion_tokens', 'total_tokens', 'cache_aware_total_tokens'),
    cost_usd: real,
    ...each(integer, 'cache_read_tokens', 'cache_creation_tokens'),
    ...each(text, 'tenant_id', 'call_id', 'kind', 'tool_name'),
    ...each(maybe(text), 'caller_agent_id', 'request_id'),
    /** `success` is 1 or 0, as existing reports sum it. */
    ...each(integer, 'real_tokens', 'micro_usd', 'success'),
    provenance: text,
    ...each(integer, 'ended_at', 'charged_at'),
    day: text,
    /** Set for a slice: the call it belongs to. A slice has an amount but does not count as a call. */
    parent_call_id: maybe(text),
    ...each(maybe(text), 'key_id', 'source'),
  },
  {
    key: ['tenant_id', 'call_id'],
    partitionBy: 'charged_at',
    // The second serves the deletion of old rows on SQLite.
    indexes: { time: { on: ['tenant_id', 'charged_at'] }, charged: { on: ['charged_at'] } },
  },
);

/**
 * Sums of days whose rows are gone, one or more rows per tenant, day, tool, user, agent, key and source; reports add them up. `charged_at` is the
 * start of the day.
 */
const usage_daily = table(
  'usage_daily',
  {
    tenant_id: text,
    charged_at: integer,
    ...each(text, 'day', 'tool_name', 'user_id'),
    ...each(maybe(text), 'caller_agent_id', 'key_id', 'source'),
    ...each(integer, 'calls', 'total_tokens', 'real_tokens', 'micro_usd'),
  },
  { key: [], indexes: { time: { on: ['tenant_id', 'charged_at'] } } },
);

/** Limits that were set over the API. */
const set_budget = table(
  'set_budget',
  {
    tenant_id: text,
    subject: oneOf<BudgetSubject>(),
    subject_id: text,
    period: oneOf<BudgetPeriod>(),
    ...each(maybe(integer), 'micro_usd', 'tokens'),
    changed_at: integer,
    changed_by: text,
  },
  { key: ['tenant_id', 'subject', 'subject_id', 'period'] },
);

/** What Redis should hold, in one row. */
const store_epoch = table(
  'store_epoch',
  {
    id: integer,
    epoch: text,
    kept_at: integer,
    /** The keys that have the epoch, with spaces between them. */
    keys: text,
  },
  { key: ['id'] },
);

const TABLES = { token_usage: USAGE, usage_daily, set_budget, store_epoch };

export type LedgerTables = TablesOf<typeof TABLES>;
export type LedgerDb = Kysely<LedgerTables>;

export const LEDGER_MIGRATIONS: Migrations = {
  name: 'the ledger',
  table: 'ledger_migration',
  all: { '0.1.0': { up: (db) => createTables(db, Object.values(TABLES)) } },
};
