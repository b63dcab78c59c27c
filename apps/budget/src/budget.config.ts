import {
  defineConfig,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  NATS_KEYS,
  number,
  path,
  REDIS_KEYS,
  secret,
  url,
  type SettingsOf,
} from '@toolfleet/service';

/** Every environment key of the budget service. Money is in USD here and integer micro-USD everywhere else. */
export const budgetConfig = defineConfig('budget', {
  ...NATS_KEYS,
  ...REDIS_KEYS,
  DATABASE_URL: url({
    optional: true,
    schemes: ['postgres', 'postgresql'],
    help: 'PostgreSQL of the usage ledger; unset means the embedded SQLite, which allows one replica',
  }),
  DATABASE_PASSWORD: secret({ optional: true, help: 'Password at PostgreSQL; overrides one in the URL' }),
  DATABASE_TLS_CA: path({
    optional: true,
    must: 'file',
    help: 'CA file of PostgreSQL; asks for TLS with a checked name',
  }),
  BUDGET_DATABASE_PATH: path({
    default: '.toolfleet/data/budget.db',
    help: 'File of the embedded usage ledger; not used with DATABASE_URL',
  }),
  ...FLEET_FILE_KEYS,
  MAX_COST_PER_REQUEST: number({ default: 0.5, min: 0, help: 'USD one request may cost, its calls together' }),
  MAX_TOKENS_PER_REQUEST: integer({ default: 10_000, min: 0, help: 'Tokens one request may use' }),
  TOKEN_BUDGET_PER_AGENT: integer({
    default: 5_000,
    min: 0,
    help: 'Tokens an agent may use until it rested for 24 h; applies when the caller names agent_id',
  }),
  TOKEN_BUDGET_PER_TASK: integer({
    default: 20_000,
    min: 0,
    help: 'Tokens a task may use until it rested for 24 h; applies when the caller names task_id',
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
  MAX_COST_PER_TENANT: number({ optional: true, min: 0, help: 'USD a tenant may spend in all; unset means no limit' }),
  MAX_TOKENS_PER_TENANT: integer({
    optional: true,
    min: 0,
    help: 'Tokens a tenant may use in all; unset means no limit',
  }),
  BUDGET_STORE_TIMEOUT_MS: durationMs({
    default: 2_000,
    min: 50,
    max: 30_000,
    help: 'Longest wait for Redis; later the answer is BUDGET_UNAVAILABLE',
  }),
  BUDGET_ID_MEMORY_MS: durationMs({
    default: 86_400_000,
    min: 60_000,
    max: 604_800_000,
    help: 'How long charged call ids are remembered, so that none is charged twice',
  }),
  BUDGET_OUTBOX_CAP: integer({
    default: 100_000,
    min: 1,
    help: 'Rows a tenant may have waiting for the ledger; above, its new calls are refused',
  }),
  BUDGET_UPKEEP_MS: durationMs({
    default: 250,
    min: 10,
    max: 60_000,
    help: 'Pause between two rounds of moving usage to the ledger and charging expired leases',
  }),
});
export type BudgetConfig = SettingsOf<(typeof budgetConfig)['table']>;
