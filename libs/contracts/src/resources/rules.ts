/** Rules that are tested against recorded calls before they are saved. */
import {
  choice,
  closed,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  number,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { INSTANT } from './finished-calls.js';
import { answer, routes } from './route.js';
import { TOOLSET_SCHEMA } from './toolsets.js';
import { BUDGET_LIMITS_SENT, BUDGET_SUBJECTS, tenantId } from './usage.js';

/** Characters of all files of a policy. */
const MAX_POLICY_CHARS = 500_000;
const WORD = { minLength: 1, maxLength: 200 };

const POLICY_RULE = closed(
  {
    files: list(
      closed({
        name: text('Such as tools.rego; data.json is read as `data`', WORD),
        text: text(undefined, { maxLength: MAX_POLICY_CHARS }),
      }),
      'All files of its folder',
      { minItems: 1, maxItems: 50 },
    ),
  },
  'A policy; for operators',
);
const RATE_LIMIT_RULE = closed(
  { tool: text(undefined, WORD), per_minute: integer('Calls of each tenant; 0: no limit', { minimum: 0 }) },
  'The rate limit of a tool',
);
const TOOLSET_RULE = closed(
  { name: text(undefined, { pattern: '^[A-Za-z0-9_-]{1,64}$' }), spec: TOOLSET_SCHEMA },
  'A selection of tools; its calls are those through the toolset with this name, unless a user, key or agent is named',
);
const BUDGET_RULE = closed(
  {
    subject: choice(BUDGET_SUBJECTS),
    id: maybe(text('Id of the user or key', { minLength: 1, maxLength: 255 })),
    ...BUDGET_LIMITS_SENT,
  },
  'A budget of a user, a key or the tenant',
);

const RULE_TEST = closed({
  policy: maybe(POLICY_RULE),
  rate_limit: maybe(RATE_LIMIT_RULE),
  toolset: maybe(TOOLSET_RULE),
  budget: maybe(BUDGET_RULE),
  from: maybe(text('Calls that ended at this instant or later; default 30 days ago', INSTANT)),
  to: maybe(text('Calls that ended before this instant', INSTANT)),
  tenant_id: maybe(tenantId('For operators; default: all tenants, for a budget their own')),
  tool: maybe(text('Only calls of this tool', WORD)),
  source: maybe(text('Only calls of the tools of this source: mcp/crm', WORD)),
  user_id: maybe(text('Only calls of this user', WORD)),
  key_id: maybe(text('Only calls with this key', WORD)),
  agent_id: maybe(text('Only calls of this agent', WORD)),
  read_arguments: maybe(
    flag('Reads the kept arguments of up to 2,000 calls where the policy asks for them (right read_bodies; recorded)'),
  ),
});
/** A rule, and the recorded calls that it is tested against. */
export type RuleTest = Value<typeof RULE_TEST>;

const RULE_TEST_RESULT = named(
  'RuleTestResult',
  record(
    {
      rule: choice(['policy', 'rate_limit', 'toolset', 'budget']),
      from: instant('Calls that ended since then were tested'),
      to: instant(),
      is_partial: flag('Older calls than `from` were too many for one test, or took too long'),
      calls: integer('Recorded calls that reached the rule, the ones that are not decidable included'),
      not_reached: integer('Calls that ended before: refused by a check before it, or answered by a cached result'),
      refused: integer('Would be refused now, and were not refused by a rule of this kind then'),
      still_refused: integer('Were refused by a rule of this kind, and would be now'),
      admitted: integer('Were refused by a rule of this kind, and would not be now'),
      asked: integer('Would wait for the approval of a person now'),
      undecidable: integer('The rule depends on a fact that is not recorded'),
      reasons: list(record({ reason: text(), calls: integer() }), 'Of refusals and questions, the most frequent first'),
      unrecorded: list(record({ fact: text(), calls: integer() }), 'Why calls are not decidable'),
      examples: list(
        record({
          call_id: text(),
          tenant_id: maybe(text()),
          tool: text(),
          user_id: maybe(text()),
          verdict: choice(['refused', 'asked', 'admitted', 'undecidable']),
          reason: maybe(text()),
        }),
        'At most 20, refused ones first',
      ),
      notes: list(text(), 'What the figures do not show'),
      took_ms: number(),
    },
    'What a rule would have done to recorded calls',
  ),
);
/** The effect of a rule on recorded calls. */
export type RuleTestResult = Value<typeof RULE_TEST_RESULT>;

export const RULE_ROUTES = routes({ tag: 'operations' })({
  'POST /api/v1/rules/test': {
    id: 'testRule',
    access: 'all_calls',
    summary:
      'What a policy, a rate limit, a toolset or a budget would have done to recorded calls; exactly one is sent, nothing is saved',
    body: RULE_TEST,
    example: { budget: { subject: 'user', id: 'ada', limit_usd: 20 }, from: '2026-01-01' },
    audit: 'none',
    answers: { 200: answer('Counts, reasons and examples', RULE_TEST_RESULT) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
});
