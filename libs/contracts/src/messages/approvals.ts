import { APPROVAL_STATES, type ApprovalRule, type ApprovalState } from '../approval.js';
import type { ErrorCode } from '../errors/catalogue.js';
import { choice, flag, integer, list, maybe, object, objectOf, record, text, type Value } from '../json-schema.js';
import type { JsonObject } from '@toolfleet/base/json';
import { personOf, type Person, type Principal } from '../principal.js';
import type { EpochMs, MicroUsd } from '../units.js';

const ID = text(undefined, { minLength: 1, maxLength: 200 });
const USER = text(undefined, { maxLength: 300 });
/** A credential that asks or decides. */
const APPROVAL_PERSON = record({
  tenant_id: ID,
  user_id: USER,
  key_id: maybe(ID),
  /** `personOf` it. */
  person: maybe(record({ tenant_id: ID, user_id: USER, kind: ID })),
  /** `Principal.via`, and the session where the person is signed in. Kept of deciders. */
  via: maybe(ID),
  session_id: maybe(ID),
});
export type ApprovalPerson = Value<typeof APPROVAL_PERSON>;

/** A caller that asks or decides, as it is stored. */
export const toApprovalPerson = (caller: Principal): ApprovalPerson => ({
  tenant_id: caller.tenantId,
  user_id: caller.userId,
  key_id: caller.keyId,
  person: toStoredPerson(personOf(caller)),
  via: caller.via,
  session_id: caller.sessionId,
});

export const toStoredPerson = (person: Person | undefined): ApprovalPerson['person'] =>
  person && { tenant_id: person.tenantId, user_id: person.userId, kind: person.kind };

/** The person that a credential counts as; where that is not known, its user. */
export const countsAs = ({
  tenant_id,
  user_id,
  person,
}: ApprovalPerson): Pick<ApprovalPerson, 'tenant_id' | 'user_id'> => person ?? { tenant_id, user_id };

export function isSamePerson(one: ApprovalPerson, other: ApprovalPerson): boolean {
  const [a, b] = [countsAs(one), countsAs(other)];
  return a.tenant_id === b.tenant_id && a.user_id === b.user_id;
}

/** The grant of a decider, within the offer of the rule. */
const VOTED_GRANT = record({
  until: integer(undefined, { minimum: 0 }),
  /** Arguments that may differ. */
  fields: list(text(undefined, { maxLength: 200 }), undefined, { maxItems: 100 }),
  max_uses: maybe(integer(undefined, { minimum: 1 })),
});
export type VotedGrant = Value<typeof VOTED_GRANT>;

/** Maximum length of arguments that a person is asked about, as bytes of JSON. */
export const MAX_APPROVED_BYTES = 256 * 1024;

/**
 * `records.approval.ask`: a call that needs a person. The answer comes once the question is durable; a question that is known by its
 * `ask_key` is not asked again.
 */
export const APPROVAL_ASK = record({
  /** Id of the approval: of the call that asks, or a new one for calls of a program. */
  call_id: ID,
  /** The program that waits. It has one open question: an earlier one does not hold any more. */
  program_id: maybe(ID),
  requester: APPROVAL_PERSON,
  /** The user that the call is made for. */
  acting_user_id: USER,
  tool: ID,
  revision: text(),
  /** `CallIdentity.fingerprint`. */
  fingerprint: text(),
  /** Identifies the question when the call is made again; absent: each call is a new question. */
  ask_key: maybe(ID),
  /** The call has an idempotency key, so that the journal knows it when it is made again. */
  keyed: flag(),
  questions: list(text()),
  rule: objectOf<ApprovalRule>(),
  /** Maximum cost. */
  micro_usd: integer(),
  entry_point: ID,
  until: integer(undefined, { minimum: 0 }),
  /** As the tool will get them. */
  arguments: object(),
  /** The queued request of a parked call that the fleet runs. Absent: its caller makes the call again. */
  request: maybe(objectOf<object>()),
});
export type ApprovalAsk = Value<typeof APPROVAL_ASK>;
export interface ApprovalAskReply {
  /** Absent: the service keeps no approvals, because it has no `RECORDS_SECRET_KEY`. */
  approval?: StoredApproval;
  /** The call may run now, under this approval. */
  granted?: true;
}

/** A decision of one person. */
export interface ApprovalVote extends ApprovalPerson {
  decision: 'approve' | 'reject';
  note?: string;
  /** Its grant. */
  grant?: VotedGrant;
  at: EpochMs;
}

/** A stored approval without arguments. */
export interface StoredApproval {
  call_id: string;
  /** The call of the program that waits; absent: the call of `call_id` does. */
  program_id?: string;
  requester: ApprovalPerson;
  acting_user_id: string;
  tool: string;
  revision: string;
  state: ApprovalState;
  questions: string[];
  rule: ApprovalRule;
  /** The fleet runs the call when it is approved. */
  parked: boolean;
  micro_usd: MicroUsd;
  entry_point: string;
  asked_at: EpochMs;
  until: EpochMs;
  votes: ApprovalVote[];
  ended_at?: EpochMs;
  /** The grant that was stored with the last yes. */
  grant_id?: string;
  /** Code of the failure with which the call ended, or why the approval does not hold any more. */
  code?: ErrorCode;
}

/** `records.approval.show`. */
export const APPROVAL_SHOW = record({
  call_id: ID,
  with_arguments: maybe(flag()),
  /** The newest one that this call waits for, also as a program. Without it the approval of this id comes first. */
  of_call: maybe(flag()),
});
export interface ApprovalShowReply {
  /** Absent: there is none. */
  approval?: StoredApproval;
  /** Absent also when they were sealed with another `RECORDS_SECRET_KEY`. */
  arguments?: JsonObject;
}

/** `records.approval.list`: the newest first. */
export const APPROVAL_LIST = record({
  /** Absent: all tenants. */
  tenant_id: maybe(ID),
  states: maybe(list(choice(APPROVAL_STATES))),
  tool: maybe(ID),
  /** Only approvals asked before this one. */
  before: maybe(ID),
  limit: integer(undefined, { minimum: 1, maximum: 1_000 }),
});
export type ApprovalList = Value<typeof APPROVAL_LIST>;
export interface ApprovalListReply {
  approvals: StoredApproval[];
  /** Cursor of the next page, as `before`. */
  next?: string;
}

/** `records.approval.decide`: the caller has checked that the person may decide. */
export const APPROVAL_DECIDE = record({
  /** Of the approval, or of the program that waits for it, if it has asked once. */
  call_id: ID,
  decision: choice(['approve', 'reject', 'cancel']),
  by: APPROVAL_PERSON,
  note: maybe(text(undefined, { maxLength: 1_000 })),
  /** With a yes: a grant, if all that agree allow it. */
  grant: maybe(VOTED_GRANT),
});
export type ApprovalDecide = Value<typeof APPROVAL_DECIDE>;
export interface ApprovalDecideReply {
  /** Absent: there is none. */
  approval?: StoredApproval;
  /** This decision changed the state. */
  changed: boolean;
  /** A parked call is to be woken. */
  due: boolean;
}

/** `records.approval.begin`: takes a decided call. */
export const APPROVAL_BEGIN = record({ call_id: ID });
export interface ApprovalBeginReply {
  /** Absent: there is none. */
  approval?: StoredApproval;
  /** The call has ended, or was never decided. */
  ended?: true;
  /** Absent also when it cannot be read. */
  request?: object;
}

/** `records.approval.end`: how the call of an approval ended. */
export const APPROVAL_END = record({
  call_id: ID,
  event: choice(['end', 'invalidate', 'cancel']),
  code: maybe(text<ErrorCode>()),
});
export type ApprovalEnd = Value<typeof APPROVAL_END>;
export interface ApprovalEndReply {
  changed: boolean;
}

/** `records.approval.due`: parked calls to be woken, reserved for the asking gateway for some seconds. */
export const APPROVAL_DUE = record({ limit: integer(undefined, { minimum: 1, maximum: 1_000 }) });

/**
 * `records.grant.use`: asks whether a grant covers a call, and counts the call. The answer comes after the commit; a call is counted
 * once, however often it asks.
 */
export const GRANT_USE = record({
  call_id: ID,
  /** Identifies the call when it is made again. */
  use_key: ID,
  /** The `records.approval.ask`: an approved call that is made again runs by its approval. */
  ask_key: maybe(ID),
  requester: APPROVAL_PERSON,
  acting_user_id: USER,
  tool: ID,
  revision: text(),
  rule: objectOf<ApprovalRule>(),
  /** As the tool will get them. */
  arguments: object(),
});
export type GrantUse = Value<typeof GRANT_USE>;
export interface GrantUseReply {
  /** Absent: people are asked. */
  grant_id?: string;
}
