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

/**
 * Every kind of event, with the members of its `data`. The table gives the types, the check of messages between services, the kinds that an
 * endpoint can ask for, and the page docs/webhooks.md.
 */
export const EVENTS = {
  'call.finished': {
    summary: 'A call has ended, however it ended',
    data: record({
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
  },
  'approval.asked': {
    summary: 'A call waits until a person decides',
    data: record({
      ...APPROVAL,
      questions: list(text(), 'Why the policy asks'),
      expires_at: instant('The call does not run after it'),
    }),
  },
  'approval.decided': {
    summary: 'A call that waited was decided, or cannot be any more',
    data: record({
      ...APPROVAL,
      decision: choice(['approved', 'rejected', 'cancelled', 'expired', 'invalidated']),
      decided_by: list(text(), 'People who voted'),
      note: maybe(text('Note of the last vote')),
      grant_id: maybe(text('Grant for other calls that was given with it')),
    }),
  },
  'budget.reached': {
    summary: 'Spending has reached 80 or 100 % of a limit',
    data: record({
      scope: text(
        '`tenant`, `day:2026-11-21`, `agent:<id>`, `task:<id>`, or a budget of a user or key with its period',
      ),
      percent: choice(['80', '100']),
      currency: choice(['usd', 'tokens']),
      limit: number(),
      spent: number('When it was noticed'),
    }),
  },
  'tool.quarantined': {
    summary: 'A tool changed or looks suspicious, and cannot be called until an administrator approves it',
    data: record({
      tool: text(),
      source: SOURCE,
      reason: text(),
      pending_revision: text('The revision that awaits the approval'),
      approved_revision: nullable(text('The one in effect before; null at first sight')),
    }),
  },
  'breaker.opened': {
    summary: 'Calls of a tool, or to an upstream, are refused because too many have failed',
    data: record({
      key: text('The tool, or the address of the upstream'),
      service: text('The service that noticed'),
      open_until: instant('From then on one call is let through as a probe'),
    }),
  },
  'source.failing': {
    summary: 'A source of tools cannot be read any more; its tools stay as they were',
    data: record({ source: SOURCE, error: text(), last_success_at: nullable(instant()) }),
  },
} as const satisfies Record<string, { summary: string; data: Schema }>;

export type EventKind = keyof typeof EVENTS;
export const EVENT_KINDS = Object.keys(EVENTS) as [EventKind, ...EventKind[]];
export type EventData<K extends EventKind> = Value<(typeof EVENTS)[K]['data']>;
