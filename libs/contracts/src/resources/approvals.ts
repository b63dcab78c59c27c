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
import { PERSON } from './credentials.js';
import { answer, routes } from './route.js';

const APPROVAL = named(
  'Approval',
  record(
    {
      id: text('Id of the approval, and of the call that asked unless `call_id` names another'),
      call_id: text('The call that waits: the one that asked, or the program whose calls these are'),
      state: choice(APPROVAL_STATES),
      tool: text(),
      revision: text('Of the definition of the tool'),
      decision: PENDING_DECISION,
      tenant_id: text(),
      user_id: text('That made the call'),
      key_id: maybe(text()),
      person: maybe(PERSON),
      acting_user_id: text('For which the call is made'),
      entry_point: text('Entry point of the call'),
      parked: flag('The call runs when it is approved; otherwise its caller makes it again'),
      max_cost_usd: number('Most that the call costs'),
      asked_at: instant(),
      ended_at: maybe(instant()),
      code: maybe(text('Code of the failure with which the call ended')),
      grant_id: maybe(text('The grant that was given with it')),
      votes: list(
        record({
          tenant_id: text(),
          user_id: text(),
          key_id: maybe(text()),
          person: maybe(PERSON),
          via: maybe(text('Kind of the credential: session, jwt, api_key')),
          session_id: maybe(text('Of a person that was signed in')),
          decision: choice(['approve', 'reject']),
          note: maybe(text()),
          grant: maybe(
            record(
              { until: instant(), fields: list(text()), max_uses: maybe(integer()) },
              'What it allows besides the call',
            ),
          ),
          at: instant(),
        }),
        'One per person',
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

const NOTE = maybe(
  text('Shown to the caller where the call is rejected, and kept', { pattern: String.raw`^[^\x00]{1,1000}$` }),
);
const DECISION = closed({ note: NOTE });
const APPROVE = closed({
  note: NOTE,
  grant: maybe(
    closed(
      {
        hours: number('How long, within the offer of the policy', { exclusiveMinimum: 0, maximum: 720 }),
        fields: maybe(
          list(text(undefined, { maxLength: 200 }), 'Arguments that may differ; all others are those of this call', {
            maxItems: 100,
          }),
        ),
        max_uses: maybe(integer('Max number of calls', { minimum: 1, maximum: 1_000_000 })),
      },
      'Also allows calls like this one. Where several people decide, all of them have to; the narrowest holds',
    ),
  ),
});

const GRANT = named(
  'ApprovalGrant',
  record(
    {
      id: text(),
      approval_id: text('The approval with which it was given'),
      state: choice(['active', 'revoked', 'expired', 'used_up']),
      for: list(text(), 'What it covers, by the texts of the rules'),
      tool: text(),
      revision: text('Of the definition of the tool; calls of another revision are not covered'),
      tenant_id: text(),
      user_id: text('Whose calls it covers'),
      key_id: maybe(text('The credential whose calls it covers, where it has no user')),
      acting_user_id: text('For which the calls are made'),
      fields: list(text(), 'Arguments that may differ; all others are those of the approved call'),
      granted_by: list(text(), 'Persons that agreed'),
      granted_at: instant(),
      until: instant(),
      uses: integer('Calls that it let through'),
      max_uses: maybe(integer()),
      last_used_at: maybe(instant()),
      revoked_at: maybe(instant()),
      revoked_by: maybe(text()),
      arguments: maybe(object('Those that its calls have; for those that may give such grants')),
      shown: maybe(text('They as text in which hidden, control and bidirectional characters are code points')),
      hidden_characters: maybe(integer('Number of such characters')),
    },
    'Lets calls of a user run without a question to people',
  ),
);
/** Lets calls of a user run without a question to people. */
export type ApprovalGrant = Value<typeof GRANT>;
const PAGE = {
  limit: maybe(integer('Page size, default 100; a page may be shorter', { minimum: 1, maximum: 1_000 })),
  cursor: maybe(text('`next` of the previous page', { pattern: String.raw`^\d{1,16}\.[0-9a-f-]{36}$` })),
};
const DECIDED = { 200: answer('The approval after the decision', APPROVAL) };

export const APPROVAL_ROUTES = routes({ tag: 'approvals', errors: ['SERVICE_UNAVAILABLE'] })({
  'GET /api/v1/approvals': {
    id: 'listApprovals',
    summary:
      'Calls that wait for a decision or were decided, without arguments: those of the caller, and those it may decide on',
    query: record({
      state: maybe(text('States, separated by commas', { maxLength: 200 })),
      tool: maybe(text(undefined, { pattern: String.raw`^[^\x00-\x1f]{1,200}$` })),
      ...PAGE,
    }),
    answers: {
      200: answer(
        'The newest first',
        record({ approvals: list(APPROVAL), next: maybe(text('Cursor of the next page')) }),
      ),
    },
  },
  'GET /api/v1/approvals/{id}': {
    id: 'getApproval',
    summary: 'One approval, with the arguments of the call for those that decide; each look is in the audit log',
    answers: { 200: answer('The approval', APPROVAL) },
  },
  'POST /api/v1/approvals/{id}/approve': {
    id: 'approveCall',
    summary: 'Approves a call; it runs once enough people have approved it',
    body: APPROVE,
    example: { note: 'Agreed with finance', grant: { hours: 8, fields: ['amount'] } },
    answers: DECIDED,
    errors: ['PERMISSION_DENIED', 'APPROVAL_DECIDED', 'QUOTA_EXCEEDED', 'SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/approvals/{id}/reject': {
    id: 'rejectCall',
    summary: 'Rejects a call; it never runs',
    body: DECISION,
    example: { note: 'Wrong customer' },
    answers: DECIDED,
    errors: ['PERMISSION_DENIED', 'APPROVAL_DECIDED', 'SERVICE_UNAVAILABLE'],
  },
});

export const APPROVAL_GRANT_ROUTES = routes({ tag: 'approvals', owner: 'records', errors: ['SERVICE_UNAVAILABLE'] })({
  'GET /api/v1/approval-grants': {
    id: 'listApprovalGrants',
    summary: 'Grants for calls of the caller, and those that it may give, without arguments',
    query: record({
      tool: maybe(text(undefined, { pattern: String.raw`^[^\x00-\x1f]{1,200}$` })),
      ended: maybe(flag('Also those that were revoked, have expired or are used up')),
      ...PAGE,
    }),
    answers: {
      200: answer('The newest first', record({ grants: list(GRANT), next: maybe(text('Cursor of the next page')) })),
    },
  },
  'GET /api/v1/approval-grants/{id}': {
    id: 'getApprovalGrant',
    summary: 'One grant, with the arguments of its calls for those that may give it; each look is in the audit log',
    audit: [],
    answers: { 200: answer('The grant', GRANT) },
  },
  'DELETE /api/v1/approval-grants/{id}': {
    id: 'revokeApprovalGrant',
    summary: 'Ends a grant; no call uses it from the answer on',
    answers: { 200: answer('The grant', GRANT) },
  },
});
