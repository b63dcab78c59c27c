import { randomUUID } from 'node:crypto';
import type { MicroUsd, Milliseconds } from '@toolfleet/contracts';
import {
  SHARED_LEASE_MS,
  SHARED_LEASE_PREFIX,
  type BudgetLimits,
  type BudgetLimitsReply,
  type BudgetScopes,
  type LeaseShare,
  type ReserveAnswer,
  type ReserveRequest,
  type SeparateBy,
  type SettleRequest,
  type SharedLease,
} from '@toolfleet/contracts/budget';
import { RecentMap, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { BudgetPort, type MaybePromise } from '@toolfleet/engine';
import { WaitingCalls } from './waiting-calls.js';

/** A lease is as large as the spending in this time: the maximum unjustified charge of a gateway that dies. */
const SPEND_WINDOW_MS = 100;
/** Calls in one window from which on a lease pays; fewer are asked for one by one. */
const BUSY_CALLS = 4;
/** A lease for fewer calls than this saves no message. */
const LEAST_CALLS = 2;
/** Scopes above which idle ones are forgotten. */
const MAX_SCOPES = 5_000;

/** Nothing aborts the request for a lease, because no single call waits for it. */
const NEVER_ABORTED = new AbortController().signal;

/** What calls spent in one window. */
interface Spend {
  calls: number;
  microUsd: MicroUsd;
  /** Longest time that one of them asked to be covered. */
  longestMs: Milliseconds;
}

/** A lease that this process holds, and the rest of it that no call has. */
class OpenLease {
  microUsd: MicroUsd;
  isOpen = true;
  cancelEnd: CancelTimer = () => undefined;

  /** @param askedAt monotonic ms; the service counts from a later instant, so that no time in here is too long */
  constructor(
    readonly id: string,
    readonly scopes: BudgetScopes,
    readonly grant: SharedLease,
    readonly mayOverrun: true | undefined,
    readonly askedAt: Milliseconds,
    readonly lengthMs: Milliseconds,
  ) {
    this.microUsd = grant.micro_usd;
  }

  /** Whether the reservation covers everything limited that the call may spend. */
  bounds({ may_report, micro_usd }: ReserveRequest): boolean {
    const { estimates } = this.grant;
    if (!may_report || !estimates) return true;
    return !estimates.tokens && !(estimates.micro_usd && (micro_usd === 0 || this.mayOverrun));
  }

  /** Applies the rule of limits to the rest: nothing more when it is used up, and nothing that exceeds it. A unit of limited tokens is left. */
  admits({ micro_usd, lease_ms }: ReserveRequest, now: Milliseconds): boolean {
    const { limits_micro_usd, call_limit_micro_usd } = this.grant;
    return (
      this.isOpen &&
      now < this.askedAt + SHARED_LEASE_MS &&
      now + lease_ms <= this.askedAt + this.lengthMs &&
      micro_usd <= this.microUsd &&
      (this.microUsd > 0 || !limits_micro_usd) &&
      (call_limit_micro_usd === null || micro_usd <= call_limit_micro_usd)
    );
  }

  /** True when less than half of it is left, in any respect. */
  isLow(now: Milliseconds): boolean {
    const { micro_usd } = this.grant;
    return now >= this.askedAt + SHARED_LEASE_MS / 2 || (micro_usd > 0 && this.microUsd * 2 <= micro_usd);
  }

  /**
   * The share of a call that held `heldMicroUsd` and was charged `microUsd`; undefined when it has none. While the lease is open, what the
   * call did not use is for the next one.
   */
  settle(heldMicroUsd: MicroUsd, microUsd: MicroUsd): LeaseShare | undefined {
    const taken = this.isOpen ? Math.min(microUsd, heldMicroUsd) : heldMicroUsd;
    this.microUsd += heldMicroUsd - taken;
    return taken > 0 ? { id: this.id, micro_usd: taken, tokens: 0 } : undefined;
  }

  /** The granted amounts of a lease; an empty one is known to this process only. */
  get isStored(): boolean {
    return this.grant.micro_usd > 0 || this.grant.tokens > 0;
  }
}

/** An admitted call that is settled out of a lease, or has limited usage. */
interface Admitted {
  readonly lease?: OpenLease | undefined;
  /** Its reservation. */
  readonly microUsd: MicroUsd;
  /** Of its scope. */
  readonly reportsUsage: Map<string, boolean>;
  /** Set: it holds an estimate, for which others in this line may wait. */
  readonly line?: string | undefined;
}

/** A run that makes calls in its own request, such as a program. */
interface CallingRun {
  readonly beganAt: Milliseconds;
  /** Of its calls. */
  readonly scope: ScopeSpending;
  /** Key of that scope, and of its tenant and tool. */
  readonly key: string;
  readonly kind: string;
  /** Reservations of its calls in the time that a lease admits. */
  readonly early: Spend;
}

/** The calls of one tenant, agent, task and shared request, and user and key where these have budgets: they spend from the same limits. */
class ScopeSpending {
  lease: OpenLease | undefined;
  isAsking = false;
  /** No lease is asked for before: the last one was refused. */
  notBefore: Milliseconds = 0;
  /** No further call spends here. */
  isOver = false;
  /** Tools that may report limited amounts, and whether they do. */
  readonly reportsUsage = new Map<string, boolean>();
  private windowAt: Milliseconds = 0;
  private current: Spend = noSpend();
  private previous: Spend = noSpend();

  /** Adds a call to the reservations at `now`. */
  add(now: Milliseconds, microUsd: MicroUsd, longestMs: Milliseconds): void {
    this.turn(now);
    this.current.calls += 1;
    this.current.microUsd += microUsd;
    this.current.longestMs = Math.max(this.current.longestMs, longestMs);
  }

  /** Spending of a window at present: the larger of this unfinished one, and the one before. */
  observed(now: Milliseconds): Spend {
    this.turn(now);
    const { current, previous } = this;
    return {
      calls: Math.max(current.calls, previous.calls),
      microUsd: Math.max(current.microUsd, previous.microUsd),
      longestMs: Math.max(current.longestMs, previous.longestMs),
    };
  }

  isIdle(now: Milliseconds): boolean {
    return !this.lease && !this.isAsking && now - this.windowAt > 2 * SPEND_WINDOW_MS;
  }

  private turn(now: Milliseconds): void {
    const passed = now - this.windowAt;
    if (passed < SPEND_WINDOW_MS) return;
    this.previous = passed < 2 * SPEND_WINDOW_MS ? this.current : noSpend();
    this.current = noSpend();
    this.windowAt = now;
  }
}

const noSpend = (): Spend => ({ calls: 0, microUsd: 0, longestMs: 0 });

/**
 * Takes the budget service out of the way of calls: admits them from shared leases, each an amount out of every limit that the
 * calls of one tenant, agent and task spend from. Calls that share a request id, such as a program's, have leases of their own,
 * which count against the limit of the request as well. A run that makes calls asks for a lease for them in the message that asks for
 * itself, as large as the first reservations of the last such run's calls at first. Settlements name the lease and the share of it that the call
 * had; what no call used returns when the lease ends. Calls that leases do not suit are asked for one by one:
 * those that may have been charged before, hold tokens, come seldom, or come when too little is left of a limit; and calls of tools that
 * report limited amounts and hold an estimate. The answers of these wait for their settlement.
 */
export class LeasedBudget extends BudgetPort {
  private readonly scopes = new Map<string, ScopeSpending>();
  /** Tenants with budgets of users or keys: by which their leases are apart. */
  private readonly separateBy = new Map<string, readonly SeparateBy[]>();
  /** By call id. */
  private readonly admitted = new Map<string, Admitted>();
  private readonly waiting: WaitingCalls;
  /** Runs by call id: the request id of their calls. */
  private readonly runs = new Map<string, CallingRun>();
  /** First reservations of the calls of the last run of a tenant and tool. */
  private readonly earlyOfRuns = new RecentMap<string, Spend>({ max: MAX_SCOPES });

  /** @param budget is asked for leases and for calls without one, and takes all settlements */
  constructor(
    private readonly budget: BudgetPort,
    private readonly clock: Clock,
  ) {
    super();
    this.waiting = new WaitingCalls(clock);
  }

  override reserve(request: ReserveRequest, signal: AbortSignal): ReserveAnswer | Promise<ReserveAnswer> {
    const now = this.clock.monotonic();
    this.noteCallOfRun(request, now);
    const { scope, key } = this.scopeOf(request, now);
    if (!mayShare(request)) {
      const answer = this.ask(request, signal, scope, key);
      if (request.shares_request && isOwnRequest(request)) this.beginRun(request, answer, now);
      return answer;
    }
    scope.add(now, request.micro_usd, request.lease_ms);
    const { lease } = scope;
    const { micro_usd: microUsd, tool_name: tool = '' } = request;
    const reports = scope.reportsUsage.get(tool);
    if (!lease?.admits(request, now) || (reports !== false && !lease.bounds(request))) {
      const answer = this.ask(request, signal, scope, key);
      if (!reports) void this.renew(scope, request, now);
      return answer;
    }
    if (lease.isLow(now)) void this.renew(scope, request, now);
    lease.microUsd -= microUsd;
    this.admitted.set(request.call_id, { lease, microUsd, reportsUsage: scope.reportsUsage });
    return { admitted: true, call_id: request.call_id, may_overrun: lease.mayOverrun };
  }

  override settle(request: SettleRequest): MaybePromise<void> {
    this.runEnded(request.call_id);
    const admitted = this.take(request.call_id);
    if (!admitted) return this.budget.settle(request);
    const { lease, microUsd, line, reportsUsage } = admitted;
    const settlement = lease ? { ...request, lease: lease.settle(microUsd, request.micro_usd) } : request;
    const tool = request.row?.tool_name ?? '';
    const isSurprise = reportsUsage.get(tool) === false && (request.tokens > 0 || request.micro_usd > microUsd);
    if (isSurprise) reportsUsage.delete(tool);
    if (line === undefined && !isSurprise) return this.budget.settle(settlement);
    return this.settleAtOnce(settlement, line);
  }

  private async settleAtOnce(settlement: SettleRequest, line: string | undefined): Promise<void> {
    await this.budget.settle(settlement, true);
    if (line !== undefined) this.waiting.letGo(line);
  }

  override release(callId: string, scopes: BudgetScopes): void {
    this.runEnded(callId);
    const { lease, microUsd = 0 } = this.take(callId) ?? {};
    if (!lease) return this.budget.release(callId, scopes);
    const back = lease.settle(microUsd, 0);
    // Under another id: a call that waits for input is reserved again, and the service takes a settled id for a call that was charged.
    if (back) void this.budget.settle({ call_id: randomUUID(), scopes, micro_usd: 0, tokens: 0, lease: back });
  }

  override limits(asked: BudgetLimits, signal: AbortSignal): BudgetLimitsReply | Promise<BudgetLimitsReply> {
    return this.budget.limits(asked, signal);
  }

  /** Returns the unused rest of all leases; calls that still run keep their shares. */
  endLeases(): void {
    for (const { lease } of this.scopes.values()) if (lease) this.end(lease);
  }

  /** Asks for a lease for the calls of a run, if the last run's came before such a lease ended. */
  private beginRun(request: ReserveRequest, answer: Promise<ReserveAnswer>, now: Milliseconds): void {
    const { tenant_id, request_id } = request.scopes;
    const kind = `${tenant_id} ${request.tool_name}`;
    const { scope, key } = this.scopeOf(request, now, request_id);
    this.runs.set(request.call_id, { beganAt: now, scope, key, kind, early: noSpend() });
    const forget = (): void => void this.endRun(request.call_id);
    answer.then(({ admitted }) => admitted || forget(), forget);
    const early = this.earlyOfRuns.get(kind);
    if (!early || early.calls === 0) return;
    // None of its calls may last longer than the run.
    const spend = { ...early, longestMs: request.lease_ms };
    void this.askForLease(scope, request, request.scopes, spend, Math.ceil(early.microUsd / early.calls), now);
  }

  private noteCallOfRun({ scopes, call_id, micro_usd }: ReserveRequest, now: Milliseconds): void {
    const run = this.runs.get(scopes.request_id);
    if (!run || scopes.request_id === call_id || now >= run.beganAt + SHARED_LEASE_MS) return;
    run.early.calls += 1;
    run.early.microUsd += micro_usd;
  }

  /** Forgets a run and returns the rest of the lease of its calls. */
  private endRun(callId: string): CallingRun | undefined {
    const run = this.runs.get(callId);
    if (!run) return undefined;
    const { scope, key } = run;
    this.runs.delete(callId);
    scope.isOver = true;
    if (scope.lease) this.end(scope.lease);
    if (this.scopes.get(key) === scope) this.scopes.delete(key);
    return run;
  }

  private runEnded(callId: string): void {
    const run = this.endRun(callId);
    if (run) this.earlyOfRuns.set(run.kind, run.early);
  }

  private take(callId: string): Admitted | undefined {
    const admitted = this.admitted.get(callId);
    if (admitted) this.admitted.delete(callId);
    return admitted;
  }

  /**
   * Asks for one call. A call that would fit without shared leases and estimates waits until they have ended, so that no amount is lost
   * to them; calls of one scope and tool wait in one line.
   */
  private async ask(
    request: ReserveRequest,
    signal: AbortSignal,
    scope: ScopeSpending,
    key: string,
  ): Promise<ReserveAnswer> {
    const { reportsUsage } = scope;
    const { call_id, scopes, tool_name: tool = '', micro_usd: microUsd } = request;
    const line = `${key} ${tool}`;
    const ticket = this.waiting.ticket();
    const asked = this.runs.has(scopes.request_id) ? { ...request, unnamed_request: true } : request;
    try {
      if (this.waiting.has(line)) await this.waiting.wait(line, ticket, signal);
      for (;;) {
        const answer = await this.budget.reserve(asked, signal);
        if (!answer.admitted && fitsLater(request, answer)) {
          if (scope.lease) this.end(scope.lease);
          await this.waiting.wait(line, ticket, signal);
          continue;
        }
        if (answer.admitted && answer.estimated !== undefined) {
          reportsUsage.set(tool, answer.estimated);
          this.admitted.set(call_id, { microUsd, reportsUsage, line: answer.estimated ? line : undefined });
        }
        return answer;
      }
    } finally {
      this.waiting.letGo(line);
    }
  }

  /** Gets the next lease of a busy scope; the one before ends. Never rejects: without a lease every call is asked for. */
  private async renew(scope: ScopeSpending, request: ReserveRequest, now: Milliseconds): Promise<void> {
    if (scope.isAsking || now < scope.notBefore) return;
    const spend = scope.observed(now);
    if (spend.calls < BUSY_CALLS) return;
    const scopes = isOwnRequest(request) ? undefined : request.scopes;
    await this.askForLease(scope, request, scopes, spend, LEAST_CALLS * request.micro_usd, now);
  }

  /**
   * Gets a lease for calls like this one.
   * @param inScopes the scopes of a shared request; absent: the call's scopes without its request
   */
  private async askForLease(
    scope: ScopeSpending,
    request: ReserveRequest,
    inScopes: BudgetScopes | undefined,
    spend: Spend,
    leastMicroUsd: MicroUsd,
    now: Milliseconds,
  ): Promise<void> {
    scope.isAsking = true;
    const id = `${SHARED_LEASE_PREFIX}${randomUUID()}`;
    const scopes = inScopes ?? { ...request.scopes, request_id: id };
    const separateBy = this.separateBy.get(scopes.tenant_id) ?? [];
    const lengthMs = Math.ceil(SHARED_LEASE_MS + spend.longestMs);
    try {
      const answer = await this.budget.reserve(
        {
          call_id: id,
          scopes,
          micro_usd: spend.microUsd,
          tokens: 0,
          lease_ms: lengthMs,
          unnamed_request: this.runs.has(scopes.request_id) || undefined,
          user_id: separateBy.includes('user') ? request.user_id : undefined,
          key_id: separateBy.includes('key') ? request.key_id : undefined,
          shared: {
            least_micro_usd: leastMicroUsd,
            separate_by: separateBy.length > 0 ? separateBy : undefined,
          },
        },
        NEVER_ABORTED,
      );
      this.noteSeparation(request.scopes.tenant_id, answer.separate_by ?? []);
      if (answer.admitted && answer.lease)
        this.begin(scope, new OpenLease(id, scopes, answer.lease, answer.may_overrun, now, lengthMs));
      else scope.notBefore = this.clock.monotonic() + SHARED_LEASE_MS;
    } catch {
      scope.notBefore = this.clock.monotonic() + SHARED_LEASE_MS;
    } finally {
      scope.isAsking = false;
    }
  }

  private noteSeparation(tenantId: string, separateBy: readonly SeparateBy[]): void {
    if (separateBy.length > 0) this.separateBy.set(tenantId, separateBy);
    else this.separateBy.delete(tenantId);
  }

  private begin(scope: ScopeSpending, lease: OpenLease): void {
    if (scope.lease) this.end(scope.lease);
    if (scope.isOver) return this.end(lease);
    scope.lease = lease;
    const openMs = lease.askedAt + SHARED_LEASE_MS - this.clock.monotonic();
    lease.cancelEnd = this.clock.after(openMs, () => {
      this.end(lease);
      if (scope.lease === lease) scope.lease = undefined;
    });
  }

  private end(lease: OpenLease): void {
    if (!lease.isOpen) return;
    lease.isOpen = false;
    lease.cancelEnd();
    if (!lease.isStored) return;
    const rest = { id: lease.id, micro_usd: lease.microUsd, tokens: lease.grant.tokens };
    void this.budget.settle({ call_id: lease.id, scopes: lease.scopes, micro_usd: 0, tokens: 0, lease: rest });
  }

  /** @param request_id that the calls of a scope share; empty: none */
  private scopeOf(
    request: ReserveRequest,
    now: Milliseconds,
    request_id = isOwnRequest(request) ? '' : request.scopes.request_id,
  ): { scope: ScopeSpending; key: string } {
    const { tenant_id, agent_id = '', task_id = '' } = request.scopes;
    const separateBy = this.separateBy.get(tenant_id);
    const isPlain = agent_id === '' && task_id === '' && request_id === '' && !separateBy;
    const user = separateBy?.includes('user') ? request.user_id : '';
    const apiKey = separateBy?.includes('key') ? request.key_id : '';
    const key = isPlain ? tenant_id : [tenant_id, agent_id, task_id, request_id, user, apiKey].join('\x1f');
    const known = this.scopes.get(key);
    if (known) return { scope: known, key };
    if (this.scopes.size >= MAX_SCOPES) {
      for (const [other, scope] of this.scopes) if (scope.isIdle(now)) this.scopes.delete(other);
    }
    const scope = new ScopeSpending();
    this.scopes.set(key, scope);
    return { scope, key };
  }
}

/** True for a call that reserves no tokens, makes no further calls, and cannot have been charged before. */
function mayShare({ tokens, parent_call_id, shares_request, may_repeat }: ReserveRequest): boolean {
  return tokens === 0 && !parent_call_id && !shares_request && !may_repeat;
}

/** True for a call that spends alone in its request. */
function isOwnRequest({ call_id, scopes }: ReserveRequest): boolean {
  return scopes.request_id === call_id;
}

/** Whether a refused call may fit once shared leases and calls with estimates have ended. */
function fitsLater(
  { micro_usd, tokens }: ReserveRequest,
  { code, scope, limit, used, used_by_leases = 0 }: Extract<ReserveAnswer, { admitted: false }>,
): boolean {
  if (code === 'BUDGET_UNAVAILABLE' && scope === 'turn') return true;
  if (used_by_leases === 0 || code === 'BUDGET_UNAVAILABLE') return false;
  const amount = code === 'BUDGET_EXCEEDED' ? micro_usd : tokens;
  return used - used_by_leases < limit && used - used_by_leases + amount <= limit;
}
