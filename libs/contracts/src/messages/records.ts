import { choice, flag, integer, list, maybe, number, objectOf, record, text, type Value } from '../json-schema.js';
import type { BodyReading as ShownReading, KeptBody } from '../resources/call-bodies.js';
import { CALL_GROUPS, type CallSum as ShownSum, type FinishedCall as ShownCall } from '../resources/finished-calls.js';
import type { Json } from '@toolfleet/base/json';
import type { EpochMs, MicroUsd } from '../units.js';

/** A finished call as gateways send it and the service `records` stores it. Absent members are unknown, or do not apply. */
export interface FinishedCall extends Omit<ShownCall, 'cursor' | 'ended_at' | 'cost_usd'> {
  /** Instant of its end by the clock of its gateway. */
  ended_at: EpochMs;
  micro_usd: MicroUsd;
  /** Arguments and result, from gateways only: the service seals them and stores them apart. */
  body?: KeptBody;
}

/** A stored call and its position in the order of recording, a number as text. */
export interface StoredCall extends Omit<FinishedCall, 'body'> {
  cursor: string;
}

const ID = text(undefined, { minLength: 1, maxLength: 200 });
const CURSOR = text(undefined, { pattern: String.raw`^\d{1,16}$` });
/** Calls in one message; senders split longer batches. */
export const MAX_APPENDED_CALLS = 500;
/** Maximum time from the end of a call to its recording; one that waits longer is dropped. The service knows batches of the last day. */
export const MAX_RECORDING_MS = 20 * 3_600_000;

/**
 * `records.append`: calls that ended. The answer comes once they are durable; a batch that is sent again is stored once. REQUEST_INVALID:
 * the batch has a call that cannot be stored, and nothing of it is.
 */
export const RECORDS_APPEND = record({
  batch_id: text(undefined, { pattern: '^[0-9a-f-]{36}$' }),
  calls: list(objectOf<FinishedCall>(), undefined, { maxItems: MAX_APPENDED_CALLS }),
});
export type RecordsAppend = Value<typeof RECORDS_APPEND>;
export interface RecordsAppendReply {
  /** False: an earlier delivery of the batch was stored. */
  stored: boolean;
}

/** A reading of a body by another than the call's maker. */
export interface BodyReading extends Omit<ShownReading, 'at'> {
  at: EpochMs;
}

/** `records.body`: arguments and result of a call. With a reader, the reading is stored before the answer. */
export const RECORDS_BODY = record({
  tenant_id: ID,
  call_id: ID,
  /** Absent: the maker of the call reads. */
  reader: maybe(record({ tenant_id: ID, user_id: text(undefined, { maxLength: 255 }), key_id: maybe(ID) })),
  /** The reader has the result from elsewhere: the reading is stored, also without a kept body, and the answer is empty. */
  is_note: maybe(flag()),
});
export type RecordsBody = Value<typeof RECORDS_BODY>;
export interface RecordsBodyReply {
  /** Absent: nothing is kept, or its key was deleted. */
  body?: KeptBody;
  /** It was sealed with another `RECORDS_SECRET_KEY` than the service has. */
  is_unreadable?: true;
  readings: BodyReading[];
}

export type CallGroup = (typeof CALL_GROUPS)[number];

const STATUSES = ['success', 'tool_error', 'refused', 'cancelled', 'system_error'] as const;

/** Which calls; an absent member restricts nothing. */
const WHICH_CALLS = {
  before: maybe(CURSOR),
  tenant_id: maybe(ID),
  /** Bounds of `ended_at`, epoch ms; the second is exclusive. */
  from: maybe(integer()),
  to: maybe(integer()),
  tool: maybe(ID),
  source: maybe(ID),
  user_id: maybe(ID),
  key_id: maybe(ID),
  agent_id: maybe(ID),
};

/**
 * `records.list`: calls that match all members, oldest first: those after `after`, else the last ones, or the last before `before`. A
 * search takes a bounded time; the next request goes on from `next`.
 */
export const RECORDS_LIST = record({
  ...WHICH_CALLS,
  limit: integer(undefined, { minimum: 1, maximum: 1_000 }),
  after: maybe(CURSOR),
  /** Start of the id. */
  call_id: maybe(ID),
  parent_call_id: maybe(ID),
  /** Calls of this user, and those by this key: the caller's own. */
  owner: maybe(record({ user_id: maybe(ID), key_id: maybe(ID) })),
  status: maybe(list(choice(STATUSES))),
  code: maybe(ID),
  min_duration_ms: maybe(number()),
  min_micro_usd: maybe(integer()),
  /** Also sum all matching calls by these. */
  group_by: maybe(list(choice(CALL_GROUPS))),
});
export type RecordsList = Value<typeof RECORDS_LIST>;
export interface RecordsListReply {
  calls: StoredCall[];
  /** Cursor to go on with, as `after` if that was given, else as `before`; absent when there are no further calls. */
  next?: string;
  groups?: CallGroups;
}

/** Sums of calls, by number of calls in descending order. */
export interface CallGroups {
  rows: CallSum[];
  /** The sum of all rows. */
  total: CallSum;
  /** Calls that were recorded before it are not in the sums, because the search took too long or there were too many groups. */
  since?: EpochMs;
}

/** The sum of one group, with the members that were grouped by. */
export interface CallSum extends Omit<ShownSum, 'cost_usd'> {
  micro_usd: MicroUsd;
}

/** What `records.facts` tells of calls; absent facts are null. `has_parent` is whether another call made it. */
const CALL_FACTS = [
  'tenant_id',
  'user_id',
  'key_id',
  'agent_id',
  'via',
  'roles',
  'tool',
  'source',
  'toolset',
  'origin',
  'entry_point',
  'has_parent',
  'parent_call_id',
  'status',
  'code',
  'transport',
  'ended_at',
  'duration_ms',
  'admit_ms',
  'wait_ms',
  'micro_usd',
  'tokens',
] as const;
export type CallFact = (typeof CALL_FACTS)[number];

/**
 * `records.facts`: some facts of all calls that match, the newest first. Calls with equal facts are one row, unless `each` is set. A
 * request takes a bounded time; `next` goes on as `before`.
 */
export const RECORDS_FACTS = record({
  ...WHICH_CALLS,
  facts: list(choice(CALL_FACTS)),
  each: maybe(flag()),
  /** Name of a toolset, in any version. */
  toolset: maybe(ID),
});
export type RecordsFacts = Value<typeof RECORDS_FACTS>;
export interface RecordsFactsReply {
  /** The facts in the order of the request, then the number of calls and the id of one of them. */
  rows: Json[][];
  next?: string;
}
