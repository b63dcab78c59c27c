import { ToolError } from '@toolfleet/contracts';
import { defineScript, type Script, type ScriptArguments } from '@toolfleet/queue/redis';
import { periodName } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import { countedScopes, limitOf, type NamedScope, type TenantLimits } from './limits.js';
import { budgetKeys, REBUILD, RELEASE, RESERVE, SETTLE, SWEEP, TENANTS_KEY } from './redis-scripts.js';
import type {
  Admission,
  ReservationRequest,
  LedgerSums,
  ReservationRules,
  ScopeCounters,
  Settlement,
  SettleOutcome,
  SharedGrant,
  ScopeSpent,
  SweepOutcome,
} from './reservation-store.js';

/** Calls per script run. Lua's argument stack holds 8,000 values, and a long script blocks all other clients. */
const CALLS_PER_RUN = 250;
const SWEEP_PER_RUN = 500;
/** Reply of a script that found no state of the tenant. */
const UNKNOWN_TENANT = -1;

type RefusalReply = [code: 2 | 3 | 4 | 5 | 6 | 7, scopeIndex: number, used: number, usedByLeases?: number];
type SharedReply = [code: 1, microUsd: number, tokens: number, limitsMicroUsd: 0 | 1, limitsTokens: 0 | 1];

/** The distinct scopes of one message. Calls refer to them by position, starting with 1. */
class ScopeTable {
  readonly scopes: NamedScope[] = [
    { kind: 'tenant', name: 'tenant' },
    { kind: 'day', name: 'day' },
  ];
  private readonly positions = new Map<string, number>();

  /** Positions of the scopes of a call besides tenant and day, separated by commas. */
  toIndexes(scopes: readonly NamedScope[]): string {
    return scopes.length === 0 ? '' : scopes.map((scope) => this.toIndex(scope)).join(',');
  }

  private toIndex(scope: NamedScope): number {
    const known = this.positions.get(scope.name);
    if (known !== undefined) return known;
    this.scopes.push(scope);
    this.positions.set(scope.name, this.scopes.length);
    return this.scopes.length;
  }
}

/**
 * Reservations in Redis. One script run per tenant serves up to 250 calls of a message. `lua/` holds the limit rules of `counters.ts`
 * again, because they must be checked and applied in one atomic step.
 */
export class RedisReservationStore {
  private readonly scripts: Record<'reserve' | 'settle' | 'release' | 'sweep' | 'rebuild', Script>;
  private readonly head: ScriptArguments;
  private readonly known = new Set<string>();

  constructor(
    private readonly redis: Redis,
    private readonly rules: ReservationRules,
    private readonly ledgerSums: LedgerSums,
  ) {
    this.head = [rules.idMemoryMs, rules.scopeTtlMs];
    this.scripts = {
      reserve: defineScript(redis, 'budgetReserve', 7, RESERVE),
      settle: defineScript(redis, 'budgetSettle', 7, SETTLE),
      release: defineScript(redis, 'budgetRelease', 7, RELEASE),
      sweep: defineScript(redis, 'budgetSweep', 7, SWEEP),
      rebuild: defineScript(redis, 'budgetRebuild', 7, REBUILD),
    };
  }

  /** Admits or refuses each request in order. An open lease of the same call is admitted again without holding twice. */
  async reserve(tenantId: string, limits: TenantLimits, requests: readonly ReservationRequest[]): Promise<Admission[]> {
    const answers: Admission[] = [];
    for (let start = 0; start < requests.length; start += CALLS_PER_RUN) {
      answers.push(...(await this.reserveRun(tenantId, limits, requests.slice(start, start + CALLS_PER_RUN))));
    }
    return answers;
  }

  private async reserveRun(
    tenantId: string,
    limits: TenantLimits,
    requests: readonly ReservationRequest[],
  ): Promise<Admission[]> {
    const table = new ScopeTable();
    const calls: ScriptArguments = [];
    for (const request of requests) {
      const scopes = scopesOf(request);
      // A call that holds nothing has no lease. A shared lease for free calls holds one unit of each limited currency.
      const hasLease =
        request.micro_usd > 0 || request.tokens > 0 || request.shared !== undefined || request.estimates !== undefined;
      const ending = hasLease ? leaseEnding(tenantId, request, scopes) : '';
      const least = request.shared?.least_micro_usd ?? '';
      const { microUsd = false, tokens = false } = request.estimates ?? {};
      const units = Number(microUsd) + 2 * Number(tokens);
      calls.push(
        request.call_id,
        request.micro_usd,
        request.tokens,
        request.lease_ms,
        ending,
        table.toIndexes(scopes),
        least,
        request.tool_name ?? '',
        units,
      );
    }
    const scopes: ScriptArguments = [];
    for (const scope of table.scopes) {
      const limit = limitOf(limits, scope);
      scopes.push(scope.name, limit.microUsd ?? -1, limit.tokens ?? -1);
    }
    const reply = await this.run(tenantId, 'reserve', [
      ...this.head,
      this.rules.outboxCap,
      table.scopes.length,
      ...scopes,
      ...calls,
    ]);
    if (!Array.isArray(reply) || reply.length !== requests.length) throw unreadable('reserve');
    return reply.map((answer: 1 | 2 | 3 | SharedReply | RefusalReply, position) => {
      if (answer === 1) return { admitted: true };
      if (answer === 2 || answer === 3) return { admitted: true, estimated: answer === 2 };
      return answer[0] === 1
        ? { admitted: true, shared: toSharedGrant(answer) }
        : this.refusal(answer, table, limits, requests[position]?.call_id ?? '');
    });
  }

  private refusal(
    [code, index, used, inLeases]: RefusalReply,
    table: ScopeTable,
    limits: TenantLimits,
    callId: string,
  ): Admission {
    if (code === 4) {
      return { admitted: false, code: 'BUDGET_UNAVAILABLE', scope: 'outbox', limit: this.rules.outboxCap, used };
    }
    if (code === 5) return { admitted: false, code: 'BUDGET_EXCEEDED', scope: `call:${callId}`, limit: 0, used: 0 };
    if (code === 6 || code === 7) {
      return { admitted: false, code: 'BUDGET_UNAVAILABLE', scope: code === 6 ? 'share' : 'turn', limit: 0, used: 0 };
    }
    const named = table.scopes[index - 1] as NamedScope;
    const limit = limitOf(limits, named);
    const used_by_leases = inLeases || undefined;
    const scope = named.name;
    return code === 2
      ? { admitted: false, code: 'BUDGET_EXCEEDED', scope, limit: limit.microUsd ?? 0, used, used_by_leases }
      : { admitted: false, code: 'TOKEN_LIMIT_EXCEEDED', scope, limit: limit.tokens ?? 0, used, used_by_leases };
  }

  /**
   * Replaces leases by actual usage, once per call id. Usage without a lease is charged unchanged. A call whose shared lease has
   * expired gets its row without an amount, because the charge of the lease includes it.
   * @param costOverrun charges more money than was leased, as settled; otherwise at most the lease
   */
  async settle(tenantId: string, settlements: readonly Settlement[], costOverrun = false): Promise<SettleOutcome> {
    const head = [...this.head, costOverrun ? 1 : 0];
    const outcome: SettleOutcome = { settled: 0, spending: [] };
    for (let start = 0; start < settlements.length; start += CALLS_PER_RUN) {
      const table = new ScopeTable();
      const calls: ScriptArguments = [];
      for (const one of settlements.slice(start, start + CALLS_PER_RUN)) {
        const indexes = table.toIndexes(scopesOf(one));
        const { id = '', micro_usd: share = 0, tokens = 0 } = one.lease ?? {};
        calls.push(one.call_id, one.micro_usd, one.tokens, one.row, indexes, id, share, tokens, one.tool_name ?? '');
      }
      const reply = await this.run(tenantId, 'settle', [
        ...head,
        table.scopes.length,
        ...table.scopes.map(({ name }) => name),
        ...calls,
      ]);
      if (!Array.isArray(reply)) throw unreadable('settle');
      outcome.settled += Number(reply[0]);
      outcome.spending.push(...toSpending(reply[1]));
    }
    return outcome;
  }

  /** Releases leases in full. Returns how many there were. */
  async release(tenantId: string, callIds: readonly string[]): Promise<number> {
    let released = 0;
    for (let start = 0; start < callIds.length; start += CALLS_PER_RUN) {
      const ids = callIds.slice(start, start + CALLS_PER_RUN);
      released += Number(await this.scripts.release(...budgetKeys(tenantId), ...this.head, ...ids));
    }
    return released;
  }

  /** Charges expired leases and removes unused scopes. */
  async sweep(tenantId: string): Promise<SweepOutcome> {
    const [seconds] = await this.redis.time();
    const month = periodName('month', Number(seconds) * 1_000);
    const reply = await this.scripts.sweep(...budgetKeys(tenantId), ...this.head, SWEEP_PER_RUN, month);
    if (!Array.isArray(reply)) throw unreadable('sweep');
    const [more, expired, openLeases, outboxRows, heldMicroUsd] = reply.map(Number);
    return {
      more: more === 1,
      expired: expired ?? 0,
      openLeases: openLeases ?? 0,
      outboxRows: outboxRows ?? 0,
      heldMicroUsd: heldMicroUsd ?? 0,
      spending: toSpending(reply[5]),
    };
  }

  /** Removes counters that nothing is limited by any more. */
  async forget(tenantId: string, scopes: readonly string[]): Promise<void> {
    const [counters, seen] = budgetKeys(tenantId);
    const fields = scopes.flatMap((name) => [name, `~shared:${name}`, `~shared_tokens:${name}`]);
    if (fields.length > 0) await Promise.all([this.redis.hdel(counters, ...fields), this.redis.zrem(seen, ...scopes)]);
  }

  /** Counters of the tenant, its current day and the named scopes. */
  async counters(tenantId: string, scopes: readonly NamedScope[]): Promise<ScopeCounters[]> {
    const [seconds] = await this.redis.time();
    const names = ['tenant', `day:${Math.floor(Number(seconds) / 86_400)}`, ...scopes.map((scope) => scope.name)];
    let values = await this.redis.hmget(budgetKeys(tenantId)[0], ...names);
    if (values[0] === null) {
      await this.catchUp(tenantId);
      values = await this.redis.hmget(budgetKeys(tenantId)[0], ...names);
    }
    return names.map((scope, position) => {
      const [spent, held, spentTokens, heldTokens] = (values[position] ?? '0 0 0 0').split(' ').map(Number);
      return {
        scope,
        spentMicroUsd: spent ?? 0,
        heldMicroUsd: held ?? 0,
        spentTokens: spentTokens ?? 0,
        heldTokens: heldTokens ?? 0,
      };
    });
  }

  /** Runs a script. If Redis has no state of the tenant, restores it from the ledger and runs the script again. */
  private async run(tenantId: string, name: 'reserve' | 'settle', values: ScriptArguments): Promise<unknown> {
    const keys = budgetKeys(tenantId);
    if (!this.known.has(tenantId)) {
      await this.redis.sadd(TENANTS_KEY, tenantId);
      this.known.add(tenantId);
    }
    const packed = packArguments(values);
    const reply = await this.scripts[name](...keys, packed);
    if (reply !== UNKNOWN_TENANT) return reply;
    await this.catchUp(tenantId);
    return this.scripts[name](...keys, packed);
  }

  /**
   * Raises counters that are below the sums of the ledger. That happens when the store was restored from an older copy or a lagging
   * replica took over. Returns how many scopes were raised.
   */
  async catchUp(tenantId: string): Promise<number> {
    await this.redis.sadd(TENANTS_KEY, tenantId);
    const sums = await this.ledgerSums(tenantId);
    const values = sums.flatMap((sum) => [sum.scope, sum.microUsd, sum.tokens]);
    return Number(await this.scripts.rebuild(...budgetKeys(tenantId), ...values));
  }
}

/** As one argument: each argument of a command costs more than the rest of it. Redis cannot read JSON with half of a surrogate pair. */
function packArguments(values: ScriptArguments): string {
  const texts: string[] = [];
  for (const value of values) texts.push(String(value).toWellFormed());
  return JSON.stringify(texts);
}

/** Scopes of a call besides tenant and day, in the order in which they are checked. */
function scopesOf({
  scopes,
  call_id,
  shares_request,
  budgets = [],
}: Pick<ReservationRequest, 'scopes' | 'call_id' | 'shares_request' | 'budgets'>): NamedScope[] {
  return [...countedScopes(scopes, call_id, shares_request), ...budgets];
}

/** End of a lease record: its scopes other than tenant and day, and the ledger row for the case that it expires. */
function leaseEnding(tenantId: string, request: ReservationRequest, scopes: readonly NamedScope[]): string {
  const { call_id, user_id, key_id, tool_name, source, parent_call_id } = request;
  const { request_id, agent_id, task_id } = request.scopes;
  const row = JSON.stringify({
    ...{ call_id, tenant_id: tenantId, user_id, key_id, tool_name, source, parent_call_id },
    ...{ request_id, agent_id, task_id },
  });
  let names = '';
  for (const scope of scopes) names += `\x1e${scope.name}`;
  return `${names}\x1f${row}`;
}

function toSharedGrant([, micro_usd, tokens, limitsMicroUsd, limitsTokens]: SharedReply): SharedGrant {
  return { micro_usd, tokens, limits_micro_usd: limitsMicroUsd === 1, limits_tokens: limitsTokens === 1 };
}

function toSpending(reply: unknown): ScopeSpent[] {
  const flat = Array.isArray(reply) ? reply.map(String) : [];
  const spending: ScopeSpent[] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [before, after, tokensBefore, tokensAfter] = (flat[at + 1] ?? '').split(' ').map(Number);
    spending.push({
      scope: flat[at] ?? '',
      microUsdBefore: before ?? 0,
      microUsdAfter: after ?? 0,
      tokensBefore: tokensBefore ?? 0,
      tokensAfter: tokensAfter ?? 0,
    });
  }
  return spending;
}

function unreadable(name: string): ToolError {
  return new ToolError('INTERNAL', { message: `The Redis script ${name} returned an unexpected reply` });
}

/** The methods of the store, for specs that replace it. */
export type ReservationStore = Pick<RedisReservationStore, keyof RedisReservationStore>;
