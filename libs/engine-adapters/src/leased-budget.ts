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
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { BudgetPort } from '@toolfleet/engine';
import { LRUCache } from 'lru-cache';

/** A lease is as large as what was spent in so much time: the most that a gateway that dies is charged for nothing. */
const SPEND_WINDOW_MS = 100;
/** Calls in one window from which on a lease pays; fewer are asked for one by one. */
const BUSY_CALLS = 4;
/** A lease for fewer calls than this saves no message. */
const LEAST_CALLS = 2;
/** Waits of a call that only shared leases keep from fitting: longer than a lease lasts, in all. */
const LEASES_END_MS = [20, 80, 200, 400];
/** Scopes above which idle ones are forgotten. */
const MAX_SCOPES = 5_000;

/** Nothing aborts the request for a lease, because no single call waits for it. */
const NEVER_ABORTED = new AbortController().signal;

/** What calls spent in one window. */
interface Spend {
  calls: number;
  microUsd: MicroUsd;
  tokens: number;
  /** Longest time that one of them asked to be covered. */
  longestMs: Milliseconds;
}

/** A lease that this process holds, and the rest of it that no call has. */
class OpenLease {
  microUsd: MicroUsd;
  tokens: number;
  isOpen = true;
  /** A call cost more than was left. */
  private isUsedUp = false;
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
    this.tokens = grant.tokens;
  }

  /** Applies the rule of limits to the rest: nothing more when it is used up, and nothing that exceeds it. */
  admits({ micro_usd, lease_ms }: ReserveRequest, now: Milliseconds): boolean {
    const { limits_micro_usd, limits_tokens, call_limit_micro_usd } = this.grant;
    return (
      this.isOpen &&
      !this.isUsedUp &&
      now < this.askedAt + SHARED_LEASE_MS &&
      now + lease_ms <= this.askedAt + this.lengthMs &&
      micro_usd <= this.microUsd &&
      (this.microUsd > 0 || !limits_micro_usd) &&
      (this.tokens > 0 || !limits_tokens) &&
      (call_limit_micro_usd === null || micro_usd <= call_limit_micro_usd)
    );
  }

  /** True when less than half of it is left, in any respect. */
  isLow(now: Milliseconds): boolean {
    const { micro_usd, tokens, limits_tokens } = this.grant;
    return (
      now >= this.askedAt + SHARED_LEASE_MS / 2 ||
      (micro_usd > 0 && this.microUsd * 2 <= micro_usd) ||
      (limits_tokens && this.tokens * 2 <= tokens)
    );
  }

  /**
   * The share of a call that held `heldMicroUsd` and was charged `microUsd` and `tokens`; undefined when it has none. While the
   * lease is open, what the call did not use is for the next one. A call without a price takes what it reports, if that much is
   * left; a larger charge is not taken from the lease, which then admits nothing more.
   */
  settle(heldMicroUsd: MicroUsd, microUsd: MicroUsd, tokens: number): LeaseShare | undefined {
    if (!this.isOpen) return this.toShare(heldMicroUsd, 0);
    const isCapped = heldMicroUsd > 0 && !this.mayOverrun;
    const wanted = isCapped ? Math.min(microUsd, heldMicroUsd) : microUsd;
    const left = heldMicroUsd + this.microUsd;
    this.isUsedUp ||= wanted > left;
    const taken = wanted <= left ? wanted : heldMicroUsd;
    this.microUsd = left - taken;
    const takenTokens = Math.min(tokens, this.tokens);
    this.tokens -= takenTokens;
    return this.toShare(taken, takenTokens);
  }

  /** What a lease held when it was granted; one that holds nothing is known to this process only. */
  get isStored(): boolean {
    return this.grant.micro_usd > 0 || this.grant.tokens > 0;
  }

  private toShare(microUsd: MicroUsd, tokens: number): LeaseShare | undefined {
    return microUsd > 0 || tokens > 0 ? { id: this.id, micro_usd: microUsd, tokens } : undefined;
  }
}

/** A run that makes calls in its own request, such as a program. */
interface Run {
  readonly beganAt: Milliseconds;
  /** Of its calls. */
  readonly scope: ScopeSpending;
  /** Key of that scope, and of its tenant and tool. */
  readonly key: string;
  readonly kind: string;
  /** What its calls reserved in the time that a lease admits. */
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
  private windowAt: Milliseconds = 0;
  private current: Spend = noSpend();
  private previous: Spend = noSpend();

  /** Adds calls or usage to what was spent at `now`. */
  add(now: Milliseconds, { calls = 0, microUsd = 0, tokens = 0, longestMs = 0 }: Partial<Spend>): void {
    this.turn(now);
    this.current.calls += calls;
    this.current.microUsd += microUsd;
    this.current.tokens += tokens;
    this.current.longestMs = Math.max(this.current.longestMs, longestMs);
  }

  /** What is spent in a window at present: the larger of this one, which is not over, and the one before. */
  observed(now: Milliseconds): Spend {
    this.turn(now);
    const { current, previous } = this;
    return {
      calls: Math.max(current.calls, previous.calls),
      microUsd: Math.max(current.microUsd, previous.microUsd),
      tokens: Math.max(current.tokens, previous.tokens),
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

const noSpend = (): Spend => ({ calls: 0, microUsd: 0, tokens: 0, longestMs: 0 });

/**
 * Takes the budget service out of the way of calls: admits them from shared leases, each an amount out of every limit that the
 * calls of one tenant, agent and task spend from. Calls that share a request id, as those of one program do, have leases of their own,
 * which count against the limit of the request as well. A run that makes calls asks for a lease for them in the message that asks for
 * itself, as large as what those of the last such run reserved at first. Settlements name the lease and the share of it that the call
 * had; what no call used returns when the lease ends. Calls that leases do not suit are asked for one by one:
 * those that may have been charged before, hold tokens, come seldom, or come when too little is left of a limit.
 */
export class LeasedBudget extends BudgetPort {
  private readonly scopes = new Map<string, ScopeSpending>();
  /** Tenants with budgets of users or keys: by what their leases are apart. */
  private readonly separateBy = new Map<string, readonly SeparateBy[]>();
  /** Calls that have a share of a lease, by call id. */
  private readonly shares = new Map<string, { lease: OpenLease; microUsd: MicroUsd; scope: ScopeSpending }>();
  /** Runs by call id: the request id of their calls. */
  private readonly runs = new Map<string, Run>();
  /** What the calls of the last run of a tenant and tool reserved at first. */
  private readonly earlyOfRuns = new LRUCache<string, Spend>({ max: MAX_SCOPES });

  /** @param budget is asked for leases and for calls without one, and takes all settlements */
  constructor(
    private readonly budget: BudgetPort,
    private readonly clock: Clock,
  ) {
    super();
  }

  override reserve(request: ReserveRequest, signal: AbortSignal): ReserveAnswer | Promise<ReserveAnswer> {
    const now = this.clock.monotonic();
    this.noteCallOfRun(request, now);
    if (!mayShare(request)) {
      const answer = this.ask(request, signal);
      if (request.shares_request && isOwnRequest(request)) this.beginRun(request, answer, now);
      return answer;
    }
    const { scope } = this.scopeOf(request, now);
    scope.add(now, { calls: 1, microUsd: request.micro_usd, longestMs: request.lease_ms });
    const { lease } = scope;
    if (!lease?.admits(request, now)) {
      const answer = this.ask(request, signal, scope);
      void this.renew(scope, request, now);
      return answer;
    }
    if (lease.isLow(now)) void this.renew(scope, request, now);
    lease.microUsd -= request.micro_usd;
    this.shares.set(request.call_id, { lease, microUsd: request.micro_usd, scope });
    return { admitted: true, call_id: request.call_id, may_overrun: lease.mayOverrun };
  }

  override settle(request: SettleRequest): void {
    this.runEnded(request.call_id);
    const share = this.takeShare(request.call_id);
    if (!share) return this.budget.settle(request);
    const { lease, microUsd, scope } = share;
    // Usage beyond what the calls reserved makes the next lease larger.
    const excess = Math.max(0, request.micro_usd - microUsd);
    if (excess > 0 || request.tokens > 0) {
      scope.add(this.clock.monotonic(), { microUsd: excess, tokens: request.tokens });
    }
    this.budget.settle({ ...request, lease: lease.settle(microUsd, request.micro_usd, request.tokens) });
  }

  override release(callId: string, scopes: BudgetScopes): void {
    this.runEnded(callId);
    const share = this.takeShare(callId);
    if (!share) return this.budget.release(callId, scopes);
    const back = share.lease.settle(share.microUsd, 0, 0);
    // Under another id: a call that waits for input is reserved again, and the service takes a settled id for a call that was charged.
    if (back) this.budget.settle({ call_id: randomUUID(), scopes, micro_usd: 0, tokens: 0, lease: back });
  }

  override limits(asked: BudgetLimits, signal: AbortSignal): BudgetLimitsReply | Promise<BudgetLimitsReply> {
    return this.budget.limits(asked, signal);
  }

  /** Returns the unused rest of all leases; calls that still run keep their shares. */
  endLeases(): void {
    for (const { lease } of this.scopes.values()) if (lease) this.end(lease);
  }

  /** Asks for a lease for the calls of a run, if those of the last one came before such a lease ended. */
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

  /** Forgets a run and returns what is left of the lease of its calls. */
  private endRun(callId: string): Run | undefined {
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

  private takeShare(callId: string) {
    const share = this.shares.get(callId);
    if (share) this.shares.delete(callId);
    return share;
  }

  /** Asks for one call. A call that would fit without the shared leases waits until they have ended, so that no amount is lost to them. */
  private async ask(request: ReserveRequest, signal: AbortSignal, scope?: ScopeSpending): Promise<ReserveAnswer> {
    let answer = await this.budget.reserve(request, signal);
    for (const waitMs of LEASES_END_MS) {
      if (answer.admitted || !fitsWithoutLeases(request, answer)) break;
      if (scope?.lease) this.end(scope.lease);
      await this.clock.sleep(waitMs, signal);
      answer = await this.budget.reserve(request, signal);
    }
    return answer;
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
          tokens: spend.tokens,
          lease_ms: lengthMs,
          ...(separateBy.includes('user') && { user_id: request.user_id }),
          ...(separateBy.includes('key') && { key_id: request.key_id }),
          shared: {
            least_micro_usd: leastMicroUsd,
            ...(separateBy.length > 0 && { separate_by: separateBy }),
          },
        },
        NEVER_ABORTED,
      );
      this.noteSeparation(request.scopes.tenant_id, answer.separate_by ?? []);
      if (!answer.admitted) scope.notBefore = this.clock.monotonic() + SHARED_LEASE_MS;
      else if (answer.lease)
        this.begin(scope, new OpenLease(id, scopes, answer.lease, answer.may_overrun, now, lengthMs));
      else {
        // A service of an earlier release reserved for one call.
        scope.notBefore = this.clock.monotonic() + SHARED_LEASE_MS;
        this.budget.release(id, scopes);
      }
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
    const rest = { id: lease.id, micro_usd: lease.microUsd, tokens: lease.tokens };
    this.budget.settle({ call_id: lease.id, scopes: lease.scopes, micro_usd: 0, tokens: 0, lease: rest });
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

/** True for a call whose request no other call spends in. */
function isOwnRequest({ call_id, scopes }: ReserveRequest): boolean {
  return scopes.request_id === call_id;
}

function fitsWithoutLeases(
  { micro_usd, tokens }: ReserveRequest,
  { code, limit, used, used_by_leases = 0 }: Extract<ReserveAnswer, { admitted: false }>,
): boolean {
  if (used_by_leases === 0 || code === 'BUDGET_UNAVAILABLE') return false;
  const amount = code === 'BUDGET_EXCEEDED' ? micro_usd : tokens;
  return used - used_by_leases < limit && used - used_by_leases + amount <= limit;
}
