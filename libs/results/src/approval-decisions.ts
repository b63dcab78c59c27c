import { ToolError, type EpochMs, type JsonObject, type Principal } from '@toolfleet/contracts';
import {
  isSamePerson,
  toApprovalPerson,
  toStoredPerson,
  type ApprovalList,
  type ApprovalShowReply,
  type StoredApproval,
  type VotedGrant,
} from '@toolfleet/contracts/approvals';
import type { PendingDecision } from '@toolfleet/contracts/resources';
import { hasRight, mayDecide, toMaker, type ApiKeys } from '@toolfleet/access';
import { ownsCall } from '@toolfleet/engine/access';
import type { Clock } from '@toolfleet/resilience';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import { isCallId, toDecision, type ApprovalRecords, type ParkedCalls } from './parked-calls.js';

/** An approval as a caller sees it. */
export interface SeenApproval {
  approval: StoredApproval;
  decision: PendingDecision;
  /** Why the caller may not decide on it; absent when it may. */
  refusal?: string;
  /** As the tool will get them; absent where the caller may not decide on calls of this rule, or they cannot be read. */
  arguments?: JsonObject;
}

/** The grant that a decider asks for. */
interface WantedGrant {
  hours: number;
  /** Arguments that may differ; absent: none. */
  fields?: string[];
  max_uses?: number;
}

interface ApprovalDecisionsDeps {
  /** Absent: calls are not recorded, and none wait. */
  records: ApprovalRecords | undefined;
  calls: Pick<ParkedCalls, 'wake'> | undefined;
  keys: Pick<ApiKeys, 'show'>;
  clock: Pick<Clock, 'now'>;
  logger: Pick<Logger, 'info'>;
  /** Where clients reach the gateway, without a trailing slash; absent: its address is not known. */
  gatewayUrl?: string | undefined;
}

/**
 * What people see of the calls that wait for them, and their decisions. A call is seen by its caller, who sees no arguments, and by those
 * that its rule lets decide. Every look at the arguments of another's call and every decision is in the audit log.
 */
export class ApprovalDecisions {
  constructor(private readonly deps: ApprovalDecisionsDeps) {}

  /** The approvals that the caller sees, the newest first. Pages may be short. @throws ToolError SERVICE_UNAVAILABLE */
  async list(
    caller: Principal,
    query: Omit<ApprovalList, 'tenant_id'>,
  ): Promise<{ approvals: SeenApproval[]; next?: string | undefined }> {
    if (!this.deps.records) return { approvals: [] };
    const everywhere = hasRight(caller, 'decide_calls') && hasRight(caller, 'all_tenants');
    const tenant_id = everywhere ? undefined : caller.tenantId;
    const { approvals, next } = await this.deps.records.ask('records.approval.list', { ...query, tenant_id });
    const since = await this.#keySince(caller);
    return {
      approvals: approvals.filter((one) => sees(caller, one)).map((one) => this.#seen(caller, one, since)),
      next,
    };
  }

  /** @throws ToolError NOT_FOUND, also for one that the caller does not see; SERVICE_UNAVAILABLE */
  async show(caller: Principal, callId: string): Promise<SeenApproval> {
    const { approval, arguments: args } = await this.#find(callId, true);
    if (!approval || !sees(caller, approval)) throw unknownApproval(callId);
    const seen = this.#seen(caller, approval, await this.#keySince(caller));
    if (!mayDecide(caller, approval.rule, approval.requester.tenant_id)) return seen;
    if (!owns(caller, approval)) this.#audit(caller, approval, 'arguments of a waiting call read');
    return { ...seen, arguments: args };
  }

  /**
   * Approves or rejects a call. The same decision sent again is answered like the first.
   * @param grant other calls that the yes allows
   * @throws ToolError NOT_FOUND; REQUEST_INVALID for a grant that the policy does not offer; PERMISSION_DENIED with the reason; APPROVAL_DECIDED when it was decided otherwise, or is over;
   *   SERVICE_UNAVAILABLE
   */
  async decide(
    caller: Principal,
    callId: string,
    decision: 'approve' | 'reject',
    { note, grant }: { note?: string | undefined; grant?: WantedGrant | undefined } = {},
  ): Promise<SeenApproval> {
    const { records, calls } = this.deps;
    const { approval: asked } = await this.#find(callId);
    if (!asked || !sees(caller, asked)) throw unknownApproval(callId);
    const since = await this.#keySince(caller);
    const refusal = findRefusal(caller, asked, since);
    if (refusal) throw refusal;
    const by = toApprovalPerson(caller);
    const voted = grant && readVotedGrant(asked, grant, this.deps.clock.now());
    const { approval, changed, due } = await records!.ask('records.approval.decide', {
      call_id: callId,
      decision,
      by,
      note,
      grant: voted,
    });
    if (!approval)
      throw asked.call_id === callId
        ? unknownApproval(callId)
        : new ToolError('NOT_FOUND', {
            message: `No approval '${callId}'. The program with this id has asked several times; it waits for '${asked.call_id}'`,
          });
    const isKnown = approval.votes.some(
      (vote) => vote.decision === decision && (vote.person ? isSamePerson(vote, by) : vote.user_id === by.user_id),
    );
    if (!changed && !isKnown)
      throw new ToolError('APPROVAL_DECIDED', {
        message: `The call '${callId}' is ${approval.state} already`,
        details: { state: approval.state },
      });
    this.#audit(caller, approval, decision === 'approve' ? 'call approved' : 'call rejected');
    if (changed && approval.grant_id !== undefined) this.#audit(caller, approval, 'grant given for other calls');
    // The record has the decision: a call that cannot be woken now is woken within seconds.
    if (due) await calls?.wake(approval).catch(() => undefined);
    if (approval.state === 'expired')
      throw new ToolError('APPROVAL_DECIDED', {
        message: `The decision on call '${callId}' came too late`,
        details: { state: approval.state },
      });
    return this.#seen(caller, approval, since);
  }

  /** When the key of the caller was made, if anyone but an operator made it. @throws ToolError SERVICE_UNAVAILABLE */
  async #keySince({ keyId, root, tenantId }: Principal): Promise<EpochMs | undefined> {
    if (keyId === undefined || root?.kind !== 'creator') return undefined;
    return (await this.deps.keys.show(keyId, tenantId))?.createdAt;
  }

  /** An id that no call can have is not looked up. Where a purge removed the person, the key still names it. */
  async #find(callId: string, withArguments = false): Promise<ApprovalShowReply> {
    if (!isCallId(callId)) return {};
    const found =
      (await this.deps.records?.ask('records.approval.show', { call_id: callId, with_arguments: withArguments })) ?? {};
    const { requester } = found.approval ?? {};
    if (requester?.key_id !== undefined)
      requester.person ??= toStoredPerson((await this.deps.keys.show(requester.key_id, requester.tenant_id))?.root);
    return found;
  }

  #seen(caller: Principal, approval: StoredApproval, since: EpochMs | undefined): SeenApproval {
    const refusal = findRefusal(caller, approval, since)?.message;
    const decision = toDecision(approval, this.deps.gatewayUrl);
    return { approval, decision, refusal };
  }

  #audit(caller: Principal, { call_id, requester, tool, state, grant_id }: StoredApproval, what: string): void {
    const { person, ...by } = toApprovalPerson(caller);
    const call = { approval: call_id, approval_tenant: requester.tenant_id, tool_name: tool, state, grant_id };
    this.deps.logger.info({ audit: CHAINED, ...by, person: person?.user_id, ...call }, what);
  }
}

const makerOf = ({ requester: { user_id: userId, key_id: keyId } }: StoredApproval): string =>
  toMaker(keyId === undefined ? { userId } : { userId, keyId });

const isMaker = (caller: Principal, approval: StoredApproval): boolean =>
  caller.tenantId === approval.requester.tenant_id && toMaker(caller) === makerOf(approval);

/** Whether the call that waits is the caller's own. */
const owns = (caller: Principal, approval: StoredApproval): boolean =>
  ownsCall(caller, {
    tenantId: approval.requester.tenant_id,
    maker: makerOf(approval),
    userId: approval.acting_user_id,
  });

const sees = (caller: Principal, approval: StoredApproval): boolean =>
  caller.via !== 'delegation' &&
  (owns(caller, approval) || mayDecide(caller, approval.rule, approval.requester.tenant_id));

/**
 * Why the caller may not decide on a call that it sees.
 * @param since when its key was made, unless an operator made it
 */
function findRefusal(caller: Principal, approval: StoredApproval, since: EpochMs | undefined): ToolError | undefined {
  const { requester, acting_user_id: acting, rule } = approval;
  const denied = (message: string) => new ToolError('PERMISSION_DENIED', { message });
  if (!mayDecide(caller, rule, requester.tenant_id))
    return denied(
      rule.roles
        ? `Deciding on this call needs ${rule.roles.map((names) => `the role ${names.join(' or ')}`).join(' and ')}`
        : 'Deciding on this call needs the right decide_calls, for example by the role approver',
    );
  const by = toApprovalPerson(caller);
  if (!by.person) return denied('Only a person decides on a call: sign in, or use a key');
  if (since !== undefined && since >= approval.asked_at)
    return denied('This key was created after the question was asked; sign in, or use a key that is older');
  const { user_id: name } = by.person;
  const isOther = rule.not_requester === true;
  // People may decide on calls of their agents, but in person: an agent that may make keys could make one for itself.
  const isInPerson = by.person.kind !== 'creator' && !isMaker(caller, approval);
  if ((isMaker(caller, approval) || isSamePerson(by, requester)) && (isOther || !isInPerson)) {
    const isOwn = by.user_id === name && requester.user_id === name;
    const why = isOwn ? `${name} made this call` : `Keys that ${name} created count as ${name}, who made this call`;
    const how = isOther ? 'another person has to decide, who signs in or has a key' : 'sign in, or use another key';
    return denied(`${why}; ${how} that an operator made`);
  }
  const isUser = [by, by.person].some(
    (one) => one.tenant_id === requester.tenant_id && [requester.user_id, acting].includes(one.user_id),
  );
  if (isOther && isUser) return denied('The policy lets no credential of the user that made the call decide on it');
  return undefined;
}

/**
 * The grant of a decider.
 * @throws ToolError REQUEST_INVALID when the policy does not offer it
 */
function readVotedGrant({ rule }: StoredApproval, wanted: WantedGrant, now: EpochMs): VotedGrant {
  const { grant: offer } = rule;
  const { hours, fields = [], max_uses } = wanted;
  const invalid = (message: string) => new ToolError('REQUEST_INVALID', { message: `Invalid request: ${message}` });
  if (!offer) throw invalid('the policy offers no grant for calls like this one; approve it without grant');
  if (hours * 3_600 > offer.max_s)
    throw invalid(`grant.hours is ${hours}; the policy allows at most ${offer.max_s / 3_600}`);
  const other = fields.find((field) => !offer.fields.includes(field));
  if (other !== undefined)
    throw invalid(
      `grant.fields has '${other.slice(0, 100)}'; the policy lets ${offer.fields.length === 0 ? 'no argument' : offer.fields.join(', ')} differ`,
    );
  if (max_uses !== undefined && max_uses > (offer.max_uses ?? Infinity))
    throw invalid(`grant.max_uses is ${max_uses}; the policy allows at most ${offer.max_uses}`);
  return {
    until: Math.floor(now + hours * 3_600_000),
    fields: [...fields],
    max_uses,
  };
}

const unknownApproval = (callId: string): ToolError =>
  new ToolError('NOT_FOUND', { message: `No approval '${callId.slice(0, 100)}'` });
