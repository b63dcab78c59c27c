import type { MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetRelease,
  BudgetThreshold,
  BudgetUsage,
  BudgetUsageReply,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import { ToolError } from '@toolfleet/contracts';
import { TimedOut, withTimeout, type Clock } from '@toolfleet/resilience';
import { admit, noCounters } from './ledger.js';
import { countedScopes, limitsOf, shownScope, type LimitTable, type NamedScope, type ScopeKind } from './limits.js';
import { ReservationStore, type Admission, type Ask, type Spending, type SweepOutcome } from './reservation-store.js';
import { crossings, kindOf } from './thresholds.js';
import { UsageStore } from './usage-store.js';

/** What the budget tells others about, beside its answers. */
export interface BudgetEvents {
  /** A limit passed 80 %. */
  threshold(event: BudgetThreshold): void;
  /** Money was charged in a scope of this kind. */
  spent(kind: ScopeKind, microUsd: MicroUsd): void;
  /** A tenant has rows waiting for the ledger, or leases that may expire. */
  active(tenantId: string): void;
}

/** Everything the service answers, free of transport: messages in, replies out. */
export class Budget {
  constructor(
    private readonly store: ReservationStore,
    private readonly usageStore: UsageStore,
    private readonly limitTable: LimitTable,
    private readonly clock: Clock,
    private readonly events: BudgetEvents,
  ) {}

  /**
   * Admits or refuses asks; the answers are in their order. A store that is away or slow refuses with BUDGET_UNAVAILABLE:
   * budgets fail closed.
   */
  async reserve(asks: readonly ReserveRequest[], withinMs: Milliseconds): Promise<ReserveAnswer[]> {
    const answers: ReserveAnswer[] = Array.from({ length: asks.length });
    const perTenant = new Map<string, number[]>();
    for (const [index, ask] of asks.entries()) {
      const refused = this.admitAlone(ask);
      if (refused) {
        answers[index] = refused;
        continue;
      }
      const indexes = perTenant.get(ask.scopes.tenant_id);
      if (indexes) indexes.push(index);
      else perTenant.set(ask.scopes.tenant_id, [index]);
    }
    await Promise.all(
      [...perTenant].map(async ([tenantId, indexes]) => {
        const open = indexes.map((index) => asks[index] as ReserveRequest);
        const admissions = await this.reserveIn(tenantId, open, withinMs);
        for (const [position, index] of indexes.entries()) {
          answers[index] = answerOf(open[position] as ReserveRequest, admissions[position]);
        }
      }),
    );
    return answers;
  }

  /** A call that is its own request needs no counter: it spends there once. */
  private admitAlone(ask: ReserveRequest): ReserveAnswer | undefined {
    const limit = limitsOf(this.limitTable, ask.scopes.tenant_id).request;
    const refusal = admit(limit, noCounters(), { microUsd: ask.micro_usd, tokens: ask.tokens });
    return refusal
      ? { admitted: false, call_id: ask.call_id, scope: `request:${ask.scopes.request_id}`, ...refusal }
      : undefined;
  }

  private async reserveIn(tenantId: string, asks: ReserveRequest[], withinMs: Milliseconds): Promise<Admission[]> {
    if (asks.length === 0) return [];
    const limits = limitsOf(this.limitTable, tenantId);
    const reserving = this.store.reserve(tenantId, limits, asks.map(askOf));
    try {
      const admissions = await withTimeout(this.clock, withinMs, undefined, () => reserving);
      this.events.active(tenantId);
      return admissions;
    } catch (error) {
      if (error instanceof TimedOut) this.undo(tenantId, asks, reserving);
      return [];
    }
  }

  /** The caller was told no, so leases that are granted later are given back; what cannot be is charged when it expires. */
  private undo(tenantId: string, asks: ReserveRequest[], reserving: Promise<Admission[]>): void {
    void reserving
      .then((admissions) => {
        const granted = asks.filter((_, index) => admissions[index]?.admitted).map((ask) => ask.call_id);
        return granted.length > 0 ? this.store.release(tenantId, granted) : 0;
      })
      .catch(() => undefined);
  }

  /** Charges actual usage. Rejects with BUDGET_UNAVAILABLE when the store is away; the sender repeats until the lease ends. */
  async settle(all: readonly SettleRequest[], withinMs: Milliseconds): Promise<number> {
    const perTenant = Map.groupBy(all, (one) => one.scopes.tenant_id);
    const settled = await Promise.all(
      [...perTenant].map(async ([tenantId, settlements]) => {
        const settling = this.store.settle(
          tenantId,
          settlements.map((one) => ({
            callId: one.call_id,
            scopes: one.scopes,
            microUsd: one.micro_usd,
            tokens: one.tokens,
            row: JSON.stringify(one.row),
          })),
        );
        const outcome = await this.orUnavailable(settling, withinMs);
        this.events.active(tenantId);
        this.announce(tenantId, outcome.spending);
        return outcome.settled;
      }),
    );
    return settled.reduce((sum, one) => sum + one, 0);
  }

  /** Gives reservations back whole. */
  async release(all: BudgetRelease['releases'], withinMs: Milliseconds): Promise<number> {
    const perTenant = Map.groupBy(all, (one) => one.scopes.tenant_id);
    const released = await Promise.all(
      [...perTenant].map(([tenantId, releases]) =>
        this.orUnavailable(
          this.store.release(
            tenantId,
            releases.map((one) => one.call_id),
          ),
          withinMs,
        ),
      ),
    );
    return released.reduce((sum, one) => sum + one, 0);
  }

  /** Sums of the ledger. Usage that was settled a moment ago may not be in it yet. */
  async usage(query: BudgetUsage, withinMs: Milliseconds): Promise<BudgetUsageReply> {
    const rows = this.usageStore.sums({
      groupBy: query.group_by,
      ...(query.tenant_id === '*' ? {} : { tenantId: query.tenant_id }),
      ...(query.from_at === undefined ? {} : { fromAt: query.from_at }),
      ...(query.to_at === undefined ? {} : { toAt: query.to_at }),
      ...(query.tool_name === undefined ? {} : { toolName: query.tool_name }),
      ...(query.user_id === undefined ? {} : { userId: query.user_id }),
    });
    return { rows: await this.orUnavailable(rows, withinMs) };
  }

  /** Limits, spending and leases of the tenant, its day, and the named request, agent and task. */
  async limits({ scopes }: BudgetLimits, withinMs: Milliseconds): Promise<BudgetLimitsReply> {
    const limits = limitsOf(this.limitTable, scopes.tenant_id);
    const named = countedScopes({ request_id: '', ...scopes }, '');
    const all: NamedScope[] = [{ kind: 'tenant', name: 'tenant' }, { kind: 'day', name: 'day' }, ...named];
    const counters = await this.orUnavailable(this.store.counters(scopes.tenant_id, named), withinMs);
    return {
      limits: counters.map((counter, index) => {
        const limit = limits[all[index]?.kind ?? 'tenant'];
        return {
          scope: shownScope(counter.scope),
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

  /** Raises what a tenant has spent to what the ledger says, where the store knows less. Returns how many scopes it raised. */
  catchUp(tenantId: string): Promise<number> {
    return this.store.catchUp(tenantId);
  }

  /** Charges what expired unsettled. */
  async sweep(tenantId: string): Promise<SweepOutcome> {
    const outcome = await this.store.sweep(tenantId);
    this.announce(tenantId, outcome.spending);
    return outcome;
  }

  private announce(tenantId: string, spending: readonly Spending[]): void {
    if (spending.length === 0) return;
    const limits = limitsOf(this.limitTable, tenantId);
    for (const one of spending) {
      const microUsd = one.microUsdAfter - one.microUsdBefore;
      if (microUsd > 0) this.events.spent(kindOf(one.scope), microUsd);
    }
    for (const crossing of crossings(spending, limits)) {
      this.events.threshold({ tenant_id: tenantId, ...crossing, at: this.clock.now() });
    }
  }

  private async orUnavailable<T>(work: Promise<T>, withinMs: Milliseconds): Promise<T> {
    try {
      return await withTimeout(this.clock, withinMs, undefined, () => work);
    } catch (error) {
      throw new ToolError('BUDGET_UNAVAILABLE', { cause: error });
    }
  }
}

function askOf(ask: ReserveRequest): Ask {
  return {
    callId: ask.call_id,
    scopes: ask.scopes,
    microUsd: ask.micro_usd,
    tokens: ask.tokens,
    leaseMs: ask.lease_ms,
    ...(ask.user_id === undefined ? {} : { userId: ask.user_id }),
    ...(ask.tool_name === undefined ? {} : { toolName: ask.tool_name }),
    ...(ask.parent_call_id === undefined ? {} : { parentCallId: ask.parent_call_id }),
    ...(ask.shares_request ? { sharesRequest: true } : {}),
  };
}

function answerOf(ask: ReserveRequest, admission: Admission | undefined): ReserveAnswer {
  if (!admission) {
    return { admitted: false, call_id: ask.call_id, code: 'BUDGET_UNAVAILABLE', scope: 'store', limit: 0, used: 0 };
  }
  return admission.admitted
    ? { admitted: true, call_id: ask.call_id }
    : { ...admission, call_id: ask.call_id, scope: shownScope(admission.scope) };
}
