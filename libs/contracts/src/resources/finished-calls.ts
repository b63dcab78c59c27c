import {
  choice,
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
import { BODY_ACCESS } from './call-bodies.js';
import { TOOL_KIND } from './operations.js';
import { answer, events, routes } from './route.js';

const STAGES = record(
  {
    admit_ms: number('Finding the tool, permission, arguments, policy'),
    wait_ms: number('Waiting for a rate limit and between attempts'),
    queue_ms: number('In a queue, before a worker took it'),
    execute_ms: number('In the executor'),
    rest_ms: number('Cache, limits, budget, transport to the executor and back'),
  },
  'Milliseconds that the call spent in each stage',
);
/** Milliseconds that a finished call spent in each stage. */
export type CallStages = Value<typeof STAGES>;
const CALL_OUTCOME = choice(
  ['success', 'tool_error', 'refused', 'cancelled', 'system_error'],
  'refused before its tool ran, cancelled by its caller, tool_error because of the tool or its upstream, system_error because of the fleet',
);
/** How a call ended. Only `system_error` uses up the error budget. */
export type CallOutcome = Value<typeof CALL_OUTCOME>;
const RETRIED = record({
  attempt: integer('Counted from 1'),
  error: text('Message of its failure, without values that the caller sent'),
  delay_ms: number('Wait before the next attempt'),
});
/** An attempt that failed and was made again. */
export type RetriedAttempt = Value<typeof RETRIED>;

const OUTCOMES = record(
  {
    transport: choice(['not_sent', 'delivered', 'failed', 'unknown'], 'Whether the executor or upstream was reached'),
    protocol: choice(['none', 'ok', 'failed'], 'Whether it answered as its protocol demands'),
    tool: choice(['none', 'ok', 'failed'], 'Whether the tool did what it was asked'),
  },
  'A call that ended without its tool, such as a refusal or a cached result, has `not_sent` and `none`',
);
/** How far a call got, level by level. */
export type CallOutcomes = Value<typeof OUTCOMES>;
const FINISHED_CALL = named(
  'FinishedCall',
  record(
    {
      cursor: text('Increases with the time of recording'),
      call_id: text(),
      parent_call_id: maybe(text('The call of the tool that made this one')),
      request_id: maybe(text()),
      idempotency_key: maybe(text()),
      replay_of: maybe(
        text('The call that it repeats: the one with the same idempotency key, or the one that it ran again'),
      ),
      ended_at: instant(),
      tenant_id: text(),
      user_id: text(),
      key_id: maybe(text('Id of the API key that made it')),
      via: maybe(text('How its caller authenticated')),
      roles: maybe(list(text(), 'Roles of its caller')),
      agent_id: maybe(text()),
      task_id: maybe(text()),
      tool: text(),
      revision: maybe(text('Revision of its definition')),
      source: maybe(text('Source of the tool: mcp/crm')),
      toolset: maybe(text('Toolset that it was called through: support@3')),
      kind: maybe(TOOL_KIND),
      entry_point: text('Transport that it came through'),
      origin: text(),
      status: CALL_OUTCOME,
      outcomes: OUTCOMES,
      code: maybe(text()),
      error: maybe(text('Message of the failure, without values that the caller sent')),
      provenance: maybe(text()),
      attempts: integer(),
      retried: maybe(list(RETRIED, 'The attempts before the last one; absent when there were none')),
      duration_ms: number(),
      stages: STAGES,
      cost_usd: number(),
      tokens: integer(),
      trace_id: maybe(text()),
      body_bytes: maybe(integer('Size of its arguments and result, where they are kept')),
      client: maybe(text('Program that made it, as it names itself: claude-code/2.1')),
      policy: maybe(
        choice(['allowed', 'asked', 'denied'], 'What the policy decided; absent for a call that ended before'),
      ),
      policy_rules: maybe(list(text(), 'Where the rules are that asked or denied: tools.rego:8')),
      approval_grant: maybe(text('Id of the grant of people that let it run without a question')),
      interceptions: maybe(list(text(), 'What interceptors did to it: dlp changed_answer')),
    },
    'A finished call, without arguments and results',
  ),
);
/** A finished call, without arguments and results. */
export type FinishedCall = Value<typeof FINISHED_CALL>;
const FINISHED_CALL_DETAIL = record({
  call: FINISHED_CALL,
  body: BODY_ACCESS,
  made: list(FINISHED_CALL, 'Calls that its tool made'),
  logs: maybe(
    record(
      {
        trace_url: maybe(text('Address of the trace')),
        log_search: maybe(text('Address of the log lines, or a command that prints them')),
      },
      'For operators',
    ),
  ),
});
/** A finished call, the calls that its tool made, and for operators where its trace and its log lines are. */
export type FinishedCallDetail = Value<typeof FINISHED_CALL_DETAIL>;

const STATUSES = ['failure', 'success', 'tool_error', 'refused', 'cancelled', 'system_error'];
const STATUS = `(${STATUSES.join('|')})`;

const CURSOR = { pattern: String.raw`^\d{1,16}$`, title: 'the cursor of a call' };
/** An instant or a day in a request. */
export const INSTANT = {
  pattern: String.raw`^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?Z)?$`,
  title: 'an instant such as 2026-01-31T12:00:00Z, or a day',
};
const CALL_ID = { minLength: 1, maxLength: 200 };
/** Members that calls can be summed by. */
export const CALL_GROUPS = ['tenant', 'day', 'tool', 'source', 'user', 'key', 'agent', 'status', 'code'] as const;
const CALL_GROUP = `(${CALL_GROUPS.join('|')})`;
const CALL_QUERY = record({
  limit: maybe(integer('Maximum number; default 100', { minimum: 1, maximum: 500 })),
  after: maybe(text('Calls after this cursor: the oldest first', CURSOR)),
  before: maybe(text('Calls before this cursor: the newest ones', CURSOR)),
  from: maybe(text('Ended at this instant or later', INSTANT)),
  to: maybe(text('Ended before this instant', INSTANT)),
  id: maybe(text('Start of the id of the call', CALL_ID)),
  parent_id: maybe(text('Id of the call whose tool made it', CALL_ID)),
  tool: maybe(text(undefined, CALL_ID)),
  source: maybe(text('Source of the tool: mcp/crm', CALL_ID)),
  user_id: maybe(text(undefined, CALL_ID)),
  key_id: maybe(text(undefined, CALL_ID)),
  agent_id: maybe(text(undefined, CALL_ID)),
  tenant_id: maybe(text('For operators', CALL_ID)),
  status: maybe(
    text('A comma list of statuses; `failure`: all but success', {
      pattern: `^${STATUS}(,${STATUS})*$`,
      title: `a comma list of ${STATUSES.join(', ')}`,
    }),
  ),
  code: maybe(text('Error code', { pattern: '^[A-Z_]{1,40}$', title: 'an error code' })),
  slower_than_ms: maybe(integer('Took at least as long', { minimum: 0 })),
  dearer_than_usd: maybe(
    text('Cost at least as much', { pattern: String.raw`^\d{1,9}(\.\d{1,6})?$`, title: 'an amount in USD' }),
  ),
  group_by: maybe(
    text('Also sum all matching calls by these; for administrators', {
      pattern: `^${CALL_GROUP}(,${CALL_GROUP})*$`,
      title: `a comma list of ${CALL_GROUPS.join(', ')}`,
    }),
  ),
});
const CALL_SUM = named(
  'CallSum',
  record(
    {
      tenant_id: maybe(text()),
      day: maybe(text('UTC day of the end, 2026-01-31')),
      tool: maybe(text()),
      source: maybe(text()),
      user_id: maybe(text()),
      key_id: maybe(text()),
      agent_id: maybe(text()),
      status: maybe(text()),
      code: maybe(text()),
      calls: integer(),
      failures: integer('Calls that did not succeed'),
      cost_usd: number(),
      tokens: integer(),
      mean_ms: number(),
      p50_ms: number('Median, with two significant digits'),
      p95_ms: number('95 of 100 calls took at most as long, with two significant digits'),
      max_ms: number(),
    },
    'Sum of the calls of one group; it has the members that were grouped by and that its calls have',
  ),
);
/** Sum of the calls of one group. */
export type CallSum = Value<typeof CALL_SUM>;

export const FINISHED_CALL_ROUTES = routes({ tag: 'calls' })({
  'GET /api/v1/calls': {
    id: 'listCalls',
    summary: "Finished calls of the caller's tenant, of the fleet for operators; no arguments, no results",
    query: CALL_QUERY,
    answers: {
      200: answer(
        'Oldest first; `enabled: false` if none are recorded',
        record({
          enabled: flag(),
          calls: list(FINISHED_CALL),
          next: maybe(
            text('Goes on as `before`, or as `after` if that was given, also after an empty page; absent at the end'),
          ),
          groups: maybe(
            record({
              rows: list(CALL_SUM, 'Those with the most calls first'),
              total: maybe(CALL_SUM),
              since: maybe(
                instant('Calls that were recorded before are not in the sums: there are too many for one request'),
              ),
            }),
          ),
        }),
      ),
    },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/calls/events': {
    id: 'followCalls',
    summary: 'Server-sent events `call`, one per finished call',
    headers: record({ 'Last-Event-ID': maybe(text('Cursor of the last call the reader has')) }),
    answers: { 200: events('Event stream; resumes after Last-Event-ID') },
  },
  'GET /api/v1/calls/{id}/record': {
    id: 'getCallRecord',
    summary: 'A finished call, and the calls that its tool made; no arguments, no results',
    answers: { 200: answer('The call', FINISHED_CALL_DETAIL) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
});
