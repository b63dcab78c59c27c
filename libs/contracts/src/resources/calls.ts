import type { CallProgress } from '../call.js';
import { callFieldSchemas, type CallFieldsOn } from '../call-fields.js';
import type { JsonObject } from '@toolfleet/base/json';
import {
  anything,
  choice,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  number,
  object,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';
import { answer, empty, events, file, routes } from './route.js';
import { TOOLSET } from './tools.js';

/** Shapes in which batches answer, by model provider. */
export const RESULT_FORMATS = ['openai', 'openai-responses', 'anthropic', 'gemini'] as const;
const CONTENT = list(
  object(),
  'Images, audio, links and embedded resources in the format of MCP; absent when there are none',
);

/** Members of a result as Shannon's clients read it. */
export const SHANNON_RESULT = {
  success: flag(),
  output: anything('Any JSON; null when there is none'),
  text: text('A summary for the model'),
  error: nullable(text()),
  metadata: object(),
  content: maybe(CONTENT),
  execution_time_ms: integer(),
};
export const CALL_RESULT = named(
  'CallResult',
  record(
    {
      ...SHANNON_RESULT,
      usage: record(
        {
          tokens: integer(),
          cost_usd: number(),
          replayed: maybe(choice([true], 'The charge of the first call with the same idempotency key')),
        },
        'What the call was charged',
      ),
      call_id: text(),
    },
    'A call that ran; `success` says whether the tool succeeded',
  ),
);
/** A finished call as callers receive it over HTTP and NATS. */
export type CallBody = Value<typeof CALL_RESULT>;

const GRANT_OFFER = record(
  {
    for: list(text(), 'What a grant covers'),
    max_hours: number(),
    fields: list(text(), 'Arguments that may differ from those of this call'),
    max_uses: maybe(integer('Max number of calls; absent: any')),
  },
  'The calls that the policy lets people allow with their yes besides this one',
);

export const PENDING_DECISION = named(
  'PendingDecision',
  record(
    {
      id: text('Id of the approval'),
      questions: list(text(), 'What the policy asks'),
      until: instant('When it expires'),
      quorum: integer('Number of people that must agree'),
      right: maybe(choice(['decide_calls'], 'Right that decides')),
      roles: maybe(list(list(text()), 'Who decides has one role of each list')),
      not_requester: flag(
        'No credential with the name of the user that made the call decides, nor of that for which it was made',
      ),
      grant: maybe(GRANT_OFFER),
      url: text(
        'Page of the console; a path below the address of the gateway where that is not known (GATEWAY_PUBLIC_URL)',
      ),
    },
    'The decision that a call waits for',
  ),
);
/** The decision that a call waits for, as its caller sees it. */
export type PendingDecision = Value<typeof PENDING_DECISION>;

const ACCEPTED = named(
  'Accepted',
  record({
    call_id: text(),
    status: choice(['accepted', 'awaiting_approval']),
    approval: maybe(PENDING_DECISION),
  }),
);
/** Body of a call accepted for asynchronous execution (HTTP 202). */
export type AcceptedBody = Value<typeof ACCEPTED>;

const CALL_RECORD = named(
  'CallRecord',
  record(
    {
      id: text(),
      type: choice(['function']),
      function: record({ name: text(), arguments: text() }),
      result: text('JSON text of a CallResult without its content'),
      content: maybe(CONTENT),
      success: flag(),
      skipped: flag(),
      execution_time: integer('Milliseconds'),
    },
    'One call of a batch: a tool call of OpenAI with its result',
  ),
);
/** One call of a batch as callers receive it. */
export type CallRecord = Value<typeof CALL_RECORD>;

const STATE = choice([
  'awaiting_approval',
  'accepted',
  'claimed',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);
/** States of an asynchronous or journalled call. */
export type CallState = Value<typeof STATE>;

const RESULT_OMITTED = named(
  'ResultOmitted',
  record(
    {
      reason: choice(
        ['permission', 'recorded'],
        'permission: it is not for the caller; recorded: the caller may read it without content=own, which is recorded',
      ),
      message: text(),
    },
    'Why the state of a call is shown without its content',
  ),
);
/** Why the state of a call is shown without its content. */
export type ResultOmitted = Value<typeof RESULT_OMITTED>;

const CALL = named(
  'Call',
  record({
    call_id: text(),
    tool: text(),
    status: STATE,
    arguments: maybe(object('As sent, up to 16 KiB; for the caller that made it')),
    accepted_at: maybe(instant()),
    finished_at: maybe(instant()),
    result: maybe(CALL_RESULT),
    result_omitted: maybe(RESULT_OMITTED),
  }),
);
/** An asynchronous call. `result` is present once the status is final, unless `result_omitted` says that it is for others. */
export type CallStatus = Value<typeof CALL>;

/**
 * One event of an asynchronous call, in order; `Last-Event-ID` resumes after its `id`. `done` is the last and has the whole result, unless
 * the call ended without one. Without access to the content of the call, `progress` has nothing but its type.
 */
export type CallEvent<Result = CallBody> =
  | { id: string; type: 'accepted' | 'started' }
  | ({ id: string; type: 'progress' } & Omit<CallProgress, 'task'>)
  | { id: string; type: 'done'; state: CallState; result?: Result; result_omitted?: ResultOmitted };

const EXECUTE = named('Execute', {
  type: 'object',
  required: ['arguments'],
  properties: { arguments: { type: 'object' }, ...callFieldSchemas('http') },
  additionalProperties: false,
} as Schema<CallFieldsOn<'http'> & { arguments: JsonObject }>);

/** Arguments are an object, or the JSON text of one as models write it. */
const ARGUMENTS: Schema<JsonObject | string> = { anyOf: [object(), text()] };
const member = (name: string, more: Record<string, Schema> = {}): Schema<JsonObject> => ({
  type: 'object',
  required: ['name', name],
  properties: { name: text(), [name]: ARGUMENTS, ...more },
});
/** One call of a batch in the forms that `readBatch` of the engine reads. */
const BATCH_ITEM = named('BatchItem', {
  description: 'A call of this API, or one as a model of OpenAI, Anthropic or Gemini sends it',
  type: 'object',
  properties: callFieldSchemas('batch-item'),
  anyOf: [
    { title: 'Call', ...member('arguments') },
    { title: 'Anthropic', ...member('input', { type: choice(['tool_use']), id: text() }) },
    { title: 'OpenAI Responses', ...member('arguments', { type: choice(['function_call']), call_id: text() }) },
    {
      title: 'OpenAI Chat Completions',
      type: 'object',
      required: ['function'],
      properties: { id: text(), function: member('arguments') },
    },
    { title: 'Gemini', ...member('args', { id: text() }) },
    { title: 'Gemini part', type: 'object', required: ['functionCall'], properties: { functionCall: member('args') } },
    {
      title: 'Shannon',
      type: 'object',
      required: ['tool_name', 'parameters'],
      properties: { tool_name: text(), parameters: ARGUMENTS },
    },
  ],
} as Schema<CallFieldsOn<'batch-item'> & { name: string; arguments: JsonObject }>);
/** One call of a batch. Its fields override the batch's. */
export type BatchItem = Value<typeof BATCH_ITEM>;

const CALLS = list(BATCH_ITEM);
const MODEL_MESSAGE: Schema<JsonObject> = {
  title: 'Message of a model',
  type: 'object',
  anyOf: [
    { properties: { role: { enum: ['assistant', 'model'] } }, required: ['role'] },
    { properties: { object: { const: 'response' } }, required: ['object'] },
  ],
};
/** Body of a batch. */
export const BATCH = named('Batch', {
  description: 'Calls, calls with fields for all of them, or the whole message of a model',
  anyOf: [
    MODEL_MESSAGE,
    CALLS,
    {
      type: 'object',
      properties: { calls: CALLS, tool_calls: CALLS, ...callFieldSchemas('http-batch') },
      additionalProperties: false,
    },
  ],
} as Schema<BatchItem[] | (CallFieldsOn<'http-batch'> & { calls: BatchItem[] })>);

/** The header `Idempotency-Key`. */
export const keyHeader = (maxLength: number, description: string) => maybe(text(description, { maxLength }));
/** Headers of every call. */
export const CALL_HEADERS = {
  'X-Project-Id': maybe(
    text('Project whose files the call works on, one of those of the key; default: its first one', { maxLength: 255 }),
  ),
  'Cache-Control': maybe(
    text('no-store is the same as the field cache with no-store, no-cache and max-age=0 as the field with reload'),
  ),
};
/** A result in the examples of the API. */
export const RESULT_EXAMPLE: JsonObject = {
  success: true,
  output: { result: 42 },
  text: '6 * 7 = 42',
  error: null,
  metadata: { provenance: 'live', attempts: 1 },
  execution_time_ms: 12,
};
/** What status 200 of a call says. */
export const RAN = 'The tool ran; `success` says whether it succeeded';
const ENDED = { 200: file };
const CONTENT_OF = {
  content: maybe(choice(['own'], 'Leaves out what only the right read_bodies shows, so that no reading is recorded')),
};

export const CALL_ROUTES = routes({ tag: 'calls' })({
  'POST /api/v1/tools/{name}/execute': {
    id: 'executeTool',
    summary: 'Runs a tool',
    query: record(TOOLSET),
    headers: record({
      ...CALL_HEADERS,
      'Idempotency-Key': keyHeader(255, 'The first outcome of a key is replayed for 24 h'),
      Prefer: maybe(
        text(
          'wait=<seconds>: a duplicate of an unfinished call waits for it; respond-async: a call that needs an approval is parked; large-integers=digits: integers beyond 2^53 are numbers and not strings',
        ),
      ),
    }),
    body: EXECUTE,
    readsBody: true,
    example: { arguments: { expression: '6 * 7' } },
    audit: 'calls',
    answers: {
      200: answer(RAN, CALL_RESULT, { ...RESULT_EXAMPLE, usage: { tokens: 0, cost_usd: 0 }, call_id: '0d5f8f8e' }),
      202: answer('Accepted (mode async), or waits for an approval; Location is the call', ACCEPTED),
    },
    errors: 'call',
  },
  'POST /api/v1/tools/batch-execute': {
    id: 'executeBatch',
    summary: 'Runs several tools',
    query: record({
      format: maybe(choice(RESULT_FORMATS, 'Shape of all answers; default: that of each call')),
      ...TOOLSET,
    }),
    headers: record({
      ...CALL_HEADERS,
      'Idempotency-Key': keyHeader(250, 'Each call gets it with its position, so that a repeated batch is replayed'),
    }),
    body: BATCH,
    readsBody: true,
    example: { calls: [{ name: 'calculator', arguments: { expression: '6 * 7' } }], parallel: false },
    audit: 'calls',
    answers: {
      200: answer(
        'In request order: call records; for calls of a model provider, or with a format, what the provider takes back',
        list<CallRecord | JsonObject>({ anyOf: [CALL_RECORD, object()] }),
      ),
    },
    errors: 'call',
  },
  'GET /api/v1/calls/{id}': {
    id: 'getCall',
    summary: 'An asynchronous call',
    query: record(CONTENT_OF),
    answers: { 200: answer('State, and the result once it has ended, for those who may read it', CALL) },
  },
  'DELETE /api/v1/calls/{id}': {
    id: 'cancelCall',
    summary: 'Cancels an asynchronous call, waiting or running',
    audit: 'calls',
    answers: {
      200: answer(
        'The state in which it ended; a finished call does not change',
        record({ call_id: text(), status: STATE }),
      ),
      202: answer('It is being stopped and has not ended yet', record({ call_id: text(), status: STATE })),
    },
    errors: ['PERMISSION_DENIED'],
  },
  'GET /api/v1/calls/{id}/result': {
    id: 'downloadResult',
    tag: 'results',
    summary: 'The output of an ended call as a file: binary output as its bytes, text, or else JSON',
    answers: ENDED,
    errors: ['PERMISSION_DENIED'],
  },
  'GET /api/v1/calls/{id}/content/{index}': {
    id: 'downloadContent',
    tag: 'results',
    summary: 'One picture, sound, text or embedded resource of an ended call as a file',
    path: { index: text('Position in `content` of the result, from 0') },
    answers: ENDED,
    errors: ['PERMISSION_DENIED'],
  },
  'GET /api/v1/calls/{id}/events': {
    id: 'followCall',
    summary: 'Server-sent events: accepted, started, progress, done',
    query: record(CONTENT_OF),
    headers: record({ 'Last-Event-ID': maybe(text('Events after this one')) }),
    answers: {
      200: events('Event stream; resumes after Last-Event-ID'),
      204: empty('The call has ended and Last-Event-ID was its last event'),
    },
  },
  'GET /api/v1/results/{handle}': {
    id: 'readResult',
    tag: 'results',
    summary: 'A part of a kept result: what an expression selects, or a page of its text',
    query: record({
      select: maybe(text('JSONPath or JMESPath expression', { maxLength: 1_000 })),
      offset: maybe(integer('First character of the page', { minimum: 0, maximum: 999_999_999 })),
      limit: maybe(
        integer('Most characters of the page, up to 100,000; default 16,000', { minimum: 1, maximum: 999_999 }),
      ),
      session_id: maybe(text('Session of the call, if it had one', { maxLength: 255 })),
    }),
    answers: {
      200: answer(
        '`output` of the selection, or `text` of the page',
        record({
          handle: text(),
          tool: text(),
          output: maybe(anything()),
          note: maybe(text('Why the selection is empty')),
          text: maybe(text()),
          offset: maybe(integer()),
          chars: maybe(integer('Characters of the whole result')),
          next_offset: maybe(nullable(integer(), 'Null at the end')),
        }),
      ),
    },
    errors: ['PERMISSION_DENIED', 'TOOL_ERROR'],
  },
});
