/** Arguments and results that are kept of finished calls. */
import {
  anything,
  choice,
  closed,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  object,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { CALL_RESULT } from './calls.js';
import { answer, routes } from './route.js';

export const BODY_ACCESS = choice(
  ['not_kept', 'own', 'shared', 'recorded', 'denied'],
  'Whether arguments and result can be read: `own` calls, calls of a source that shares results, calls of others where each reading is `recorded` (right read_bodies)',
);
/** Whether the arguments and result of a call can be read. */
export type BodyAccess = Value<typeof BODY_ACCESS>;
const BODY_PART = choice(['arguments', 'result', 'upstream', 'errors']);
const KEPT_BODY = named(
  'KeptBody',
  record(
    {
      arguments: maybe(object('As sent')),
      result: maybe(
        record({
          output: maybe(anything('Any JSON')),
          text: maybe(text('Where there is no output')),
          content: maybe(list(object(), 'As in MCP')),
        }),
      ),
      upstream: maybe(
        record(
          { http_status: maybe(integer()), answer: maybe(anything('Any JSON')) },
          'What the server behind the tool answered to a call that failed',
        ),
      ),
      errors: maybe(
        list(
          record({ code: maybe(text()), message: text(), details: maybe(object()) }),
          'The failure, and what it replaced or followed from',
        ),
      ),
      cut: maybe(list(BODY_PART, 'Parts that were too large to be kept whole')),
      redacted: maybe(list(BODY_PART, 'Parts in which values were replaced by "[redacted]"')),
    },
    'Arguments and result of a call, redacted and within a size',
  ),
);
/** Arguments and result of a finished call. */
export type KeptBody = Value<typeof KEPT_BODY>;
const BODY_READING = record({ tenant_id: text(), user_id: text(), key_id: maybe(text()), at: instant() });
/** A reading of a kept body by somebody else than its caller. */
export type BodyReading = Value<typeof BODY_READING>;
const CHANGES = maybe(
  list(
    record({ path: text('JSON pointer'), before: maybe(anything()), after: maybe(anything()) }),
    'Where the results differ, at most 100; without redacted values',
  ),
);
const NOT_COMPARED = maybe(text('Why there are no changes'));
const REPLAYED = {
  call_id: text('Of the new call'),
  replay_of: text(),
  mode: choice(['dry', 'run']),
  tool: text(),
  revision: record({ before: maybe(text()), now: maybe(text()) }, 'Of the definition of the tool'),
  result: CALL_RESULT,
  changes: CHANGES,
  not_compared: NOT_COMPARED,
};
const TRIED_CALL = named(
  'TriedCall',
  record(
    {
      call_id: maybe(text('Of the new call; absent when it was refused')),
      replay_of: text(),
      ended_at: instant('End of the original call'),
      changes: CHANGES,
      not_compared: NOT_COMPARED,
    },
    'A call of the past that ran again against a changed definition',
  ),
);
/** A call of the past that ran again against a changed definition. */
export type TriedCall = Value<typeof TRIED_CALL>;

export const BODY_ROUTES = routes({ tag: 'calls' })({
  'GET /api/v1/calls/{id}/body': {
    id: 'getCallBody',
    summary:
      'Arguments, result, upstream answer and errors of a finished call, for its caller and with the right read_bodies, which is recorded',
    answers: {
      200: answer(
        'What is kept of the call',
        record({ call_id: text(), body: KEPT_BODY, readings: list(BODY_READING, 'Who else has read it') }),
      ),
    },
    errors: ['PERMISSION_DENIED', 'SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/calls/{id}/replay': {
    id: 'replayCall',
    summary: 'Runs a finished call again with its kept arguments, as a new call of the caller that names its origin',
    body: closed({
      mode: choice(
        ['dry', 'run'],
        'dry: runs a tool without effects and compares the results; run: for real, never an effect that happened',
      ),
      include_unknown: maybe(flag('Also a call with effects whose outcome is unknown')),
      revision: maybe(
        text('dry: runs the definition with this revision, which awaits an approval (right approve_tools)', {
          minLength: 1,
          maxLength: 64,
        }),
      ),
      timeout_ms: maybe(integer(undefined, { minimum: 1 })),
    }),
    example: { mode: 'dry' },
    audit: 'calls',
    answers: { 200: answer('The tool ran; `success` of the result says whether it succeeded', record(REPLAYED)) },
    errors: 'call',
  },
  'POST /api/v1/quarantine/{name}/replay': {
    id: 'tryPendingTool',
    tag: 'sources',
    access: 'approve_tools',
    summary:
      'Runs the last calls of a tool without effects dry against the definition that awaits an approval, and compares the results',
    body: closed({
      pending_revision: text('The revision that was shown', { minLength: 1, maxLength: 64 }),
      calls: maybe(integer('Default 5', { minimum: 1, maximum: 20 })),
    }),
    example: { pending_revision: '3f1c0f0e9d2b4a57' },
    audit: 'calls',
    answers: {
      200: answer(
        'Newest first; calls of the tenant whose arguments and results the caller may read',
        record({
          tool: text(),
          pending_revision: text(),
          replays: list(TRIED_CALL),
          note: maybe(text('Why there are none')),
        }),
      ),
    },
    errors: 'call',
  },
});
