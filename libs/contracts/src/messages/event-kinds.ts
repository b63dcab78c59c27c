import {
  choice,
  instant,
  integer,
  list,
  maybe,
  nullable,
  number,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';

const CALL = { call_id: text(), tool: text('The name that the call gave'), user_id: text() };
const APPROVAL = { approval_id: text('`GET /api/v1/approvals/{id}`'), ...CALL };
const SOURCE = text('Kind and name: `mcp/github`, `openapi/shop@acme`');

/** Services that report events. `records` makes those about calls and approvals itself, from its rows. */
type EventSource = 'gateway' | 'registry' | 'budget' | 'mcp-executor' | 'openapi-executor';

/**
 * A kind of event.
 * @param same members of `data` that tell two events of a tenant apart: with equal ones they are the same event
 * @param from services that may report it; none: only `records` makes it
 */
const kind = <T extends object>(
  summary: string,
  data: Schema<T>,
  same: readonly (keyof T & string)[],
  from: readonly EventSource[] = [],
) => ({ summary, data, same, from });

/**
 * Every kind of event, with the members of its `data`. The table gives the types, the ids of events, who may report which, the kinds that
 * an endpoint can ask for, and the page docs/webhooks.md.
 */
export const EVENTS = {
  'call.finished': kind(
    'A call has ended, however it ended',
    record({
      ...CALL,
      parent_call_id: maybe(text('The call whose tool made this one')),
      request_id: maybe(text()),
      agent_id: maybe(text()),
      task_id: maybe(text()),
      key_id: maybe(text()),
      toolset: maybe(text()),
      source: maybe(SOURCE),
      status: choice(['success', 'tool_error', 'refused', 'cancelled', 'system_error']),
      code: maybe(text('Code of the failure')),
      error: maybe(text('Its message, redacted, at most 300 characters')),
      ended_at: instant(),
      duration_ms: number(),
      cost_usd: number(),
      tokens: integer(),
    }),
    ['call_id', 'status'],
  ),
  'approval.asked': kind(
    'A call waits until a person decides',
    record({
      ...APPROVAL,
      questions: list(text(), 'Why the policy asks'),
      expires_at: instant('The call does not run after it'),
    }),
    ['approval_id'],
  ),
  'approval.decided': kind(
    'A call that waited was decided, or cannot be any more',
    record({
      ...APPROVAL,
      decision: choice(['approved', 'rejected', 'cancelled', 'expired', 'invalidated']),
      decided_by: list(text(), 'People who voted'),
      note: maybe(text('Note of the last vote')),
      grant_id: maybe(text('Grant for other calls that was given with it')),
    }),
    ['approval_id', 'decision'],
  ),
  'budget.reached': kind(
    'Spending has reached 80 or 100 % of a limit',
    record({
      scope: text(
        '`tenant`, `day:2026-11-21`, `agent:<id>`, `task:<id>`, or a budget of a user or key with its period',
      ),
      percent: choice(['80', '100']),
      currency: choice(['usd', 'tokens']),
      limit: number(),
      spent: number('When it was noticed'),
    }),
    ['scope', 'currency', 'limit', 'percent'],
    ['budget'],
  ),
  'tool.quarantined': kind(
    'A tool changed or looks suspicious, and cannot be called until an administrator approves it',
    record({
      tool: text(),
      source: SOURCE,
      reason: text(),
      pending_revision: text('The revision that awaits the approval'),
      approved_revision: nullable(text('The one in effect before; null at first sight')),
    }),
    ['source', 'tool', 'pending_revision'],
    ['registry'],
  ),
  'breaker.opened': kind(
    'Calls of a tool, or to an upstream, are refused because too many have failed',
    record({
      key: text('The tool, or the address of the upstream'),
      service: text('The service that noticed'),
      open_until: instant('From then on one call is let through as a probe'),
    }),
    ['service', 'key', 'open_until'],
    ['gateway', 'mcp-executor', 'openapi-executor'],
  ),
  'source.failing': kind(
    'A source of tools cannot be read any more; its tools stay as they were',
    record({ source: SOURCE, error: text(), last_success_at: nullable(instant()) }),
    ['source', 'last_success_at'],
    ['registry'],
  ),
};

export type EventKind = keyof typeof EVENTS;
export const EVENT_KINDS = Object.keys(EVENTS) as [EventKind, ...EventKind[]];
export type EventData<K extends EventKind> = Value<(typeof EVENTS)[K]['data']>;
