import type { JsonObject } from '@toolfleet/base/json';
import type { EpochMs, MicroUsd } from './units.js';

/** A person's approval of questions raised by the policy. Valid only for the revision of the tool that the person was shown. */
export interface Approval {
  questions: readonly string[];
  /** Revision of the tool's definition when the questions were asked. */
  revision: string;
  /** `CallIdentity.fingerprint` of the call that was shown. Absent where the entry point binds the approval to its call itself. */
  fingerprint?: string;
  /** Id of the stored approval: the id of the call that asked. Absent where the caller's own client asked its person. */
  id?: string;
}

/** Who may answer the questions of a policy, and how. Where several rules ask, all of their conditions hold. */
export interface ApprovalRule {
  /** Parks the call even if its caller did not say that it can wait. */
  parks?: boolean;
  /** Number of different persons that must agree; default 1. */
  quorum?: number;
  /** A decider needs one role of each list, in place of the right `decide_calls`. */
  roles?: readonly (readonly string[])[];
  /** Neither the person that made the call decides on it, nor a credential with the name of its user. */
  not_requester?: boolean;
  /** Time for the decision; never longer than the gateway allows. */
  expires_in_s?: number;
  /** Other calls that people may allow with their yes; absent: none. */
  grant?: GrantOffer;
}

/** The calls that people may allow in advance. Where several rules ask, all of them offer it, and the narrowest offer holds. */
export interface GrantOffer {
  /** The scope of a grant in words: the text of each rule. A call for which the rules have another text is not covered. */
  for: readonly string[];
  /** Max life of a grant. */
  max_s: number;
  /** Arguments that may differ from the asking call's; all others are the same. */
  fields: readonly string[];
  /** Max number of calls; absent: any number. */
  max_uses?: number;
}

/** Whether a grant that was given under one rule still stands under another: the same people agree to the same text. */
export function isSameQuestion(given: ApprovalRule, now: ApprovalRule): boolean {
  const bound = ({ grant, quorum = 1, roles = [], not_requester: isOther = false }: ApprovalRule) =>
    JSON.stringify([grant?.for, quorum, roles, isOther]);
  return given.grant !== undefined && bound(given) === bound(now);
}

/** Whether the person behind the caller's own client can answer: the rule does not ask for other people. */
export function mayAskCaller({ quorum = 1, roles, not_requester: isOther }: ApprovalRule = {}): boolean {
  return quorum <= 1 && roles === undefined && isOther !== true;
}

/** A call of a program as people are shown it. */
export interface ShownEffect {
  tool: string;
  /** As the tool will get them. */
  arguments: JsonObject;
  /** Maximum cost. */
  microUsd: MicroUsd;
}

/** Maximum length of arguments, as characters of JSON, that the person at an MCP client is asked about; people in the fleet see longer ones. */
export const MAX_FORM_CHARS = 4_000;

/** Requirements of a call before it runs. */
export interface RequiredApproval extends Approval {
  /**
   * Who goes on with the call: its entry point asks its caller's person; the program that made it waits; or the fleet, once
   * the stored approval is decided.
   */
  by?: 'entry' | 'program' | 'fleet';
  /** With `by: 'entry'` and `by: 'program'`: the call as people are shown it. */
  call?: ShownEffect;
  /** With `by: 'fleet'`: the program that waits, where the approval is one of its calls. */
  program?: string;
  /** When the stored approval expires. */
  until?: EpochMs;
  rule?: ApprovalRule;
}

/** The rules of several calls that are decided together: the largest quorum, one role of each list, the shortest time. */
export function joinRules(rules: readonly (ApprovalRule | undefined)[]): ApprovalRule {
  const known = rules.map((rule) => rule ?? {});
  const quorum = Math.max(1, ...known.map((rule) => rule.quorum ?? 1));
  const roles = known.flatMap((rule) => rule.roles ?? []);
  const times = known.flatMap(({ expires_in_s: time }) => (time === undefined ? [] : [time]));
  return {
    parks: (known.length > 0 && known.every(({ parks }) => parks)) || undefined,
    quorum: quorum > 1 ? quorum : undefined,
    roles: roles.length > 0 ? roles : undefined,
    not_requester: known.some((rule) => rule.not_requester) || undefined,
    expires_in_s: times.length > 0 ? Math.min(...times) : undefined,
  };
}

/**
 * States of a stored approval:
 *
 *   pending ─▶ approved ─▶ executing ─▶ done        a parked call that the fleet runs
 *              approved ─▶ done                     a call that its caller makes again
 *
 * or `rejected`, `expired`, `cancelled` by its caller, and `invalidated`: tool, arguments, policy, credential or budget changed.
 */
export const APPROVAL_STATES = [
  'pending',
  'approved',
  'executing',
  'done',
  'rejected',
  'expired',
  'cancelled',
  'invalidated',
] as const;
export type ApprovalState = (typeof APPROVAL_STATES)[number];

/** Changes of a stored approval. */
export type ApprovalEvent = 'approve' | 'reject' | 'expire' | 'cancel' | 'begin' | 'end' | 'release' | 'invalidate';

/** From which states an event leads where. An event that finds another state changes nothing. */
export const APPROVAL_TRANSITIONS: Readonly<
  Record<ApprovalEvent, { readonly from: readonly ApprovalState[]; readonly to: ApprovalState }>
> = {
  approve: { from: ['pending'], to: 'approved' },
  reject: { from: ['pending'], to: 'rejected' },
  expire: { from: ['pending', 'approved'], to: 'expired' },
  cancel: { from: ['pending', 'approved'], to: 'cancelled' },
  // A run that lost its process begins again; the journal decides whether the effect may.
  begin: { from: ['approved', 'executing'], to: 'executing' },
  end: { from: ['executing'], to: 'done' },
  release: { from: ['approved'], to: 'done' },
  invalidate: { from: ['pending', 'approved', 'executing'], to: 'invalidated' },
};

/** The state after an event; undefined where the event changes nothing. */
export function approvalAfter(state: ApprovalState, event: ApprovalEvent): ApprovalState | undefined {
  const { from, to } = APPROVAL_TRANSITIONS[event];
  return from.includes(state) ? to : undefined;
}
