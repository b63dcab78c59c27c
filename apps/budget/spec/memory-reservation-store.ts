import { epochDay } from '@toolfleet/database';
import type { EpochMs } from '@toolfleet/contracts';
import { checkLimit, noCounters, periodName, type Amount, type Clock, type Counters } from '@toolfleet/resilience';
import { countedScopes, limitOf, type NamedScope, type TenantLimits } from '../src/limits.js';
import type { UsageOutbox } from '../src/redis-usage-outbox.js';
import type { ReservationStore } from '../src/redis-reservation-store.js';
import type {
  Admission,
  ReservationRequest,
  ChargedRow,
  LedgerSums,
  OutboxEntry,
  ReservationRules,
  ScopeCounters,
  Settlement,
  SettleOutcome,
  SharedGrant,
  ScopeSpent,
  SweepOutcome,
} from '../src/reservation-store.js';
import { charge, hold, leasable, settledAmount, unhold } from './lease-arithmetic.js';

/** Charges of nothing after which a tool is taken for one that reports nothing. */
const PLAIN_AFTER = 8;

interface Lease extends Amount {
  expiresAt: EpochMs;
  scopes: string[];
  row: string;
  /** Set for a lease that holds an estimate: the charge if it expires, and its tool. */
  estimated?: Amount & { toolName: string };
  /** Set for a shared lease. */
  limits?: Pick<SharedGrant, 'limits_micro_usd' | 'limits_tokens'>;
}
interface Scope extends Counters {
  seenAt: EpochMs;
}
/** What calls of a tool were charged, by period. */
interface ToolUsage {
  periods: Map<number, Amount & { seen: number }>;
  running: number;
}
interface Tenant {
  usages: Map<string, ToolUsage>;
  scopes: Map<string, Scope>;
  leases: Map<string, Lease>;
  done: Map<string, EpochMs>;
  /** Shared leases that expired. */
  expired: Set<string>;
  outbox: OutboxEntry[];
  nextEntry: number;
}

/** In-memory reservations for specs, held to the same conformance cases as the Lua scripts. */
export class MemoryReservationStore implements ReservationStore {
  private readonly state = new Map<string, Tenant>();
  /** The same tenants, seen from the drain's side. */
  readonly outbox: UsageOutbox = new MemoryUsageOutbox(this.state);

  constructor(
    private readonly clock: Clock,
    private readonly rules: ReservationRules,
    private readonly ledgerSums: LedgerSums,
  ) {}

  async reserve(tenantId: string, limits: TenantLimits, requests: readonly ReservationRequest[]): Promise<Admission[]> {
    const tenant = await this.tenant(tenantId);
    return this.step(tenant, 100, () => requests.map((request) => this.reserveOne(tenant, tenantId, limits, request)))
      .result;
  }

  private reserveOne(tenant: Tenant, tenantId: string, limits: TenantLimits, request: ReservationRequest): Admission {
    const now = this.clock.now();
    const lease = tenant.leases.get(request.call_id);
    if (this.isDone(tenant, request.call_id) || (lease && lease.expiresAt <= now)) {
      return { admitted: false, code: 'BUDGET_EXCEEDED', scope: `call:${request.call_id}`, limit: 0, used: 0 };
    }
    if (lease?.limits)
      return { admitted: true, shared: { micro_usd: lease.microUsd, tokens: lease.tokens, ...lease.limits } };
    if (lease) return lease.estimated ? { admitted: true, estimated: true } : { admitted: true };
    const waiting = rowsWaiting(tenant);
    if (waiting >= this.rules.outboxCap) {
      return {
        admitted: false,
        code: 'BUDGET_UNAVAILABLE',
        scope: 'outbox',
        limit: this.rules.outboxCap,
        used: waiting,
      };
    }
    const scopes = this.scopesOf(request);
    const shared = request.shared && this.share(tenant, limits, scopes, request);
    if (shared === 'too little')
      return { admitted: false, code: 'BUDGET_UNAVAILABLE', scope: 'share', limit: 0, used: 0 };
    let { microUsd, tokens } = amountOf(shared ?? request);
    const { tool_name: toolName = '', estimates } = request;
    const known = this.known(tenant, toolName, estimates);
    const isEstimated =
      estimates !== undefined && !(known.seen >= PLAIN_AFTER && known.microUsd <= microUsd && known.tokens === 0);
    for (const scope of scopes) {
      const refusal = checkLimit(limitOf(limits, scope), this.scope(tenant, scope.name), { microUsd, tokens });
      if (!refusal) continue;
      const unit = refusal.code === 'BUDGET_EXCEEDED' ? 'microUsd' : 'tokens';
      const used_by_leases =
        [...tenant.leases.values()]
          .filter((open) => (open.limits ?? open.estimated) && open.scopes.includes(scope.name))
          .reduce((sum, open) => sum + open[unit], 0) || undefined;
      return { admitted: false, scope: scope.kind === 'day' ? 'day' : scope.name, ...refusal, used_by_leases };
    }
    if (isEstimated && known.running >= Math.max(1, known.seen))
      return { admitted: false, code: 'BUDGET_UNAVAILABLE', scope: 'turn', limit: 0, used: 0 };
    const estimated = { microUsd: Math.max(microUsd, known.microUsd), tokens: known.tokens, toolName };
    if (isEstimated) {
      if (estimates.microUsd) microUsd = Math.max(1, microUsd, 2 * known.microUsd);
      if (estimates.tokens) tokens = Math.max(1, 2 * known.tokens);
      this.usage(tenant, toolName).running += 1;
    }
    const admission: Admission = estimates ? { admitted: true, estimated: isEstimated } : { admitted: true, shared };
    if (microUsd === 0 && tokens === 0) return admission;
    for (const scope of scopes) hold(this.touched(tenant, scope.name), { microUsd, tokens });
    const { call_id, user_id, tool_name, parent_call_id } = request;
    const { request_id, agent_id, task_id } = request.scopes;
    tenant.leases.set(request.call_id, {
      microUsd,
      tokens,
      limits: shared && { limits_micro_usd: shared.limits_micro_usd, limits_tokens: shared.limits_tokens },
      estimated: isEstimated ? estimated : undefined,
      expiresAt: now + request.lease_ms,
      scopes: scopes.map((scope) => scope.name),
      row: JSON.stringify({
        call_id,
        tenant_id: tenantId,
        user_id,
        tool_name,
        parent_call_id,
        request_id,
        agent_id,
        task_id,
      }),
    });
    return admission;
  }

  private usage(tenant: Tenant, toolName: string): ToolUsage {
    const usage = tenant.usages.get(toolName) ?? { periods: new Map(), running: 0 };
    tenant.usages.set(toolName, usage);
    return usage;
  }

  private known(tenant: Tenant, toolName: string, estimates: ReservationRequest['estimates']) {
    const { periods, running } = this.usage(tenant, toolName);
    const recent = [0, 1].flatMap((ago) => periods.get(this.period - ago) ?? []);
    return {
      running,
      seen: recent.reduce((sum, { seen }) => sum + seen, 0),
      microUsd: estimates?.microUsd ? Math.max(0, ...recent.map(({ microUsd }) => microUsd)) : 0,
      tokens: estimates?.tokens ? Math.max(0, ...recent.map(({ tokens }) => tokens)) : 0,
    };
  }

  private observe(tenant: Tenant, toolName: string, { microUsd, tokens }: Amount): void {
    const { periods } = this.usage(tenant, toolName);
    const { seen, ...most } = periods.get(this.period) ?? { seen: 0, microUsd: 0, tokens: 0 };
    periods.set(this.period, {
      seen: seen + 1,
      microUsd: Math.max(most.microUsd, microUsd),
      tokens: Math.max(most.tokens, tokens),
    });
  }

  private get period(): number {
    return Math.floor(this.clock.now() / this.rules.idMemoryMs);
  }

  /** What a shared lease gets of its wish. */
  private share(
    tenant: Tenant,
    limits: TenantLimits,
    scopes: NamedScope[],
    { micro_usd: microUsd, tokens, shared }: ReservationRequest,
  ): SharedGrant | 'too little' {
    const most = { microUsd: Number.POSITIVE_INFINITY, tokens: Number.POSITIVE_INFINITY };
    for (const scope of scopes) {
      const limit = limitOf(limits, scope);
      const { spentMicroUsd, heldMicroUsd, spentTokens, heldTokens } = this.scope(tenant, scope.name);
      most.microUsd = Math.min(most.microUsd, leasable(limit.microUsd, spentMicroUsd + heldMicroUsd) ?? Infinity);
      most.tokens = Math.min(most.tokens, leasable(limit.tokens, spentTokens + heldTokens) ?? Infinity);
    }
    const limits_micro_usd = most.microUsd < Number.POSITIVE_INFINITY;
    const limits_tokens = most.tokens < Number.POSITIVE_INFINITY;
    const grant = {
      micro_usd: limits_micro_usd ? Math.min(Math.max(microUsd, 1), most.microUsd) : microUsd,
      tokens: limits_tokens ? Math.min(Math.max(tokens, 1), most.tokens) : 0,
      limits_micro_usd,
      limits_tokens,
    };
    const isTooLittle = grant.micro_usd < (shared?.least_micro_usd ?? 0) || most.microUsd === 0 || most.tokens === 0;
    return isTooLittle ? 'too little' : grant;
  }

  async settle(tenantId: string, settlements: readonly Settlement[], costOverrun = false): Promise<SettleOutcome> {
    const tenant = await this.tenant(tenantId);
    const { result, spending } = this.step(tenant, 100, (charged) => {
      let settled = 0;
      for (const one of settlements) if (this.settleOne(tenant, one, costOverrun, charged)) settled += 1;
      return settled;
    });
    return { settled: result, spending };
  }

  private settleOne(tenant: Tenant, one: Settlement, costOverrun: boolean, charged: ChargedRow[]): boolean {
    if (this.isDone(tenant, one.call_id)) return false;
    const leaseId = one.lease?.id ?? one.call_id;
    const lease = tenant.leases.get(leaseId);
    if (lease && lease.expiresAt <= this.clock.now()) this.expire(tenant, leaseId, lease, charged);
    if (one.lease && tenant.expired.has(leaseId)) {
      this.charge(tenant, one.call_id, [], { microUsd: 0, tokens: 0 }, 'settled', one.row, charged);
      return true;
    }
    if (this.isDone(tenant, one.call_id)) return false;
    const share = lease && one.lease ? toShare(lease, amountOf(one.lease)) : lease;
    const isEstimated = lease?.estimated !== undefined;
    const amount =
      share && !isEstimated ? settledAmount(share, amountOf(one), costOverrun, one.lease !== undefined) : amountOf(one);
    const isNews = isEstimated || amount.tokens > 0 || amount.microUsd > (share?.microUsd ?? 0);
    if (one.tool_name && isNews) this.observe(tenant, one.tool_name, amount);
    const scopes = lease?.scopes ?? this.scopesOf(one).map((scope) => scope.name);
    if (lease && share) this.take(tenant, leaseId, lease, share);
    this.charge(tenant, one.call_id, scopes, amount, 'settled', one.row, charged);
    return true;
  }

  async release(tenantId: string, callIds: readonly string[]): Promise<number> {
    const tenant = await this.tenant(tenantId);
    return this.step(tenant, 0, (charged) => {
      let released = 0;
      for (const callId of callIds) {
        const lease = tenant.leases.get(callId);
        if (!lease) continue;
        if (lease.expiresAt <= this.clock.now()) this.expire(tenant, callId, lease, charged);
        else {
          this.take(tenant, callId, lease, lease);
          released += 1;
        }
      }
      return released;
    }).result;
  }

  async catchUp(tenantId: string): Promise<number> {
    const tenant = await this.tenant(tenantId);
    let raised = 0;
    for (const { scope: name, microUsd, tokens } of await this.ledgerSums(tenantId)) {
      const { spentMicroUsd, spentTokens } = this.scope(tenant, name);
      if (microUsd <= spentMicroUsd && tokens <= spentTokens) continue;
      const missing = { microUsd: Math.max(0, microUsd - spentMicroUsd), tokens: Math.max(0, tokens - spentTokens) };
      charge(this.touched(tenant, name), missing);
      raised += 1;
    }
    return raised;
  }

  async sweep(tenantId: string): Promise<SweepOutcome> {
    const tenant = await this.tenant(tenantId);
    const { spending, result: expired } = this.step(tenant, Number.POSITIVE_INFINITY, (charged) => charged.length);
    const idleSince = this.clock.now() - this.rules.scopeTtlMs;
    const month = periodName('month', this.clock.now());
    for (const [name, scope] of tenant.scopes) {
      const period = /^[a-z]+\/([^:]+)/.exec(name)?.[1];
      if (period !== undefined && period >= month) continue;
      const idle = name !== 'tenant' && scope.seenAt <= idleSince && scope.heldMicroUsd === 0 && scope.heldTokens === 0;
      if (idle) tenant.scopes.delete(name);
    }
    return {
      spending,
      expired,
      openLeases: tenant.leases.size,
      heldMicroUsd: tenant.scopes.get('tenant')?.heldMicroUsd ?? 0,
      outboxRows: rowsWaiting(tenant),
      more: false,
    };
  }

  async forget(tenantId: string, scopes: readonly string[]): Promise<void> {
    for (const name of scopes) this.state.get(tenantId)?.scopes.delete(name);
  }

  async counters(tenantId: string, scopes: readonly NamedScope[]): Promise<ScopeCounters[]> {
    const tenant = await this.tenant(tenantId);
    return ['tenant', this.today(), ...scopes.map((scope) => scope.name)].map((scope) => {
      const { spentMicroUsd, heldMicroUsd, spentTokens, heldTokens } = tenant.scopes.get(scope) ?? noCounters();
      return { scope, spentMicroUsd, heldMicroUsd, spentTokens, heldTokens };
    });
  }

  /** One atomic step: expires overdue leases, runs `work`, and puts the charges into the outbox as one entry. */
  private step<T>(
    tenant: Tenant,
    most: number,
    work: (charged: ChargedRow[]) => T,
  ): { result: T; spending: ScopeSpent[] } {
    const charged: ChargedRow[] = [];
    const before = new Map([...tenant.scopes].map(([name, scope]) => [name, { ...scope }]));
    const now = this.clock.now();
    const overdue = [...tenant.leases].filter(([, lease]) => lease.expiresAt <= now).slice(0, most);
    for (const [callId, lease] of overdue) this.expire(tenant, callId, lease, charged);
    const result = work(charged);
    if (charged.length > 0) tenant.outbox.push({ id: String((tenant.nextEntry += 1)), rows: charged });
    const spending: ScopeSpent[] = [];
    for (const [scope, after] of tenant.scopes) {
      const was = before.get(scope) ?? noCounters();
      if (was.spentMicroUsd === after.spentMicroUsd && was.spentTokens === after.spentTokens) continue;
      spending.push({
        scope,
        microUsdBefore: was.spentMicroUsd,
        microUsdAfter: after.spentMicroUsd,
        tokensBefore: was.spentTokens,
        tokensAfter: after.spentTokens,
      });
    }
    return { result, spending };
  }

  private expire(tenant: Tenant, callId: string, lease: Lease, charged: ChargedRow[]): void {
    const { microUsd, tokens, estimated } = lease;
    this.take(tenant, callId, lease, { microUsd, tokens });
    this.charge(tenant, callId, lease.scopes, estimated ?? { microUsd, tokens }, 'expired', lease.row, charged);
    if (lease.limits) tenant.expired.add(callId);
  }

  private take(tenant: Tenant, leaseId: string, lease: Lease, { microUsd, tokens }: Amount): void {
    for (const name of lease.scopes) unhold(this.touched(tenant, name), { microUsd, tokens });
    lease.microUsd -= microUsd;
    lease.tokens -= tokens;
    if (lease.microUsd > 0 || lease.tokens > 0) return;
    tenant.leases.delete(leaseId);
    if (lease.estimated) this.usage(tenant, lease.estimated.toolName).running -= 1;
  }

  private charge(
    tenant: Tenant,
    callId: string,
    scopes: string[],
    { microUsd, tokens }: Amount,
    kind: ChargedRow['kind'],
    row: string,
    charged: ChargedRow[],
  ): void {
    for (const name of scopes) charge(this.touched(tenant, name), { microUsd, tokens });
    tenant.done.set(callId, this.clock.now());
    if (row === '') return;
    charged.push({ kind, microUsd, tokens, row, at: this.clock.now() });
  }

  private isDone(tenant: Tenant, callId: string): boolean {
    const since = tenant.done.get(callId);
    if (since === undefined) return false;
    if (since + 2 * this.rules.idMemoryMs > this.clock.now()) return true;
    tenant.done.delete(callId);
    return false;
  }

  private scopesOf(call: Pick<ReservationRequest, 'call_id' | 'scopes' | 'shares_request' | 'budgets'>): NamedScope[] {
    return [
      ...countedScopes(call.scopes, call.call_id, call.shares_request),
      ...(call.budgets ?? []),
      { kind: 'day', name: this.today() },
      { kind: 'tenant', name: 'tenant' },
    ];
  }

  private today(): string {
    return `day:${epochDay(this.clock.now())}`;
  }

  private scope(tenant: Tenant, name: string): Scope {
    return tenant.scopes.get(name) ?? { ...noCounters(), seenAt: this.clock.now() };
  }

  private touched(tenant: Tenant, name: string): Scope {
    const scope = this.scope(tenant, name);
    scope.seenAt = this.clock.now();
    tenant.scopes.set(name, scope);
    return scope;
  }

  private async tenant(tenantId: string): Promise<Tenant> {
    const known = this.state.get(tenantId);
    if (known) return known;
    const sums = await this.ledgerSums(tenantId);
    const raced = this.state.get(tenantId);
    if (raced) return raced;
    const tenant: Tenant = {
      usages: new Map(),
      scopes: new Map(),
      leases: new Map(),
      done: new Map(),
      expired: new Set(),
      outbox: [],
      nextEntry: 0,
    };
    for (const { scope, microUsd, tokens } of sums) charge(this.touched(tenant, scope), { microUsd, tokens });
    this.touched(tenant, 'tenant');
    this.state.set(tenantId, tenant);
    return tenant;
  }
}

/** A share of a lease, at most its rest. */
function toShare(lease: Amount, share: Amount): Amount {
  return { microUsd: Math.min(share.microUsd, lease.microUsd), tokens: Math.min(share.tokens, lease.tokens) };
}

function rowsWaiting(tenant: Tenant): number {
  return tenant.outbox.reduce((rows, entry) => rows + entry.rows.length, 0);
}

/** The outbox of the memory store. */
class MemoryUsageOutbox implements UsageOutbox {
  constructor(private readonly state: Map<string, Tenant>) {}

  tenants(): Promise<string[]> {
    return Promise.resolve([...this.state.keys()]);
  }

  read(tenantId: string, maxEntries: number, afterId?: string): Promise<OutboxEntry[]> {
    const entries = this.state.get(tenantId)?.outbox ?? [];
    const from = entries.findIndex(({ id }) => id === afterId) + 1;
    return Promise.resolve(entries.slice(from, from + maxEntries));
  }

  acknowledge(tenantId: string, entries: readonly OutboxEntry[]): Promise<void> {
    const tenant = this.state.get(tenantId);
    const ids = new Set(entries.map((entry) => entry.id));
    if (tenant) tenant.outbox = tenant.outbox.filter((entry) => !ids.has(entry.id));
    return Promise.resolve();
  }

  eraseTenant(tenantId: string, dryRun: boolean): Promise<number> {
    const erased = this.state.has(tenantId);
    if (!dryRun) this.state.delete(tenantId);
    return Promise.resolve(erased ? 1 : 0);
  }
}

const amountOf = ({ micro_usd, tokens }: { micro_usd: number; tokens: number }): Amount => ({
  microUsd: micro_usd,
  tokens,
});
