import {
  choice,
  closed,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  number,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';
import { TENANT_ID_PATTERN } from '../principal.js';
import { answer, empty, routes } from './route.js';

/** The id of a tenant in a request. */
export const tenantId = (description?: string): Schema<string> =>
  text(description, { pattern: TENANT_ID_PATTERN.source, title: 'the id of a tenant' });

/** Subjects of budgets that are set over the API. */
export const BUDGET_SUBJECTS = ['tenant', 'user', 'key'] as const;
/** The UTC day or month in which a budget is spent; `total`: ever. */
export const BUDGET_PERIODS = ['day', 'month', 'total'] as const;
const SUBJECT = choice(BUDGET_SUBJECTS);
const PERIOD = choice(BUDGET_PERIODS, 'UTC day or month, or total');
export const BUDGET = named(
  'Budget',
  record(
    {
      scope: text('tenant, day:2026-01-31, request:<id>, agent:<id>, task:<id>, or a set budget: user/2026-01:ada'),
      subject: maybe(SUBJECT),
      subject_id: maybe(text('Id of the user or key')),
      period: maybe(PERIOD),
      resets_at: maybe(instant('End of the day or month')),
      limit_usd: nullable(number(), 'Null: no limit'),
      spent_usd: number(),
      held_usd: number(),
      limit_tokens: nullable(number(), 'Null: no limit'),
      spent_tokens: number(),
      held_tokens: number(),
    },
    'A limit with what is spent and held. One that was set over the API has subject and period',
  ),
);
/** A limit with spending and reservations. */
export type Budget = Value<typeof BUDGET>;
const GROUPED = {
  tool_name: maybe(text()),
  source: maybe(text('Source of the tool: mcp/crm')),
  user_id: maybe(text()),
  key_id: maybe(text('Id of the API key')),
  agent_id: maybe(text()),
};
const USAGE_ROW = record(
  {
    tenant_id: maybe(text()),
    day: maybe(text('UTC day, 2026-01-31')),
    ...GROUPED,
    calls: integer(),
    tokens: integer('Reported by tools'),
    cost_usd: number(),
  },
  'It has the members that the request grouped by',
);
/** Usage of one group. */
export type UsageRow = Value<typeof USAGE_ROW>;

/** The limits of a budget to set. */
export const BUDGET_LIMITS_SENT = {
  period: maybe(choice(BUDGET_PERIODS, 'Default: month')),
  limit_usd: maybe(number('In USD; the sixth decimal is the last that counts', { minimum: 0, maximum: 1e9 })),
  limit_tokens: maybe(integer(undefined, { minimum: 0 })),
};

const FORECAST_ROW = record(
  {
    tenant_id: maybe(text()),
    ...GROUPED,
    spent_usd: number('Since the start of the month'),
    per_day_usd: number('Mean of the observed days'),
    forecast_usd: number('Spent, plus the mean for the rest of the month'),
  },
  'It has the members that the request grouped by',
);

const BILL_ROW = record(
  {
    tenant_id: text('A purged tenant has its pseudonym'),
    day: text('UTC day of the charge'),
    tool_name: text(),
    source: maybe(text('Source of the tool: mcp/crm; absent where it is not known')),
    calls: integer(),
    tokens: integer('Reported by tools'),
    micro_usd: integer('Exact: millionths of a USD'),
    cost_usd: text('The same in USD with six decimals'),
  },
  'Usage of one tenant, day and tool',
);

const SCOPE_ID = { maxLength: 255 };
const DAY = { pattern: String.raw`^\d{4}-\d{2}-\d{2}$`, title: 'a day such as 2026-01-31' };
/** Members that usage can be summed by, and their names in a sum, in the order of columns. */
export const USAGE_MEMBERS = {
  tenant: 'tenant_id',
  day: 'day',
  tool: 'tool_name',
  source: 'source',
  user: 'user_id',
  key: 'key_id',
  agent: 'agent_id',
} as const;
export type UsageGroup = keyof typeof USAGE_MEMBERS;
export const USAGE_GROUPS = Object.keys(USAGE_MEMBERS) as UsageGroup[];
const listOf = (names: readonly string[]) => ({
  pattern: `^(${names.join('|')})(,(${names.join('|')}))*$`,
  title: `a comma list of ${names.join(', ')}`,
});
const USAGE_GROUP = listOf(USAGE_GROUPS);
const FORECAST_GROUP = listOf(USAGE_GROUPS.filter((name) => name !== 'day'));
const TENANT = maybe(tenantId('For operators'));
const FORMAT = maybe(choice(['json', 'csv']));

export const USAGE_ROUTES = routes({ tag: 'usage' })({
  'GET /api/v1/usage': {
    id: 'getUsage',
    summary: 'What the tenant used; for operators what another one or all of them did',
    query: record({
      from: maybe(text('First day', DAY)),
      to: maybe(text('Last day', DAY)),
      group_by: maybe(text('Default day,tool; with `tenant` operators get all tenants', USAGE_GROUP)),
      tenant_id: TENANT,
      format: FORMAT,
    }),
    answers: {
      200: {
        ...answer(
          'Sums of the ledger',
          record({ tenant_id: maybe(text('Absent: all tenants')), rows: list(USAGE_ROW) }),
        ),
        textTypes: ['text/csv'],
      },
    },
  },
  'GET /api/v1/usage/forecast': {
    id: 'getForecast',
    summary: 'What this UTC month has cost, and will have cost at its end at the mean of the last days',
    query: record({
      group_by: maybe(text('Default tool; with `tenant` operators get all tenants', FORECAST_GROUP)),
      tenant_id: TENANT,
    }),
    answers: {
      200: answer(
        'The most expensive first',
        record({
          tenant_id: maybe(text('Absent: all tenants')),
          month: text('2026-01'),
          ends_at: instant('End of the month'),
          observed_days: number('Days that the mean is of: the last 7, or those since the first usage; 0: no usage'),
          rows: list(FORECAST_ROW),
        }),
      ),
    },
  },
  'GET /api/v1/billing': {
    id: 'getBilling',
    access: 'all_calls',
    summary: 'Usage by tenant, day and tool with exact amounts: of the tenant, for operators of all tenants or one',
    query: record({
      from: maybe(text('First day; default: the first of this month', DAY)),
      to: maybe(text('Last day; default: today. At most 92 days', DAY)),
      tenant_id: TENANT,
      format: FORMAT,
    }),
    answers: {
      200: {
        ...answer(
          'By day, tenant and tool',
          record({
            from: text(),
            to: text(),
            micro_usd: integer('Total, exact'),
            cost_usd: text('Total in USD with six decimals'),
            rows: list(BILL_ROW),
          }),
        ),
        textTypes: ['text/csv'],
      },
    },
  },
  'GET /api/v1/budgets': {
    id: 'getBudgets',
    summary: 'Limits, spent and held amounts of the tenant, and of the named request, agent and task',
    query: record({
      tenant_id: TENANT,
      request_id: maybe(text(undefined, SCOPE_ID)),
      agent_id: maybe(text(undefined, SCOPE_ID)),
      task_id: maybe(text(undefined, SCOPE_ID)),
    }),
    answers: { 200: answer('Per scope', record({ tenant_id: text(), budgets: list(BUDGET) })) },
  },
  'PUT /api/v1/budgets': {
    id: 'setBudget',
    access: 'manage_budgets',
    summary: 'Sets a limit of a user or key; of a tenant, for operators. It counts what was spent in its period before',
    body: closed({
      subject: SUBJECT,
      id: maybe(text('Id of the user or key', { minLength: 1, maxLength: 255 })),
      ...BUDGET_LIMITS_SENT,
      tenant_id: TENANT,
    }),
    example: { subject: 'user', id: 'ada', limit_usd: 20 },
    audit: ['subject', 'id', 'tenant_id', ...Object.keys(BUDGET_LIMITS_SENT)],
    answers: { 200: answer('The budget with what is spent', BUDGET) },
    errors: ['BUDGET_UNAVAILABLE', 'QUOTA_EXCEEDED'],
  },
  'DELETE /api/v1/budgets': {
    id: 'removeBudget',
    access: 'manage_budgets',
    summary: 'Removes a limit that was set over the API',
    query: record({
      subject: maybe(SUBJECT),
      id: maybe(text('Id of the user or key', { maxLength: 255 })),
      period: maybe(choice(BUDGET_PERIODS, 'Default: month')),
      tenant_id: TENANT,
    }),
    answers: { 204: empty('Removed') },
    errors: ['BUDGET_UNAVAILABLE', 'NOT_FOUND'],
  },
});
