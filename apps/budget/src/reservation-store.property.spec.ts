import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { unlimited, withSettings } from './limits.js';
import { MemoryReservationStore } from '../spec/memory-reservation-store.js';
import { RedisReservationStore, type ReservationStore } from './redis-reservation-store.js';
import { RedisUsageOutbox, type UsageOutbox } from './redis-usage-outbox.js';
import { DEFAULT_RULES } from './reservation-store.js';

/** Limits small enough that most runs meet them. */
const LIMITS = withSettings(unlimited(), {
  max_cost_per_tenant: 6_000 / 1e6,
  max_cost_per_day: 5_000 / 1e6,
  cost_budget_per_agent: 2_500 / 1e6,
  max_cost_per_request: 2_000 / 1e6,
});
const CEILINGS: Record<string, number> = { tenant: 6_000, day: 5_000, agent: 2_500, request: 2_000 };
const NAMED = [
  { kind: 'request', name: 'request:r0' },
  { kind: 'request', name: 'request:r1' },
  { kind: 'agent', name: 'agent:g0' },
  { kind: 'agent', name: 'agent:g1' },
] as const;

/** Steps of a run. After a crash the later steps of a caller never come. */
type Step =
  | { do: 'reserve'; call: number; cost: number; leaseMs: number }
  | { do: 'settle'; call: number; cost: number }
  | { do: 'release'; call: number }
  /** A gateway leases for many calls, settles a call out of the lease, and ends it. */
  | { do: 'share'; lease: number; cost: number; leaseMs: number }
  | { do: 'draw'; lease: number; call: number; cost: number }
  | { do: 'end'; lease: number }
  | { do: 'sweep' }
  | { do: 'wait'; ms: number };

const call = fc.nat({ max: 11 });
const cost = fc.nat({ max: 1_200 });
/** Of a shared lease; 0 for free calls. */
const leased = fc.oneof(fc.constant(0), cost);
const lease = fc.nat({ max: 2 });
const steps = (leaseMs: fc.Arbitrary<number>, ms: fc.Arbitrary<number>): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.record({ do: fc.constant('reserve' as const), call, cost, leaseMs }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const), call, cost }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('release' as const), call }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('share' as const), lease, cost: leased, leaseMs }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('draw' as const), lease, call, cost: fc.nat({ max: 30 }) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('end' as const), lease }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('sweep' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms }) },
    ),
    { minLength: 5, maxLength: 40 },
  );

const scopesOf = (index: number) => ({
  tenant_id: 't',
  request_id: index % 3 === 2 ? `c${index}` : `r${index % 3}`,
  ...(index % 2 === 0 ? { agent_id: `g${(index / 2) % 2}` } : {}),
});

const sharedScopes = (id: string) => ({ tenant_id: 't', request_id: id, agent_id: 'g0' });

/** Calls that hold a lease as far as their caller knows. One that gives its lease back knows so at once, also while it is asked for. */
class Leases {
  readonly held = new Set<number>();
  /** What is left of shared leases, as far as their gateway knows. */
  readonly shared = new Map<number, number>();
  private readonly asks = new Map<number, Step>();

  asked(number: number, ask: Step): void {
    this.asks.set(number, ask);
  }

  admitted(number: number, ask: Step): void {
    if (this.asks.get(number) === ask) this.held.add(number);
  }

  released(number: number): void {
    this.asks.delete(number);
    this.held.delete(number);
  }
}

/** Runs one step. Only calls that hold a lease are settled: usage without one does not touch limits. */
async function run(store: ReservationStore, tenant: string, step: Step, leases: Leases): Promise<void> {
  if (step.do === 'reserve') {
    leases.asked(step.call, step);
    const ask = {
      call_id: `c${step.call}`,
      scopes: scopesOf(step.call),
      micro_usd: step.cost,
      tokens: 0,
      lease_ms: step.leaseMs,
    };
    const [answer] = await store.reserve(tenant, LIMITS, [ask]);
    if (answer?.admitted && step.cost > 0) leases.admitted(step.call, step);
  } else if (step.do === 'settle' && leases.held.has(step.call)) {
    const scopes = scopesOf(step.call);
    await store.settle(tenant, [
      { call_id: `c${step.call}`, scopes, micro_usd: step.cost, tokens: 0, row: `c${step.call}` },
    ]);
  } else if (step.do === 'share' && !leases.shared.has(step.lease)) {
    const call_id = `lease:${step.lease}`;
    const ask = { call_id, scopes: sharedScopes(call_id), micro_usd: step.cost, tokens: 0, lease_ms: step.leaseMs };
    const [answer] = await store.reserve(tenant, LIMITS, [
      { ...ask, shared: { least_micro_usd: Math.min(5, step.cost) } },
    ]);
    if (answer?.admitted) leases.shared.set(step.lease, answer.shared?.micro_usd ?? 0);
  } else if (step.do === 'draw') {
    const rest = (leases.shared.get(step.lease) ?? 0) - step.cost;
    if (rest < 0 || step.cost === 0) return;
    leases.shared.set(step.lease, rest);
    const share = { id: `lease:${step.lease}`, micro_usd: step.cost, tokens: 0 };
    const call_id = `d${step.lease}-${rest}-${step.call}`;
    await store.settle(tenant, [
      { call_id, scopes: sharedScopes(call_id), micro_usd: step.cost, tokens: 0, row: call_id, lease: share },
    ]);
  } else if (step.do === 'end' && leases.shared.has(step.lease)) {
    const call_id = `lease:${step.lease}`;
    const rest = { id: call_id, micro_usd: leases.shared.get(step.lease) ?? 0, tokens: 0 };
    leases.shared.set(step.lease, 0);
    await store.settle(tenant, [
      { call_id, scopes: sharedScopes(call_id), micro_usd: 0, tokens: 0, row: '', lease: rest },
    ]);
  } else if (step.do === 'release') {
    leases.released(step.call);
    await store.release(tenant, [`c${step.call}`]);
  } else if (step.do === 'sweep') await store.sweep(tenant);
}

async function expectWithinLimits(store: ReservationStore, tenant: string): Promise<void> {
  for (const counter of await store.counters(tenant, NAMED)) {
    const ceiling = CEILINGS[counter.scope.split(':')[0] ?? ''] ?? 0;
    const used = counter.spentMicroUsd + counter.heldMicroUsd;
    if (used > ceiling || counter.heldMicroUsd < 0 || counter.spentMicroUsd < 0) {
      expect.fail(`${counter.scope}: ${counter.spentMicroUsd} spent + ${counter.heldMicroUsd} held > ${ceiling}`);
    }
  }
}

/** At rest nothing is held, and the ledger says what the counters say, each call once. */
async function expectAtRest(store: ReservationStore, outbox: UsageOutbox, tenant: string): Promise<void> {
  for (let more = true; more;) more = (await store.sweep(tenant)).more;
  const counters = await store.counters(tenant, NAMED);
  expect(counters.map((counter) => counter.heldMicroUsd)).toEqual(counters.map(() => 0));
  const rows = (await outbox.read(tenant, 10_000)).flatMap((entry) => entry.rows);
  expect(rows.reduce((sum, row) => sum + row.microUsd, 0)).toBe(counters[0]?.spentMicroUsd);
  const ids = rows.map((row) => (row.kind === 'expired' ? JSON.parse(row.row).call_id : row.row));
  expect(new Set(ids).size).toBe(ids.length);
}

describe('reservations under random interleavings', () => {
  describe('on Redis', () => {
    let server: RedisServer;
    let redis: Redis;
    let tenants = 0;
    beforeAll(async () => {
      server = await startRedis();
      redis = server.client();
    });
    afterAll(() => server.stop());
    const storeOn = (client: Redis) => new RedisReservationStore(client, DEFAULT_RULES, async () => []);

    it('never overspend and hold nothing at rest: 150 runs, steps side by side', async () => {
      const store = storeOn(redis);
      const outbox = new RedisUsageOutbox(redis);
      const onRedis = steps(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 4 }));
      await fc.assert(
        fc.asyncProperty(onRedis, async (list) => {
          const tenant = `t${(tenants += 1)}`;
          const leases = new Leases();
          const running: Promise<void>[] = [];
          for (const [index, step] of list.entries()) {
            if (step.do === 'wait') await new Promise((resolve) => setTimeout(resolve, step.ms));
            else running.push(run(store, tenant, step, leases));
            if (index % 4 === 3) await expectWithinLimits(store, tenant);
          }
          await Promise.all(running);
          await expectWithinLimits(store, tenant);
          await new Promise((resolve) => setTimeout(resolve, 15));
          await expectAtRest(store, outbox, tenant);
        }),
        { numRuns: 150 },
      );
    });

    it('answers as the memory store does, step by step', async () => {
      const noExpiry = steps(fc.constant(600_000), fc.constant(0));
      await fc.assert(
        fc.asyncProperty(noExpiry, async (list) => {
          const tenant = `t${(tenants += 1)}`;
          const memory = new MemoryReservationStore(new FakeClock(), DEFAULT_RULES, async () => []);
          const stores = [memory, storeOn(redis)];
          const leases = [new Leases(), new Leases()] as const;
          for (const step of list) {
            await Promise.all(stores.map((store, index) => run(store, tenant, step, leases[index] ?? new Leases())));
            const [expected, actual] = await Promise.all(stores.map((store) => store.counters(tenant, NAMED)));
            expect(withoutDay(actual ?? [])).toEqual(withoutDay(expected ?? []));
            expect(leases[1].held).toEqual(leases[0].held);
            expect(leases[1].shared).toEqual(leases[0].shared);
          }
        }),
        { numRuns: 100 },
      );
    });

    it('grants exactly 100 of 3,000 asks that race over 16 connections', async () => {
      const limits = withSettings(unlimited(), { max_cost_per_tenant: 100 / 1e6 });
      const clients = Array.from({ length: 16 }, () => storeOn(server.client()));
      for (let round = 0; round < 3; round += 1) {
        const tenant = `race${round}`;
        const asks = Array.from({ length: 3_000 }, async (_, index) => {
          const call_id = `c${index}`;
          const scopes = { tenant_id: tenant, request_id: call_id };
          const store = clients[index % clients.length] as ReservationStore;
          return store.reserve(tenant, limits, [{ call_id, scopes, micro_usd: 1, tokens: 0, lease_ms: 60_000 }]);
        });
        const granted = (await Promise.all(asks)).flat().filter((answer) => answer.admitted);
        expect(granted).toHaveLength(100);
      }
    });
  });
});

/** The names of days differ: one clock is fake. */
const withoutDay = (counters: { scope: string }[]) =>
  counters.map((counter) => ({ ...counter, scope: counter.scope.replace(/^day:.*/, 'day') }));
