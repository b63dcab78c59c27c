/** Calls that people decide on. */
import { APPROVAL_STATES } from '../approval.js';
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
  object,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { PENDING_DECISION } from './calls.js';
import { answer, type Routes } from './route.js';

const APPROVAL = named(
  'Approval',
  record(
    {
      id: text('Id of the approval, and of the call that asked'),
      state: choice(APPROVAL_STATES),
      tool: text(),
      revision: text('Of the definition of the tool'),
      decision: PENDING_DECISION,
      tenant_id: text(),
      user_id: text('That made the call'),
      key_id: maybe(text()),
      acting_user_id: text('For which the call is made'),
      door: text('Entry point of the call'),
      parked: flag('The call runs when it is approved; otherwise its caller makes it again'),
      max_cost_usd: number('Most that the call costs'),
      asked_at: instant(),
      ended_at: maybe(instant()),
      code: maybe(text('Code of the failure with which the call ended')),
      votes: list(
        record({
          tenant_id: text(),
          user_id: text(),
          key_id: maybe(text()),
          decision: choice(['approve', 'reject']),
          note: maybe(text()),
          at: instant(),
        }),
        'One per user',
      ),
      may_decide: flag('Whether the caller may decide now'),
      why_not: maybe(text('Why it may not')),
      arguments: maybe(object('As the tool will get them; for those that decide')),
      shown: maybe(text('The arguments as text in which hidden, control and bidirectional characters are code points')),
      hidden_characters: maybe(integer('Number of such characters')),
    },
    'A question of the policy to people about one call',
  ),
);
/** A question of the policy to people about one call. */
export type CallApproval = Value<typeof APPROVAL>;

const DECISION = closed({
  note: maybe(
    text('Shown to the caller where the call is rejected, and kept', { pattern: String.raw`^[^\x00]{1,1000}$` }),
  ),
});
const DECIDED = { 200: answer('The approval after the decision', APPROVAL) };

export const APPROVAL_ROUTES = {
  'GET /api/v1/approvals': {
    id: 'listApprovals',
    tag: 'approvals',
    summary:
      'Calls that wait for a decision or were decided, without arguments: those of the caller, and those it may decide on',
    query: record({
      state: maybe(text('States, separated by commas', { maxLength: 200 })),
      tool: maybe(text(undefined, { pattern: String.raw`^[^\x00-\x1f]{1,200}$` })),
      limit: maybe(integer('Page size, default 100; a page may be shorter', { minimum: 1, maximum: 1_000 })),
      cursor: maybe(text('`next` of the previous page', { pattern: String.raw`^\d{1,16}\.[0-9a-f-]{36}$` })),
    }),
    answers: {
      200: answer(
        'The newest first',
        record({ approvals: list(APPROVAL), next: maybe(text('Cursor of the next page')) }),
      ),
    },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/approvals/{id}': {
    id: 'getApproval',
    tag: 'approvals',
    summary: 'One approval, with the arguments of the call for those that decide; each look is in the audit log',
    answers: { 200: answer('The approval', APPROVAL) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/approvals/{id}/approve': {
    id: 'approveCall',
    tag: 'approvals',
    summary: 'Approves a call; it runs once enough users have approved it',
    body: DECISION,
    example: { note: 'Agreed with finance' },
    answers: DECIDED,
    errors: ['PERMISSION_DENIED', 'APPROVAL_DECIDED', 'SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/approvals/{id}/reject': {
    id: 'rejectCall',
    tag: 'approvals',
    summary: 'Rejects a call; it never runs',
    body: DECISION,
    example: { note: 'Wrong customer' },
    answers: DECIDED,
    errors: ['PERMISSION_DENIED', 'APPROVAL_DECIDED', 'SERVICE_UNAVAILABLE'],
  },
} as const satisfies Routes;
