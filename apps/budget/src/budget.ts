import type { MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetRelease,
  BudgetRemove,
  BudgetSet,
  BudgetUsage,
  BudgetUsageReply,
  LimitState,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import { isToolError, ToolError } from '@toolfleet/contracts';
import type { FleetEvent } from '@toolfleet/contracts/events';
import { SHARED_LEASE_MS } from '@toolfleet/contracts/budget';
import { checkLimit, noCounters, withTimeout, type Clock, type ScopeLimit } from '@toolfleet/resilience';
import {
  countedScopes,
  estimatedUnits,
  limitOf,
  scopeKind,
  shownScope,
  tenantLimits,
  type LimitTable,
  type NamedScope,
  type ScopeKind,
  type SetScope,
  type TenantLimits,
} from './limits.js';
import { reachedLimits } from './reached-limits.js';
import { DEFAULT_RULES, type Admission, type ScopeSpent, type SweepOutcome } from './reservation-store.js';
import type { ReservationStore } from './redis-reservation-store.js';
import { budgetScope, limitOfSet, scopeName, SetBudgets, type BudgetName, type SetBudget } from './set-budgets.js';
import { UsageLedger } from './usage-ledger.js';

/** Callbacks of the budget. */
interface BudgetEvents {
  /** Spending reached 80 or 100 % of a limit; also of limits that were reported before. */
  reached(event: FleetEvent<'budget.reached'>): void;
  /** Money was charged in a scope of this kind. */
  spent(kind: ScopeKind, microUsd: MicroUsd): void;
  /** Budgets of a tenant are new or changed: its counters must be compared with the ledger. */
  budgetsChanged(tenantId: string): void;
  /** Moves the charges of a tenant to the ledger. */
  drain(tenantId: string): Promise<unknown>;
  /** A tenant has rows in the outbox, or leases that may expire. */
  active(tenantId: string): void;
}

/**
 * Reserves, settles and reports spending, independent of the transport. Money is reserved before a call runs, for a lease of limited
 * time, and replaced by the actual cost afterwards. If the store fails, reservations are refused: budgets fail closed.
 */
export class BudgetService {
  private readonly budgets = new SetBudgets();
  /** Reservations of each tenant that the store works on, also after their callers were refused. */
  private readonly reserving = new Map<string, Set<Promise<Admission[]>>>();

  constructor(
    private readonly store: ReservationStore,
    private readonly ledger: UsageLedger,
    private limitTable: LimitTable,
    private readonly clock: Clock,
    private readonly events: BudgetEvents,
  ) {}

  /** Replaces the limits. They apply from the next reservation on; earlier spending and reservations stay. */
  setLimits(table: LimitTable): void {
    this.limitTable = table;
  }

  /** The budgets of a tenant that were set over the API. */
  budgetsOf(tenantId: string): readonly SetBudget[] {
    return this.budgets.of(tenantId).all;
  }

  private scopesFor(tenantId: string, user_id: string | undefined, key_id: string | undefined): SetScope[] {
    const now = this.clock.now();
    return this.budgets
      .of(tenantId)
      .of({ user_id, key_id })
      .map((budget) => budgetScope(budget, now));
  }

  /**
   * Admits or refuses reservations; the answers are in the order of the requests. When the store is unavailable or slow, all are
   * refused with BUDGET_UNAVAILABLE.
   */
  async reserve(requests: readonly ReserveRequest[], withinMs: Milliseconds): Promise<ReserveAnswer[]> {
    const answers: ReserveAnswer[] = Array.from({ length: requests.length });
    const perTenant = new Map<string, number[]>();
    for (const [index, request] of requests.entries()) {
      const refused = this.refuseAlone(request);
      if (refused) {
        answers[index] = refused;
        continue;
      }
      const indexes = perTenant.get(request.scopes.tenant_id);
      if (indexes) indexes.push(index);
      else perTenant.set(request.scopes.tenant_id, [index]);
    }
    await Promise.all(
      [...perTenant].map(async ([tenantId, indexes]) => {
        const open = indexes.map((index) => requests[index] as ReserveRequest);
        const admissions = await this.reserveIn(tenantId, open, withinMs);
        const limits = tenantLimits(this.limitTable, tenantId);
        const { separateBy } = this.budgets.of(tenantId);
        for (const [position, index] of indexes.entries()) {
          const request = open[position] as ReserveRequest;
          const answer = toAnswer(request, admissions[position], limits);
          answers[index] = answer;
          if (!answer.admitted || !answer.lease) continue;
          // Calls without a price: which of them need an estimate, the gateway decides.
          const budgets = this.scopesFor(tenantId, request.user_id, request.key_id);
          const { microUsd: micro_usd, tokens } = unitsOf({ ...request, micro_usd: 0 }, limits, budgets);
          answer.lease.estimates = { micro_usd, tokens };
          if (separateBy.length > 0) answer.separate_by = separateBy;
        }
      }),
    );
    return answers;
  }

  /**
   * Checks the request limit of a single call without a counter, because a call without a request id spends there once; and that a
   * shared lease spends from the budgets of one user or key where there are such budgets.
   */
  private refuseAlone(request: ReserveRequest): ReserveAnswer | undefined {
    const limit = tenantLimits(this.limitTable, request.scopes.tenant_id).request;
    const { separateBy } = this.budgets.of(request.scopes.tenant_id);
    if (request.shared && separateBy.some((one) => !request.shared?.separate_by?.includes(one))) {
      const nothing = { scope: 'share', limit: 0, used: 0 };
      const { call_id } = request;
      return { admitted: false, call_id, code: 'BUDGET_UNAVAILABLE', ...nothing, separate_by: separateBy };
    }
    // The calls of a shared lease are each checked against this limit by their gateway.
    const amount = request.shared ? NOTHING : { microUsd: request.micro_usd, tokens: request.tokens };
    const refusal = checkLimit(limit, noCounters(), amount);
    return refusal
      ? { admitted: false, call_id: request.call_id, scope: `request:${request.scopes.request_id}`, ...refusal }
      : undefined;
  }

  private async reserveIn(tenantId: string, requests: ReserveRequest[], withinMs: Milliseconds): Promise<Admission[]> {
    if (requests.length === 0) return [];
    const limits = tenantLimits(this.limitTable, tenantId);
    const reserving = this.store.reserve(
      tenantId,
      limits,
      requests.map((request) => {
        const budgets = this.scopesFor(tenantId, request.user_id, request.key_id);
        return { ...request, budgets, estimates: toEstimates(request, limits, budgets) };
      }),
    );
    this.trackReserving(tenantId, reserving);
    try {
      const admissions = await withTimeout(this.clock, withinMs, reserving);
      this.events.active(tenantId);
      return admissions;
    } catch {
      // Leases that are granted after all are released by the caller. Only it knows whether a repeated request got them.
      return [];
    }
  }

  /**
   * Charges actual usage, once per call. Returns the number of calls charged.
   * @throws ToolError BUDGET_UNAVAILABLE when the store is unavailable; the sender retries until the lease ends
   */
  async settle(all: readonly SettleRequest[], withinMs: Milliseconds): Promise<number> {
    const perTenant = Map.groupBy(all, (one) => one.scopes.tenant_id);
    const settled = await Promise.all(
      [...perTenant].map(async ([tenantId, settlements]) => {
        const settling = this.store.settle(
          tenantId,
          settlements.map((one) => ({
            ...one,
            budgets: this.scopesFor(tenantId, one.row?.user_id, one.row?.key_id),
            row: one.row ? JSON.stringify(one.row) : '',
            tool_name: toObservedTool(one),
          })),
          tenantLimits(this.limitTable, tenantId).costOverrun,
        );
        const outcome = await this.orUnavailable(settling, withinMs);
        this.events.active(tenantId);
        this.announce(tenantId, outcome.spending);
        return outcome.settled;
      }),
    );
    return settled.reduce((sum, one) => sum + one, 0);
  }

  /**
   * Releases reservations in full. Returns how many there were.
   * @throws ToolError BUDGET_UNAVAILABLE
   */
  async release(all: BudgetRelease['releases'], withinMs: Milliseconds): Promise<number> {
    const perTenant = Map.groupBy(all, (one) => one.scopes.tenant_id);
    const released = await Promise.all(
      [...perTenant].map(([tenantId, releases]) =>
        this.orUnavailable(
          this.releaseIn(
            tenantId,
            releases.map((one) => one.call_id),
          ),
          withinMs,
        ),
      ),
    );
    return released.reduce((sum, one) => sum + one, 0);
  }

  private trackReserving(tenantId: string, reserving: Promise<Admission[]>): void {
    const all = this.reserving.get(tenantId) ?? new Set();
    this.reserving.set(tenantId, all.add(reserving));
    const forget = (): void => {
      all.delete(reserving);
      if (all.size === 0) this.reserving.delete(tenantId);
    };
    reserving.then(forget, forget);
  }

  /** Releases after the reservations that are under way and may be about to grant these leases. */
  private async releaseIn(tenantId: string, callIds: readonly string[]): Promise<number> {
    await Promise.allSettled(this.reserving.get(tenantId) ?? []);
    return this.store.release(tenantId, callIds);
  }

  /** Sums of the ledger. Usage that was settled in the last second may be missing. */
  async usage(query: BudgetUsage, withinMs: Milliseconds): Promise<BudgetUsageReply> {
    const rows = this.ledger.sums({ ...query, tenant_id: query.tenant_id === '*' ? undefined : query.tenant_id });
    return { rows: await this.orUnavailable(rows, withinMs) };
  }

  /** Limits, spending and held amounts of the tenant, its current day, the given request, agent and task, and set budgets. */
  async limits({ scopes, budgets: wanted }: BudgetLimits, withinMs: Milliseconds): Promise<BudgetLimitsReply> {
    const limits = tenantLimits(this.limitTable, scopes.tenant_id);
    const own = this.budgets.of(scopes.tenant_id);
    const now = this.clock.now();
    const budgets = wanted === undefined ? [] : wanted === '*' ? own.all : own.of(wanted);
    const named = [
      ...countedScopes({ request_id: '', ...scopes }, ''),
      ...budgets.map((budget) => budgetScope(budget, now)),
    ];
    const all: NamedScope[] = [{ kind: 'tenant', name: 'tenant' }, { kind: 'day', name: 'day' }, ...named];
    const firstBudget = all.length - budgets.length;
    const counters = await this.orUnavailable(this.store.counters(scopes.tenant_id, named), withinMs);
    return {
      limits: counters.map((counter, index) => {
        const limit = limitOf(limits, all[index] as NamedScope);
        const budget = budgets[index - firstBudget];
        return {
          scope: shownScope(counter.scope),
          budget: budget && { subject: budget.subject, id: budget.subject_id, period: budget.period },
          limit_micro_usd: limit.microUsd,
          spent_micro_usd: counter.spentMicroUsd,
          held_micro_usd: counter.heldMicroUsd,
          limit_tokens: limit.tokens,
          spent_tokens: counter.spentTokens,
          held_tokens: counter.heldTokens,
        };
      }),
    };
  }

  /**
   * Sets a budget. When it resolves, the budget counts earlier charges of its period and applies to every call of this replica: the
   * leases from before have ended. Other replicas read it within seconds.
   * @throws ToolError BUDGET_UNAVAILABLE when a store is unavailable; QUOTA_EXCEEDED
   */
  async setBudget(message: BudgetSet, withinMs: Milliseconds): Promise<LimitState> {
    const { tenant_id, subject, id: subject_id, period, changed_by } = message;
    const name = { tenant_id, subject, subject_id, period };
    const { limit_micro_usd: micro_usd, limit_tokens: tokens } = message;
    const budget = { ...name, micro_usd, tokens, changed_at: this.clock.now(), changed_by };
    const setting = this.ledger.budgets.put(budget).then(async () => {
      await this.readBudgets();
      await this.clock.sleep(SHARED_LEASE_MS);
      await this.events.drain(tenant_id);
      await this.store.catchUp(tenant_id);
    });
    await this.orUnavailable(setting, withinMs);
    const { limits } = await this.limits({ scopes: { tenant_id }, budgets: '*' }, withinMs);
    const counted = scopeName(name, this.clock.now());
    return limits.find(({ scope }) => scope === counted) as LimitState;
  }

  /** Removes a budget with its counters. @returns false if there is none @throws ToolError BUDGET_UNAVAILABLE */
  removeBudget({ id: subject_id, ...name }: BudgetRemove, withinMs: Milliseconds): Promise<boolean> {
    return this.orUnavailable(this.dropBudget({ ...name, subject_id }), withinMs);
  }

  /** As `removeBudget`; rejects when a store is unavailable. */
  async dropBudget(name: BudgetName): Promise<boolean> {
    const removed = await this.ledger.budgets.remove(name);
    await this.readBudgets();
    await this.store.forget(name.tenant_id, [scopeName(name, this.clock.now())]);
    return removed;
  }

  /** Reads the budgets that any replica has set. Rejects when the ledger is unavailable. */
  async readBudgets(): Promise<void> {
    const all = await this.ledger.budgets.all();
    for (const tenantId of this.budgets.replace(all)) this.events.budgetsChanged(tenantId);
  }

  /** Raises counters of a tenant that are below the sums of the ledger. Returns how many scopes were raised. */
  catchUp(tenantId: string): Promise<number> {
    return this.store.catchUp(tenantId);
  }

  /** Charges leases that expired unsettled, in full. */
  async sweep(tenantId: string): Promise<SweepOutcome> {
    const outcome = await this.store.sweep(tenantId);
    this.announce(tenantId, outcome.spending);
    return outcome;
  }

  private announce(tenantId: string, spending: readonly ScopeSpent[]): void {
    if (spending.length === 0) return;
    for (const one of spending) {
      const microUsd = one.microUsdAfter - one.microUsdBefore;
      const kind = scopeKind(one.scope);
      if (microUsd > 0 && kind !== 'budget') this.events.spent(kind, microUsd);
    }
    this.report(tenantId, spending);
  }

  private report(tenantId: string, spending: readonly ScopeSpent[]): void {
    const limits = tenantLimits(this.limitTable, tenantId);
    const limitOfScope = (scope: string): ScopeLimit => {
      const kind = scopeKind(scope);
      return kind === 'budget' ? this.limitOfBudget(tenantId, scope) : limits[kind];
    };
    for (const event of reachedLimits(tenantId, spending, limitOfScope, this.clock.now())) this.events.reached(event);
  }

  /**
   * Reports the limits of a tenant that were reached, by the ledger: the process that charged the usage may have been killed before it
   * could. Call it once the outbox is empty.
   */
  async reportReached(tenantId: string): Promise<void> {
    const now = this.clock.now();
    const sums = [
      ...(await this.ledger.spentSince(tenantId, now, now - DEFAULT_RULES.scopeTtlMs)),
      ...(await this.ledger.spentFrom(tenantId, this.budgetsOf(tenantId), now)),
    ];
    const none = { microUsdBefore: 0, tokensBefore: 0 };
    this.report(
      tenantId,
      sums.map(({ scope, microUsd, tokens }) => ({ scope, ...none, microUsdAfter: microUsd, tokensAfter: tokens })),
    );
  }

  /** The limit of the counters of a set budget; none once it was removed. */
  private limitOfBudget(tenantId: string, scope: string): ScopeLimit {
    const now = this.clock.now();
    const found = this.budgetsOf(tenantId).find((one) => scopeName(one, now) === scope);
    return found ? limitOfSet(found) : { microUsd: null, tokens: null };
  }

  private async orUnavailable<T>(work: Promise<T>, withinMs: Milliseconds): Promise<T> {
    try {
      return await withTimeout(this.clock, withinMs, work);
    } catch (error) {
      if (isToolError(error) && error.code === 'QUOTA_EXCEEDED') throw error;
      throw new ToolError('BUDGET_UNAVAILABLE', { cause: error });
    }
  }
}

const NOTHING = { microUsd: 0, tokens: 0 };

/** The units in which a limit of the call, or of the calls of a shared lease, is named that a report of the tool may exceed. */
function unitsOf(
  { scopes, call_id, micro_usd, unnamed_request }: ReserveRequest,
  limits: TenantLimits,
  budgets: SetScope[],
) {
  return estimatedUnits(limits, [...countedScopes(scopes, call_id), ...budgets], {
    microUsd: micro_usd,
    unnamedRequest: unnamed_request,
  });
}

/** As `unitsOf`; undefined for a call that needs no estimate. */
function toEstimates(request: ReserveRequest, limits: TenantLimits, budgets: SetScope[]) {
  if (!request.may_report || !request.tool_name || request.tokens > 0) return undefined;
  const units = unitsOf(request, limits, budgets);
  return units.microUsd || units.tokens ? units : undefined;
}

/** The tool of a settlement that reports costs: not a slice, and no failure without usage. */
function toObservedTool({ row, tokens, micro_usd }: SettleRequest): string | undefined {
  if (!row || row.parent_call_id !== undefined) return undefined;
  return row.success || tokens > 0 || micro_usd > 0 ? row.tool_name : undefined;
}

function toAnswer(
  { call_id }: ReserveRequest,
  admission: Admission | undefined,
  { costOverrun, request }: TenantLimits,
): ReserveAnswer {
  if (!admission) return { admitted: false, call_id, code: 'BUDGET_UNAVAILABLE', scope: 'store', limit: 0, used: 0 };
  if (!admission.admitted) return { ...admission, call_id, scope: shownScope(admission.scope) };
  const { shared, estimated } = admission;
  return {
    ...{ admitted: true, call_id, estimated },
    may_overrun: costOverrun || undefined,
    lease: shared && { ...shared, call_limit_micro_usd: request.microUsd },
  };
}
