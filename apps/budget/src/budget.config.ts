import {
  defineConfig,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  NATS_KEYS,
  TENANT_QUOTAS,
  number,
  path,
  REDIS_KEYS,
  secret,
  url,
  type SettingsOf,
} from '@toolfleet/service';

/** All environment variables of the budget service. Money is in USD here and in integer micro-USD everywhere else. */
export const budgetConfig = defineConfig('budget', {
  ...NATS_KEYS,
  TENANT_QUOTAS,
  ...REDIS_KEYS,
  DATABASE_URL: url({
    optional: true,
    schemes: ['postgres', 'postgresql'],
    help: 'PostgreSQL of the usage ledger; unset means the embedded SQLite, which allows one replica',
  }),
  DATABASE_PASSWORD: secret({ optional: true, help: 'Password for PostgreSQL; overrides the one in the URL' }),
  DATABASE_TLS_CA: path({
    optional: true,
    must: 'file',
    help: 'CA file of PostgreSQL; requires TLS with a verified host name',
  }),
  BUDGET_DATABASE_PATH: path({
    default: '.toolfleet/data/budget.db',
    help: 'File of the embedded usage ledger; not used with DATABASE_URL',
  }),
  BUDGET_LEDGER_RETENTION_DAYS: integer({
    optional: true,
    min: 2,
    max: 36_500,
    help: 'Days for which the ledger keeps a row per call; older days become sums per tenant, tool, user and agent; unset keeps all rows',
  }),
  ...FLEET_FILE_KEYS,
  MAX_COST_PER_REQUEST: number({ default: 0.5, min: 0, help: 'USD that all calls of one request may cost' }),
  MAX_TOKENS_PER_REQUEST: integer({ default: 10_000, min: 0, help: 'Tokens that all calls of one request may use' }),
  TOKEN_BUDGET_PER_AGENT: integer({
    default: 5_000,
    min: 0,
    help: 'Tokens an agent may use; reset after 24 h without calls; applies when the caller sets agent_id',
  }),
  TOKEN_BUDGET_PER_TASK: integer({
    default: 20_000,
    min: 0,
    help: 'Tokens a task may use; reset after 24 h without calls; applies when the caller sets task_id',
  }),
  COST_BUDGET_PER_AGENT: number({ optional: true, min: 0, help: 'USD an agent may cost; unset means no limit' }),
  COST_BUDGET_PER_TASK: number({ optional: true, min: 0, help: 'USD a task may cost; unset means no limit' }),
  MAX_COST_PER_DAY: number({
    optional: true,
    min: 0,
    help: 'USD a tenant may spend per UTC day; unset means no limit',
  }),
  MAX_TOKENS_PER_DAY: integer({
    optional: true,
    min: 0,
    help: 'Tokens a tenant may use per UTC day; unset means no limit',
  }),
  MAX_COST_PER_TENANT: number({
    optional: true,
    min: 0,
    help: 'USD a tenant may spend in total; unset means no limit',
  }),
  MAX_TOKENS_PER_TENANT: integer({
    optional: true,
    min: 0,
    help: 'Tokens a tenant may use in total; unset means no limit',
  }),
  BUDGET_STORE_TIMEOUT_MS: durationMs({
    default: 2_000,
    min: 50,
    max: 30_000,
    help: 'Longest wait for Redis before calls are refused with BUDGET_UNAVAILABLE',
  }),
  BUDGET_ID_MEMORY_MS: durationMs({
    default: 86_400_000,
    min: 60_000,
    max: 604_800_000,
    help: 'How long charged call ids are remembered to prevent charging a call twice',
  }),
  BUDGET_OUTBOX_CAP: integer({
    default: 100_000,
    min: 1,
    help: 'Rows a tenant may have in the outbox to the ledger; above it, new calls are refused',
  }),
  BUDGET_UPKEEP_MS: durationMs({
    default: 250,
    min: 10,
    max: 60_000,
    help: 'Pause between two rounds that move usage to the ledger and charge expired leases',
  }),
});
export type BudgetConfig = SettingsOf<(typeof budgetConfig)['table']>;
