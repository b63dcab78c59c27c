/** Grants: with a yes to one call, people also allow others like it until an instant. */
import type { ApprovalRule } from '../approval.js';
import { flag, integer, maybe, object, objectOf, record, text, type Value } from '../json-schema.js';
import type { JsonObject } from '@toolfleet/base/json';
import type { EpochMs } from '../units.js';
import { APPROVAL_PERSON, type ApprovalPerson } from './approvals.js';

const ID = text(undefined, { minLength: 1, maxLength: 200 });
const RULE = objectOf<ApprovalRule>();

/** A stored grant without arguments. */
export interface StoredGrant {
  grant_id: string;
  /** The approval with which it was given. */
  call_id: string;
  /** Calls that it covers: the user's, with any credential; the one credential's where it has no user. */
  requester: ApprovalPerson;
  acting_user_id: string;
  tool: string;
  revision: string;
  /** Under which it was given. */
  rule: ApprovalRule;
  fields: string[];
  granted_at: EpochMs;
  until: EpochMs;
  granted_by: ApprovalPerson[];
  /** Calls that it has let through. */
  uses: number;
  max_uses?: number;
  last_used_at?: EpochMs;
  revoked_at?: EpochMs;
  revoked_by?: ApprovalPerson;
}

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
  acting_user_id: text(undefined, { maxLength: 300 }),
  tool: ID,
  revision: text(),
  rule: RULE,
  /** As the tool will get them. */
  arguments: object(),
});
export type GrantUse = Value<typeof GRANT_USE>;
export interface GrantUseReply {
  /** Absent: people are asked. */
  grant_id?: string;
}

/** `records.grant.list`: the newest first. */
export const GRANT_LIST = record({
  /** Absent: all tenants. */
  tenant_id: maybe(ID),
  tool: maybe(ID),
  /** Also revoked, expired and used-up grants. */
  ended: maybe(flag()),
  /** Only older ones than this. */
  before: maybe(ID),
  limit: integer(undefined, { minimum: 1, maximum: 1_000 }),
});
export type GrantList = Value<typeof GRANT_LIST>;
export interface GrantListReply {
  grants: StoredGrant[];
  /** Cursor of the next page, as `before`. */
  next?: string;
}

/** `records.grant.show`. */
export const GRANT_SHOW = record({ grant_id: ID, with_arguments: maybe(flag()) });
export type GrantShow = Value<typeof GRANT_SHOW>;
export interface GrantShowReply {
  /** Absent: there is none. */
  grant?: StoredGrant;
  /** The arguments that its calls have. Absent also when they were sealed with another `RECORDS_SECRET_KEY`. */
  arguments?: JsonObject;
}

/** `records.grant.revoke`: the caller has checked that the person may. From the answer on it lets no call through. */
export const GRANT_REVOKE = record({ grant_id: ID, by: APPROVAL_PERSON });
export type GrantRevoke = Value<typeof GRANT_REVOKE>;
export interface GrantRevokeReply {
  grant?: StoredGrant;
  /** False: it had ended. */
  changed: boolean;
}

/** Why a grant lets no call through any more; undefined while it does. */
export function grantEnd(
  { revoked_at, until, uses, max_uses }: Pick<StoredGrant, 'revoked_at' | 'until' | 'uses' | 'max_uses'>,
  now: EpochMs,
): 'revoked' | 'expired' | 'used_up' | undefined {
  if (revoked_at !== undefined) return 'revoked';
  if (until <= now) return 'expired';
  return uses >= (max_uses ?? Infinity) ? 'used_up' : undefined;
}
