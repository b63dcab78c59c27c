import {
  actsInPerson,
  isToolError,
  joinRules,
  ToolError,
  type Approval,
  type ApprovalRule,
  type ApprovalState,
  type CallRequest,
  type EpochMs,
  type ErrorCode,
  type Milliseconds,
  type JsonObject,
  type Principal,
  type ProgramState,
  type RequiredApproval,
  type WaitingCall,
} from '@toolfleet/contracts';
import {
  MAX_APPROVED_BYTES,
  toApprovalPerson,
  type ApprovalShowReply,
  type StoredApproval,
} from '@toolfleet/contracts/approvals';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import type { PendingDecision } from '@toolfleet/contracts/resources';
import { toMaker } from '@toolfleet/access';
import { sha256Hex } from '@toolfleet/bounded-schema';
import {
  actingUserId,
  ApprovalPort,
  newCallId,
  type ApprovalRequest,
  type Call,
  type ProgramQuestion,
} from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { toQueued, type AsyncCalls } from './async-calls.js';
import { isFinal, type AcceptedCall, type QueuedRequest } from './call-store.js';
import type { RedisCallStore } from './redis-call-store.js';

/** The record of approvals, owned by the service `records`. Rejects with a ToolError while it is unavailable. */
export interface ApprovalRecords {
  ask<S extends Requested>(subject: S, message: MessageOf<S>): Promise<ReplyOf<S>>;
}

interface ParkedCallsDeps {
  records: ApprovalRecords;
  asyncCalls: Pick<AsyncCalls, 'wake'>;
  store: Pick<RedisCallStore, 'enter' | 'getState'>;
  clock: Clock;
  /** Maximum time for a decision. */
  maxWaitMs: Milliseconds;
  /** How long the state of a call is kept after that. */
  keptSeconds: number;
  /** Where clients reach the gateway, without a trailing slash; absent: its address is not known. */
  gatewayUrl?: string | undefined;
}

/** A parked call that a worker takes: it runs, or it is refused for a reason. */
interface BegunCall {
  request?: QueuedRequest;
  /** Why it was not approved. */
  refusal?: ToolError;
}

/**
 * Calls that people decide on. The record of approvals is the truth: it is committed before a caller hears of it, and decides which call
 * runs. A job of the queue only wakes a decided call, and is added again if it was lost.
 */
export class ParkedCalls extends ApprovalPort {
  constructor(private readonly deps: ParkedCallsDeps) {
    super();
  }

  override async ask({ call, required, refusal }: ApprovalRequest): Promise<{ idempotencyKey: string }> {
    const { request, identity, plan } = call;
    requireShort(call.arguments);
    const isKeyed = keepsItsKey(request);
    const parks = !isOfTool(request) && (request.approval?.parks === true || required.rule?.parks === true);
    const { approval, granted } = await this.deps.records.ask('records.approval.ask', {
      ...askedBy(call),
      call_id: request.callId,
      fingerprint: identity.fingerprint,
      ask_key: askKey(call, parks),
      keyed: isKeyed,
      questions: [...required.questions],
      rule: required.rule ?? {},
      micro_usd: plan.reserveMicroUsd,
      until: this.#until(request.principal, required.rule),
      arguments: call.arguments,
      request: parks ? toQueued(toParked(request, required), this.deps.clock.now()) : undefined,
    });
    if (!approval) throw refusal;
    if (granted) return { idempotencyKey: isKeyed ? request.reuse.idempotencyKey! : keyOf(approval.call_id) };
    if (approval.state === 'rejected') throw declined(approval);
    if (approval.parked) await this.#note(approval);
    throw this.#waiting(approval, required, repeatOf(request));
  }

  override async useGrant({ call, required }: Pick<ApprovalRequest, 'call' | 'required'>): Promise<string | undefined> {
    const { request, tool, identity } = call;
    const { principal, callId } = request;
    if (!actsInPerson(principal)) return undefined;
    const key = keepsItsKey(request) ? sha256Hex(identity.idempotencyKey) : callId;
    const used = this.deps.records.ask('records.grant.use', {
      call_id: callId,
      use_key: key,
      ask_key: askKey(call, false),
      requester: toApprovalPerson(principal),
      acting_user_id: actingUserId(request),
      tool: tool.name,
      revision: tool.revision,
      rule: required.rule ?? {},
      arguments: call.arguments,
    });
    // People are asked instead.
    return used.then(
      (reply) => reply.grant_id,
      () => undefined,
    );
  }

  override async askForProgram({
    call,
    shown,
    questions,
    state,
    digest,
    until,
  }: ProgramQuestion): Promise<{ id: string }> {
    const { request, plan } = call;
    const { records, clock } = this.deps;
    requireShort(shown);
    const id = newCallId(clock.now());
    const rule = joinRules(state.waits.map((wait) => wait.rule));
    const program = { ...state, approval: id };
    const { approval, granted } = await records.ask('records.approval.ask', {
      ...askedBy(call),
      call_id: id,
      program_id: request.callId,
      fingerprint: digest,
      ask_key: digest,
      keyed: true,
      questions: [...questions],
      rule,
      micro_usd: plan.reserveMicroUsd + state.waits.reduce((sum, { microUsd }) => sum + microUsd, 0),
      until: Math.min(until, this.#until(request.principal, rule)),
      arguments: shown,
      request: toQueued({ ...request, mode: { kind: 'run' }, program }, state.startedAt),
    });
    if (!approval)
      throw new ToolError('APPROVAL_REQUIRED', {
        message: `A person has to approve this first: ${questions.join('; ')}`,
      });
    if (granted) return { id: approval.call_id };
    if (approval.state === 'rejected') throw declined(approval);
    await this.#note(approval);
    // A decision that came before the note has woken nothing.
    const { approval: now } = await records
      .ask('records.approval.show', { call_id: approval.call_id })
      .catch(() => ({ approval: undefined }));
    if (now && now.state !== 'pending') await this.wake(now).catch(() => undefined);
    throw this.#waiting(approval, { questions, revision: approval.revision, rule }, repeatOf(request));
  }

  /**
   * When the decision must have been made: never after the credential has expired, because the call could not run then. A tool makes its
   * call again with the token of another run.
   */
  #until({ via, expiresAt = Infinity }: Principal, rule: ApprovalRule | undefined): EpochMs {
    const ms = Math.min((rule?.expires_in_s ?? Infinity) * 1_000, this.deps.maxWaitMs);
    return Math.floor(Math.min(this.deps.clock.now() + ms, via === 'delegation' ? Infinity : expiresAt));
  }

  /** Notes the state of a parked call where callers look for it. Without the note they find it in the record of approvals. */
  async #note(approval: StoredApproval): Promise<void> {
    const ttl = Math.ceil((approval.until - this.deps.clock.now()) / 1_000) + this.deps.keptSeconds;
    await this.deps.store.enter(parkedCall(approval), Math.max(ttl, this.deps.keptSeconds)).catch(() => false);
  }

  /** @param repeat advice for the caller after the approval, where the call is not parked */
  #waiting(approval: StoredApproval, required: RequiredApproval, repeat: string): ToolError {
    const { call_id: id, program_id: program, until, parked, questions } = approval;
    const decision = toDecision(approval, this.deps.gatewayUrl);
    const next = parked
      ? `The call ${program ?? id} runs when it is approved, and needs nothing else until then`
      : `${repeat} once ${id} is approved`;
    const asked = decision.questions.join('; ').replace(/(?<![.?!])$/, '.');
    return new ToolError('APPROVAL_REQUIRED', {
      message: `A person has to approve this call first: ${asked} ${next}: ${decision.url}${this.deps.gatewayUrl === undefined ? BELOW_GATEWAY : ''}`,
      details: { questions, revision: approval.revision, approval: { ...decision } },
      facts: { approval: { ...required, id, until, rule: approval.rule, program, by: parked ? 'fleet' : undefined } },
    });
  }

  /** Adds the job of a decided call. A call that has ended meanwhile is not run again. */
  async wake(approval: StoredApproval): Promise<void> {
    const { records, store, asyncCalls } = this.deps;
    const { call_id: id, program_id: callId = id, state } = approval;
    const call = await store.getState(callId);
    const waitsForOther = call?.state === 'awaiting_approval' && call.jobId !== undefined && call.jobId !== id;
    if (call && (isFinal(call.state) || waitsForOther)) {
      await records.ask('records.approval.end', { call_id: id, event: call.state === 'cancelled' ? 'cancel' : 'end' });
      return;
    }
    await asyncCalls.wake(parkedCall(approval), { again: state === 'executing' });
  }

  /**
   * Takes a decided call for a worker; undefined when it has ended. A program gets the decision as the answer to its calls.
   * @param id of the approval
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async begin(id: string): Promise<BegunCall | undefined> {
    const { approval, request, ended } = await this.deps.records.ask('records.approval.begin', { call_id: id });
    if (!approval || ended) return undefined;
    const queued = request as QueuedRequest | undefined;
    const refusal = queued ? refusalOf(approval) : unreadable(approval);
    const mayGoOn =
      refusal === undefined || refusal.code === 'APPROVAL_DECLINED' || refusal.code === 'APPROVAL_EXPIRED';
    if (queued?.program && mayGoOn) {
      const program = decided(queued.program, approval.call_id, refusal);
      return program instanceof ToolError ? { request: queued, refusal: program } : { request: { ...queued, program } };
    }
    return { request: queued, refusal };
  }

  /** Notes how the call of an approval ended: it ran, or it was refused because something changed since it was approved. */
  async end(callId: string, code: ErrorCode | undefined): Promise<void> {
    const event = code !== undefined && CHANGED.has(code) ? 'invalidate' : 'end';
    await this.deps.records.ask('records.approval.end', { call_id: callId, event, code });
  }
}

/** Facts of the call in every question. */
function askedBy({ request, tool }: Call) {
  return {
    requester: toApprovalPerson(request.principal),
    acting_user_id: actingUserId(request),
    tool: tool.name,
    revision: tool.revision,
    entry_point: request.entryPoint,
  };
}

/** @throws ToolError PAYLOAD_TOO_LARGE for more than a person can judge */
function requireShort(shown: JsonObject): void {
  const bytes = Buffer.byteLength(JSON.stringify(shown));
  if (bytes <= MAX_APPROVED_BYTES) return;
  throw new ToolError('PAYLOAD_TOO_LARGE', {
    message: `A person has to approve this call, and cannot judge ${bytes} bytes of arguments; at most ${MAX_APPROVED_BYTES} are shown`,
  });
}

/** State of a program after people have decided; the refusal itself where nothing of it may run: its plan was declined. */
function decided(state: ProgramState, id: string, refusal: ToolError | undefined): ProgramState | ToolError {
  const { waits, plan } = state;
  const ofPlan = waits.filter(({ at }) => at !== undefined);
  if (refusal && ofPlan.length > 0) return refusal;
  const asked = { ...state, waits: [] };
  if (refusal) {
    const { code, message, details } = refusal;
    return {
      ...asked,
      refused: waits.map(({ n, path, tool }) => ({ n: n!, path: path!, tool, code, message, details })),
    };
  }
  const given = ({ questions, revision, fingerprint }: WaitingCall): Approval => ({
    questions,
    revision,
    fingerprint,
    id,
  });
  const calls = waits.filter(({ n }) => n !== undefined).map((wait) => [wait.n!, given(wait)] as const);
  const effects = ofPlan.map((wait) => [wait.at!, given(wait)] as const);
  return {
    ...asked,
    given: [...state.given, ...calls],
    plan: plan && { ...plan, given: [...plan.given, ...effects] },
  };
}

/** Refusals that say that an approved call would not be allowed any more. */
const CHANGED: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'APPROVAL_INVALIDATED',
  'APPROVAL_REQUIRED',
  'ARGUMENTS_INVALID',
  'BUDGET_EXCEEDED',
  'PERMISSION_DENIED',
  'POLICY_DENIED',
  'TOKEN_LIMIT_EXCEEDED',
  'TOOL_DANGEROUS',
  'TOOL_NOT_FOUND',
  'TOOL_QUARANTINED',
  'UNAUTHENTICATED',
]);

/** The idempotency key of an approved call that has none: the journal knows it by its id, and runs it once. */
const keyOf = (callId: string): string => `approval:${callId}`;

/** Whether a tool, such as an agent, makes the call for its caller. It cannot wait: its own call ends first. */
const isOfTool = ({ principal }: CallRequest): boolean => principal.via === 'delegation';

/** Whether the call is made again with the same key. Each run of a tool that calls tools has other keys. */
const keepsItsKey = (request: CallRequest): boolean => request.reuse.idempotencyKey !== undefined && !isOfTool(request);

/** Advice for the maker of a call after its approval, where the call is not parked. */
function repeatOf(request: CallRequest): string {
  if (isOfTool(request)) return 'Call the tool that made it again';
  return `Make the same call ${keepsItsKey(request) ? 'with the same idempotency key ' : ''}again`;
}

/**
 * Identifies a question when its call is made again: by the idempotency key, else by everything that the tool can observe, for its user.
 * A parked call without a key is never made again.
 */
function askKey({ request, identity }: ApprovalRequest['call'], parks: boolean): string | undefined {
  const isKeyed = keepsItsKey(request);
  if (!isKeyed && parks) return undefined;
  const asked = isKeyed
    ? ['key', identity.idempotencyKey]
    : ['same', toMaker(request.principal), actingUserId(request), identity.fingerprint];
  return sha256Hex(JSON.stringify(asked));
}

/** The request of a parked call as it runs once its approval is given. */
function toParked(request: CallRequest, { questions, revision, fingerprint }: RequiredApproval): CallRequest {
  const given = { questions, revision, fingerprint, id: request.callId };
  return {
    ...request,
    mode: { kind: 'run' },
    approval: { asks: false, given },
    reuse: {
      ...request.reuse,
      idempotencyKey: request.reuse.idempotencyKey ?? keyOf(request.callId),
      keyForEffects: false,
    },
  };
}

/** A parked call as callers find it. */
function parkedCall(approval: StoredApproval): AcceptedCall {
  const { call_id, program_id, requester, tool, acting_user_id, asked_at } = approval;
  return {
    callId: program_id ?? call_id,
    jobId: program_id === undefined ? undefined : call_id,
    tenantId: requester.tenant_id,
    tool,
    userId: acting_user_id,
    maker: toMaker({ userId: requester.user_id, keyId: requester.key_id }),
    state: 'awaiting_approval',
    acceptedAt: asked_at,
  };
}

/** Whether an id has the form of a call's, a UUID; others are not looked up. */
export const isCallId = (id: string): boolean => /^[0-9a-f-]{36}$/.test(id);

/** States in which a parked call has not ended yet. */
const OPEN: readonly ApprovalState[] = ['pending', 'approved', 'executing'];

/** Finds and cancels parked calls in the record of approvals, for callers of asynchronous calls. */
export function parkedLookup(records: ApprovalRecords) {
  return {
    async find(callId: string): Promise<AcceptedCall | undefined> {
      if (!isCallId(callId)) return undefined;
      // Most ids that are looked up belong to no call, also where no record is kept.
      const { approval } = await records
        .ask('records.approval.show', { call_id: callId, of_call: true })
        .catch((error: unknown) => {
          if (isToolError(error) && error.facts?.noResponders) return {} as ApprovalShowReply;
          throw error;
        });
      return approval?.parked && OPEN.includes(approval.state) ? parkedCall(approval) : undefined;
    },
    async cancel({ callId, jobId = callId }: AcceptedCall, caller: Principal): Promise<boolean> {
      const by = toApprovalPerson(caller);
      const { approval, changed } = await records.ask('records.approval.decide', {
        call_id: jobId,
        decision: 'cancel',
        by,
      });
      // The record was lost, and with it what could wake the call.
      if (!approval) return true;
      if (!changed || approval.state !== 'cancelled') return false;
      await records.ask('records.approval.end', { call_id: jobId, event: 'cancel' });
      return true;
    },
  };
}

/** Why a decided call does not run; undefined when it was approved. */
function refusalOf(approval: StoredApproval): ToolError | undefined {
  const { state, until, votes, rule } = approval;
  const details = { approval_id: approval.call_id };
  switch (state) {
    case 'approved':
    case 'executing':
      return undefined;
    case 'rejected':
      return declined(approval);
    case 'expired': {
      const isApproved = votes.filter(({ decision }) => decision === 'approve').length >= (rule.quorum ?? 1);
      const message = isApproved
        ? 'The call was approved, and could not begin within a day: it is not known any more whether it ran'
        : `Too few people approved the call until ${new Date(until).toISOString()}`;
      return new ToolError('APPROVAL_EXPIRED', { message, details });
    }
    case 'cancelled':
      return new ToolError('CANCELLED', { details });
    default:
      return new ToolError('APPROVAL_INVALIDATED', {
        message: 'The tool or the policy changed while the call waited',
        details,
      });
  }
}

/** Follows a path in place of a link. */
const BELOW_GATEWAY = ' (below the address of the gateway; with GATEWAY_PUBLIC_URL set, this is a whole link)';

const unreadable = ({ call_id, tool }: StoredApproval): ToolError =>
  new ToolError('APPROVAL_INVALIDATED', {
    message: `The arguments of '${tool}' cannot be read: the service records has another RECORDS_SECRET_KEY than the one that sealed them`,
    details: { approval_id: call_id },
  });

function declined({ call_id, votes }: StoredApproval): ToolError {
  const by = votes.find(({ decision }) => decision === 'reject');
  const note = by?.note === undefined ? '' : `: ${by.note}`;
  return new ToolError('APPROVAL_DECLINED', {
    message: `${by?.user_id || 'A person'} rejected the call${note}`,
    details: { approval_id: call_id },
  });
}

/**
 * The decision that a call waits for, as its caller sees it.
 * @param gatewayUrl where clients reach the gateway, without a trailing slash; absent: its address is not known
 */
export function toDecision({ call_id, questions, until, rule }: StoredApproval, gatewayUrl = ''): PendingDecision {
  const { grant } = rule;
  return {
    id: call_id,
    questions,
    until: new Date(until).toISOString(),
    quorum: rule.quorum ?? 1,
    roles: rule.roles?.map((names) => [...names]),
    right: rule.roles ? undefined : 'decide_calls',
    not_requester: rule.not_requester === true,
    grant: grant && {
      for: [...grant.for],
      max_hours: grant.max_s / 3_600,
      fields: [...grant.fields],
      max_uses: grant.max_uses,
    },
    url: `${gatewayUrl}/console/#/approvals/${call_id}`,
  };
}

/**
 * The call that waits for a stored approval: the one that was refused, or asked first; undefined when it was refused for another reason.
 * `isProgram`: it has begun, and waits for the approval of its own calls.
 */
export function readParked(
  refusal: unknown,
): { callId: string; isProgram: boolean; decision: PendingDecision } | undefined {
  if (!isToolError(refusal) || refusal.code !== 'APPROVAL_REQUIRED' || refusal.facts?.approval?.by !== 'fleet')
    return undefined;
  const { id, program } = refusal.facts.approval;
  if (id === undefined) return undefined;
  const decision = refusal.details!['approval'] as unknown as PendingDecision;
  return { callId: program ?? id, isProgram: program !== undefined, decision };
}
