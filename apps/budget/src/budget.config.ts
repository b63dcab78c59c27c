import {
  DATABASE_KEYS,
  defineConfig,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  NATS_KEYS,
  TENANT_QUOTAS,
  number,
  REDIS_KEYS,
  type SettingsOf,
} from '@toolfleet/service';

/** All environment variables of the budget service. Money is in USD here and in integer micro-USD everywhere else. */
export const budgetConfig = defineConfig('budget', {
  ...NATS_KEYS,
  TENANT_QUOTAS,
  ...REDIS_KEYS,
  ...DATABASE_KEYS,
  STORE_TIMEOUT_MS: { ...DATABASE_KEYS.STORE_TIMEOUT_MS, default: 2_000 },
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
  BUDGET_UPKEEP_MS: durationMs({
    default: 1_000,
    min: 10,
    max: 60_000,
    help: 'Pause between two rounds that move usage to the ledger and charge expired leases',
  }),
});
export type BudgetConfig = SettingsOf<(typeof budgetConfig)['table']>;
