import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { epochDay } from '@toolfleet/database';
import { unlimited, withSettings, type TenantLimits } from './limits.js';
import { MemoryReservationStore } from '../spec/memory-reservation-store.js';
import { RedisReservationStore, type ReservationStore } from './redis-reservation-store.js';
import { RedisUsageOutbox, type UsageOutbox } from './redis-usage-outbox.js';
import { DEFAULT_RULES, type ReservationRequest, type LedgerSum, type ReservationRules } from './reservation-store.js';
import type { Settlement } from './reservation-store.js';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';

interface Subject {
  store: ReservationStore;
  outbox: UsageOutbox;
  /** Lets at least so many milliseconds of store time pass. */
  advance(ms: number): Promise<void>;
}
type MakeSubject = (rules?: Partial<ReservationRules>, ledger?: (today: string) => LedgerSum[]) => Promise<Subject>;

const LONG = 60_000;
const money = (usd: number, figure = 'max_cost_per_tenant'): TenantLimits =>
  withSettings(unlimited(), { [figure]: usd / 1_000_000 });
const ask = (callId: string, microUsd: number, more: Partial<ReservationRequest> = {}): ReservationRequest => ({
  call_id: callId,
  micro_usd: microUsd,
  tokens: 0,
  lease_ms: LONG,
  scopes: { tenant_id: 't', request_id: callId },
  ...more,
});
const settlement = (callId: string, microUsd: number, more: Partial<Settlement> = {}): Settlement => ({
  call_id: callId,
  micro_usd: microUsd,
  tokens: 0,
  scopes: { tenant_id: 't', request_id: callId },
  row: JSON.stringify({ call_id: callId }),
  ...more,
});

function conformance(name: string, make: MakeSubject): void {
  describe(`reservation store: ${name}`, () => {
    const rowsOf = async (outbox: UsageOutbox) => (await outbox.read('t', 1000)).flatMap((entry) => entry.rows);
    const tenantOf = async (store: ReservationStore) => (await store.counters('t', []))[0];

    it('admits exactly 10 of 100 parallel asks of 1 against 10', async () => {
      const { store } = await make();
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, i) => store.reserve('t', money(10), [ask(`c${i}`, 1)])),
      );
      expect(answers.flat().filter((answer) => answer.admitted)).toHaveLength(10);
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 10, spentMicroUsd: 0 });
    });

    it('keeps the counters of set budgets while their period lasts, and forgets them on request', async () => {
      const { store, advance } = await make({ scopeTtlMs: 50 });
      const limit = { microUsd: 100, tokens: null };
      const budgets = ['user/2001-01:ann', 'user/total:ann', 'key/9999-01-01:k'].map(
        (scope) => ({ kind: 'budget', name: scope, limit }) as const,
      );
      await store.settle('t', [settlement('a', 60, { budgets })]);
      expect(await store.reserve('t', unlimited(), [ask('b', 50, { budgets })])).toEqual([
        { admitted: false, code: 'BUDGET_EXCEEDED', scope: 'user/2001-01:ann', limit: 100, used: 60 },
      ]);
      await advance(200);
      await store.sweep('t');
      const spent = async () => (await store.counters('t', budgets)).slice(2).map((one) => one.spentMicroUsd);
      expect(await spent()).toEqual([0, 60, 60]);
      await store.forget('t', ['user/total:ann']);
      expect(await spent()).toEqual([0, 0, 60]);
    });

    it('judges the asks of one message in order, each seeing those before it', async () => {
      const { store } = await make();
      const answers = await store.reserve('t', money(10), [ask('a', 6), ask('b', 6), ask('c', 4), ask('free', 0)]);
      expect(answers.map((answer) => answer.admitted)).toEqual([true, false, true, false]);
      expect(answers[1]).toEqual({ admitted: false, code: 'BUDGET_EXCEEDED', scope: 'tenant', limit: 10, used: 6 });
      expect(answers[3]).toMatchObject({ code: 'BUDGET_EXCEEDED', used: 10 });
    });

    it('charges actual usage on settlement, never more than was leased, and frees the rest', async () => {
      const { store, outbox } = await make();
      await store.reserve('t', money(100), [ask('a', 50), ask('b', 50)]);
      const outcome = await store.settle('t', [settlement('a', 20), settlement('b', 80)]);
      expect(outcome.settled).toBe(2);
      expect(outcome.spending.find((one) => one.scope === 'tenant')).toMatchObject({
        microUsdBefore: 0,
        microUsdAfter: 70,
      });
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 70 });
      expect((await rowsOf(outbox)).map((row) => [row.kind, row.microUsd, JSON.parse(row.row)])).toEqual([
        ['settled', 20, { call_id: 'a' }],
        ['settled', 50, { call_id: 'b' }],
      ]);
    });

    it('charges more than was leased where overruns are allowed', async () => {
      const { store, outbox } = await make();
      await store.reserve('t', money(100), [ask('a', 50)]);
      await store.settle('t', [settlement('a', 80)], true);
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 80 });
      expect((await rowsOf(outbox)).map((row) => row.microUsd)).toEqual([80]);
    });

    it('settles an id once, in one message and over many', async () => {
      const { store, outbox } = await make();
      await store.reserve('t', money(100), [ask('a', 50)]);
      expect((await store.settle('t', [settlement('a', 20), settlement('a', 20)])).settled).toBe(1);
      expect((await store.settle('t', [settlement('a', 20)])).settled).toBe(0);
      expect(await store.release('t', ['a'])).toBe(0);
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 20 });
      expect(await rowsOf(outbox)).toHaveLength(1);
    });

    it('does not hold twice for one id, and refuses an id that was charged', async () => {
      const { store } = await make();
      await store.reserve('t', money(100), [ask('a', 30), ask('a', 30)]);
      await store.reserve('t', money(100), [ask('a', 30)]);
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 30 });
      await store.settle('t', [settlement('a', 30)]);
      expect(await store.reserve('t', money(100), [ask('a', 30)])).toEqual([
        { admitted: false, code: 'BUDGET_EXCEEDED', scope: 'call:a', limit: 0, used: 0 },
      ]);
    });

    it('gives a released lease back whole, and lets the id be used again', async () => {
      const { store, outbox } = await make();
      await store.reserve('t', money(100), [ask('a', 30), ask('b', 30)]);
      expect(await store.release('t', ['a', 'unknown', 'a'])).toBe(1);
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 30, spentMicroUsd: 0 });
      expect(await store.reserve('t', money(100), [ask('a', 30)])).toEqual([{ admitted: true }]);
      expect(await rowsOf(outbox)).toHaveLength(0);
    });

    it('charges an expired lease in full, once, whatever comes later', async () => {
      const { store, outbox, advance } = await make();
      await store.reserve('t', money(100), [
        ask('a', 30, { lease_ms: 1, user_id: 'u', tool_name: 'x' }),
        ask('b', 30, { lease_ms: 1 }),
        ask('c', 5),
      ]);
      await advance(20);
      expect((await store.settle('t', [settlement('a', 1)])).settled).toBe(0);
      expect(await store.release('t', ['b'])).toBe(0);
      await store.sweep('t');
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 5, spentMicroUsd: 60 });
      const rows = await rowsOf(outbox);
      expect(rows.map((row) => [row.kind, row.microUsd])).toEqual([
        ['expired', 30],
        ['expired', 30],
      ]);
      const named = rows.map((row) => JSON.parse(row.row)).find((row) => row.call_id === 'a');
      expect(named).toMatchObject({ tenant_id: 't', user_id: 'u', tool_name: 'x', request_id: 'a' });
      expect((await store.reserve('t', money(100), [ask('a', 1)]))[0]).toMatchObject({ scope: 'call:a' });
    });

    it('holds the capacity of an unswept lease, so that expiry never frees anything', async () => {
      const { store, advance } = await make();
      await store.reserve('t', money(10), [ask('a', 10, { lease_ms: 1 })]);
      await advance(20);
      expect((await store.reserve('t', money(10), [ask('b', 1)]))[0]).toMatchObject({ admitted: false, used: 10 });
    });

    it('keeps counters for each named scope and refuses at the narrowest', async () => {
      const { store } = await make();
      const limits = withSettings(money(1000), {
        max_cost_per_request: 10 / 1e6,
        cost_budget_per_agent: 15 / 1e6,
        cost_budget_per_task: 100 / 1e6,
        max_cost_per_day: 500 / 1e6,
      });
      const scoped = (callId: string, microUsd: number, request: string, agent: string) =>
        ask(callId, microUsd, {
          scopes: { tenant_id: 't', request_id: request, agent_id: agent, task_id: 'k' },
        });
      const answers = await store.reserve('t', limits, [
        scoped('a', 10, 'r1', 'g'),
        scoped('b', 1, 'r1', 'h'),
        scoped('c', 6, 'r2', 'g'),
        scoped('d', 5, 'r2', 'g'),
      ]);
      expect(answers.map((answer) => (answer.admitted ? true : answer.scope))).toEqual([
        true,
        'request:r1',
        'agent:g',
        true,
      ]);
      const counters = await store.counters('t', [
        { kind: 'agent', name: 'agent:g' },
        { kind: 'agent', name: 'agent:h' },
        { kind: 'task', name: 'task:k' },
      ]);
      expect(counters.map((counter) => counter.heldMicroUsd)).toEqual([15, 15, 15, 0, 15]);
      expect(counters[1]?.scope).toMatch(/^day:\d+$/);
    });

    it('counts tokens after the fact where none were leased, and caps them where some were', async () => {
      const { store } = await make();
      const limits = withSettings(unlimited(), { token_budget_per_agent: 100 });
      const scopes = { tenant_id: 't', request_id: 'r', agent_id: 'g' };
      await store.reserve('t', limits, [ask('a', 0, { scopes }), ask('b', 0, { scopes, tokens: 40 })]);
      await store.settle('t', [settlement('a', 0, { scopes, tokens: 60 }), settlement('b', 0, { scopes, tokens: 70 })]);
      expect((await store.counters('t', [{ kind: 'agent', name: 'agent:g' }]))[2]).toMatchObject({
        spentTokens: 100,
        heldTokens: 0,
      });
      expect(await store.reserve('t', limits, [ask('c', 0, { scopes })])).toEqual([
        { admitted: false, code: 'TOKEN_LIMIT_EXCEEDED', scope: 'agent:g', limit: 100, used: 100 },
      ]);
    });

    describe('a shared lease', () => {
      const SHARED = 'lease:1';
      const lease = (microUsd: number, more: Partial<ReservationRequest> = {}) =>
        ask(SHARED, microUsd, { shared: { least_micro_usd: 2 }, ...more });
      const draw = (callId: string, microUsd: number, share: number, tokens = 0) =>
        settlement(callId, microUsd, { tokens, lease: { id: SHARED, micro_usd: share, tokens } });
      const end = (microUsd: number) =>
        settlement(SHARED, 0, { row: '', lease: { id: SHARED, micro_usd: microUsd, tokens: 0 } });
      const granted = (microUsd: number, tokens = 0) => ({
        admitted: true,
        shared: { micro_usd: microUsd, tokens, limits_micro_usd: true, limits_tokens: tokens > 0 },
      });

      it('takes at most a hundredth of what is left, which counts as held, and refuses when that is too little', async () => {
        const { store } = await make();
        await store.reserve('t', money(1_000), [ask('a', 100)]);
        expect(await store.reserve('t', money(1_000), [lease(500), lease(500)])).toEqual([granted(9), granted(9)]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 109, spentMicroUsd: 0 });
        const more = ask('lease:2', 500, { shared: { least_micro_usd: 9 } });
        expect((await store.reserve('t', money(1_000), [more]))[0]).toMatchObject({ admitted: false, scope: 'share' });
        const [refused] = await store.reserve('t', money(1_000), [ask('b', 900)]);
        expect(refused).toMatchObject({ admitted: false, used: 109, used_by_leases: 9 });
      });

      it('takes what is wanted where nothing is limited, and tokens only where they are', async () => {
        const { store } = await make();
        const open = { limits_micro_usd: false, limits_tokens: false };
        expect(await store.reserve('t', unlimited(), [lease(500, { tokens: 7 })])).toEqual([
          { admitted: true, shared: { micro_usd: 500, tokens: 0, ...open } },
        ]);
        const limits = money(300, 'max_cost_per_day');
        limits.tenant.tokens = 1_000;
        const other = ask('lease:2', 0, { tokens: 50, shared: { least_micro_usd: 0 } });
        expect(await store.reserve('t', limits, [other])).toMatchObject([{ admitted: false, scope: 'share' }]);
        await store.settle('t', [end(500)]);
        expect(await store.reserve('t', limits, [other])).toEqual([granted(1, 10)]);
      });

      it('gives each call its share and the rest back once, however often messages repeat', async () => {
        const { store, outbox } = await make();
        await store.reserve('t', money(1_000), [lease(10)]);
        const all = [draw('a', 3, 4), draw('b', 9, 4), end(2)];
        expect((await store.settle('t', all)).settled).toBe(3);
        expect((await store.settle('t', all)).settled).toBe(0);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 7 });
        expect((await rowsOf(outbox)).map(({ kind, microUsd }) => [kind, microUsd])).toEqual([
          ['settled', 3],
          ['settled', 4],
        ]);
        expect((await store.reserve('t', money(1_000), [lease(10)]))[0]).toMatchObject({ scope: `call:${SHARED}` });
        expect((await store.reserve('t', money(1_000), [ask('c', 994)]))[0]).toEqual({
          ...{ admitted: false, code: 'BUDGET_EXCEEDED', scope: 'tenant', limit: 1_000, used: 7 },
        });
      });

      it('keeps what running calls have until they are settled, and takes back what a released one had', async () => {
        const { store, outbox } = await make();
        await store.reserve('t', money(1_000), [lease(10)]);
        await store.settle('t', [end(3)]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 7 });
        const released = { ...draw('a', 0, 5), row: '' };
        await store.settle('t', [released, released]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 2, spentMicroUsd: 0 });
        await store.settle('t', [draw('b', 2, 2)]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 2 });
        expect(await rowsOf(outbox)).toHaveLength(1);
      });

      it('is charged for its rest when it expires; its calls then get their rows without an amount', async () => {
        const { store, outbox, advance } = await make();
        await store.reserve('t', money(1_000), [lease(10, { lease_ms: 1_000 })]);
        await store.settle('t', [draw('a', 3, 3)]);
        await advance(1_010);
        expect((await store.settle('t', [draw('b', 4, 4), draw('c', 4, 4)])).settled).toBe(2);
        await store.sweep('t');
        expect((await store.settle('t', [draw('d', 1, 1), draw('b', 4, 4), end(7)])).settled).toBe(1);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 10 });
        const rows = (await rowsOf(outbox)).map(({ kind, microUsd, row }) => [kind, JSON.parse(row).call_id, microUsd]);
        expect(rows.toSorted((one, other) => String(one[1]).localeCompare(String(other[1])))).toEqual([
          ['settled', 'a', 3],
          ['settled', 'b', 0],
          ['settled', 'c', 0],
          ['settled', 'd', 0],
          ['expired', SHARED, 7],
        ]);
      });

      it.each(['is returned', 'is settled', 'expires'] as const)(
        'for free calls holds a unit of each limit, until it %s',
        async (fate) => {
          const { store, outbox, advance } = await make();
          const limits = withSettings(money(1_000), { max_tokens_per_tenant: 1_000 });
          const asked = ask(SHARED, 0, { lease_ms: fate === 'expires' ? 30 : 60_000, shared: { least_micro_usd: 0 } });
          expect(await store.reserve('t', limits, [asked])).toEqual([granted(1, 1)]);
          expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 1, heldTokens: 1 });
          if (fate === 'is returned') {
            const rest = settlement(SHARED, 0, { row: '', lease: { id: SHARED, micro_usd: 1, tokens: 1 } });
            await store.settle('t', [settlement('a', 0), rest]);
          } else if (fate === 'is settled') await store.settle('t', [draw('a', 1, 1, 1)]);
          else await advance(60);
          await store.sweep('t');
          const charged = fate === 'is returned' ? 0 : 1;
          expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, heldTokens: 0, spentMicroUsd: charged });
          expect(await rowsOf(outbox)).toHaveLength(1);
        },
      );

      it('holds tokens that calls report, without a cap on them', async () => {
        const { store } = await make();
        const limits = withSettings(unlimited(), { max_tokens_per_tenant: 1_000 });
        await store.reserve('t', limits, [lease(0, { tokens: 10, shared: { least_micro_usd: 0 } })]);
        expect(await tenantOf(store)).toMatchObject({ heldTokens: 10 });
        const free = { id: SHARED, micro_usd: 0, tokens: 10 };
        await store.settle('t', [settlement('a', 0, { tokens: 400, lease: free })]);
        expect(await tenantOf(store)).toMatchObject({ heldTokens: 0, spentTokens: 400 });
      });
    });

    describe('a call that reports its usage afterwards', () => {
      const LIMITED = withSettings(unlimited(), { max_tokens_per_tenant: 1_000, max_cost_per_tenant: 1_000 / 1e6 });
      const estimates = { microUsd: true, tokens: true };
      const metered = (callId: string, more: Partial<ReservationRequest> = {}) =>
        ask(callId, 0, { tool_name: 'x', estimates, ...more });
      const used = (callId: string, microUsd: number, tokens: number) =>
        settlement(callId, microUsd, { tokens, tool_name: 'x' });
      const isEstimated = { admitted: true, estimated: true };
      const turn = { admitted: false, code: 'BUDGET_UNAVAILABLE', scope: 'turn', limit: 0, used: 0 };

      it('runs alone while nothing is known of its tool, then as often at once as charges are known', async () => {
        const { store } = await make();
        const asks = (from: number) => [0, 1, 2].map((n) => metered(`c${from + n}`));
        expect(await store.reserve('t', LIMITED, asks(0))).toEqual([isEstimated, turn, turn]);
        expect(await store.reserve('t', LIMITED, [metered('other', { tool_name: 'y' })])).toEqual([isEstimated]);
        await store.settle('t', [used('c0', 30, 100)]);
        expect(await store.reserve('t', LIMITED, asks(1))).toEqual([isEstimated, turn, turn]);
        await store.settle('t', [used('c1', 20, 50)]);
        expect(await store.reserve('t', LIMITED, asks(2))).toEqual([isEstimated, isEstimated, turn]);
        // Twice the largest charge of each unit, for each of two calls, and one for the other tool.
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 121, heldTokens: 401, spentTokens: 150 });
        expect(await store.release('t', ['c2', 'c3', 'other'])).toBe(3);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, heldTokens: 0 });
      });

      it('is charged what it reports, and admitted while anything is left; what others hold is said to end', async () => {
        const { store } = await make();
        for (const id of ['a', 'b']) {
          await store.reserve('t', LIMITED, [metered(id)]);
          await store.settle('t', [used(id, 0, 450)]);
        }
        expect(await store.reserve('t', LIMITED, [metered('c'), metered('d')])).toEqual([
          isEstimated,
          {
            admitted: false,
            code: 'TOKEN_LIMIT_EXCEEDED',
            scope: 'tenant',
            limit: 1_000,
            used: 1_800,
            used_by_leases: 900,
          },
        ]);
        await store.settle('t', [used('c', 0, 600)]);
        expect(await tenantOf(store)).toMatchObject({ spentTokens: 1_500, heldTokens: 0 });
      });

      it('holds nothing once its tool has reported nothing eight times, until it reports something', async () => {
        const { store } = await make();
        for (let n = 0; n < 8; n += 1) {
          expect(await store.reserve('t', LIMITED, [metered(`c${n}`)])).toEqual([isEstimated]);
          await store.settle('t', [used(`c${n}`, 0, 0)]);
        }
        expect(await store.reserve('t', LIMITED, [metered('d')])).toEqual([{ admitted: true, estimated: false }]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, heldTokens: 0 });
        await store.settle('t', [used('d', 0, 7)]);
        expect(await store.reserve('t', LIMITED, [metered('e')])).toEqual([isEstimated]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 1, heldTokens: 14 });
      });

      it('is charged its estimate when its lease expires, once, and lets the next one run', async () => {
        const { store, outbox, advance } = await make();
        await store.reserve('t', LIMITED, [metered('a')]);
        await store.settle('t', [used('a', 30, 100)]);
        expect(await store.reserve('t', LIMITED, [metered('b', { lease_ms: 1 }), metered('c')])).toEqual([
          isEstimated,
          turn,
        ]);
        await advance(20);
        await store.sweep('t');
        expect((await store.settle('t', [used('b', 31, 101)])).settled).toBe(0);
        expect((await rowsOf(outbox)).map(({ kind, microUsd, tokens }) => [kind, microUsd, tokens])).toEqual([
          ['settled', 30, 100],
          ['expired', 30, 100],
        ]);
        expect(await store.reserve('t', LIMITED, [metered('c')])).toEqual([isEstimated]);
      });

      it('is charged nothing when its lease expires before anything is known', async () => {
        const { store, advance } = await make();
        await store.reserve('t', LIMITED, [metered('a', { lease_ms: 1 })]);
        await advance(20);
        await store.sweep('t');
        expect(await tenantOf(store)).toMatchObject({
          spentMicroUsd: 0,
          spentTokens: 0,
          heldMicroUsd: 0,
          heldTokens: 0,
        });
        expect(await store.reserve('t', LIMITED, [metered('b')])).toEqual([isEstimated]);
      });

      it('has its price and the estimate of its tokens apart', async () => {
        const { store } = await make();
        const priced = (callId: string) => ({
          ...metered(callId, { estimates: { microUsd: false, tokens: true } }),
          micro_usd: 400,
        });
        await store.reserve('t', LIMITED, [priced('a')]);
        await store.settle('t', [used('a', 400, 10)]);
        expect(await store.reserve('t', LIMITED, [priced('b')])).toEqual([isEstimated]);
        expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 400, heldTokens: 20 });
      });
    });

    it('keeps tenants apart', async () => {
      const { store } = await make();
      await store.reserve('t', money(10), [ask('a', 10)]);
      expect(await store.reserve('u', money(10), [ask('a', 10)])).toEqual([{ admitted: true }]);
    });

    it('refuses when the outbox is full, and goes on when it was drained', async () => {
      const { store, outbox } = await make({ outboxCap: 2 });
      await store.reserve('t', money(100), [ask('a', 1), ask('b', 1)]);
      await store.settle('t', [settlement('a', 1), settlement('b', 1)]);
      expect((await store.reserve('t', money(100), [ask('c', 1)]))[0]).toMatchObject({
        admitted: false,
        code: 'BUDGET_UNAVAILABLE',
        scope: 'outbox',
        limit: 2,
        used: 2,
      });
      const entries = await outbox.read('t', 10);
      await outbox.acknowledge('t', entries);
      await outbox.acknowledge('t', entries);
      expect(await outbox.read('t', 10)).toEqual([]);
      expect((await store.reserve('t', money(100), [ask('c', 1)]))[0]).toEqual({ admitted: true });
      expect(await outbox.tenants()).toEqual(['t']);
    });

    it('reads the outbox in pages', async () => {
      const { store, outbox } = await make();
      for (const id of ['a', 'b', 'c']) {
        await store.reserve('t', money(100), [ask(id, 1)]);
        await store.settle('t', [settlement(id, 1)]);
      }
      const all = await outbox.read('t', 10);
      expect(all).toHaveLength(3);
      expect(await outbox.read('t', 1)).toEqual(all.slice(0, 1));
      expect(await outbox.read('t', 10, all[0]!.id)).toEqual(all.slice(1));
      expect(await outbox.read('t', 10, all[2]!.id)).toEqual([]);
    });

    it('removes a scope unused for its TTL, but not one that holds money', async () => {
      const { store, advance } = await make({ scopeTtlMs: 10 });
      const limits = money(10, 'cost_budget_per_agent');
      const scoped = (id: string, agent: string) => ({ tenant_id: 't', request_id: id, agent_id: agent });
      await store.reserve('t', limits, [
        ask('a', 10, { scopes: scoped('a', 'idle') }),
        ask('b', 10, { scopes: scoped('b', 'busy') }),
      ]);
      await store.settle('t', [settlement('a', 10, { scopes: scoped('a', 'idle') })]);
      await advance(40);
      await store.sweep('t');
      const answers = await store.reserve('t', limits, [
        ask('c', 10, { scopes: scoped('c', 'idle') }),
        ask('d', 10, { scopes: scoped('d', 'busy') }),
      ]);
      expect(answers.map((answer) => answer.admitted)).toEqual([true, false]);
      expect(await tenantOf(store)).toMatchObject({ spentMicroUsd: 10, heldMicroUsd: 20 });
    });

    it('starts an unknown tenant from what the ledger says it spent', async () => {
      const { store } = await make({}, (today) => [
        { scope: 'tenant', microUsd: 8, tokens: 3 },
        { scope: today, microUsd: 2, tokens: 1 },
        { scope: 'agent:g', microUsd: 2, tokens: 1 },
      ]);
      expect((await store.reserve('t', money(10), [ask('a', 3)]))[0]).toMatchObject({ admitted: false, used: 8 });
      const counters = await store.counters('t', [{ kind: 'agent', name: 'agent:g' }]);
      expect(counters.map((counter) => [counter.spentMicroUsd, counter.spentTokens])).toEqual([
        [8, 3],
        [2, 1],
        [2, 1],
      ]);
    });

    it('raises what it knows to what the ledger says, and nothing else', async () => {
      const sums = [
        { scope: 'tenant', microUsd: 0, tokens: 0 },
        { scope: 'agent:g', microUsd: 0, tokens: 0 },
      ];
      const { store } = await make({}, () => sums);
      const named = { scopes: { tenant_id: 't', request_id: 'r', agent_id: 'g' } };
      await store.reserve('t', money(100), [ask('a', 20, named), ask('open', 5, named)]);
      await store.settle('t', [settlement('a', 20, named)]);
      expect(await store.catchUp('t')).toBe(0);
      sums[0] = { scope: 'tenant', microUsd: 60, tokens: 7 };
      sums[1] = { scope: 'agent:g', microUsd: 10, tokens: 0 };
      expect(await store.catchUp('t')).toBe(1);
      expect(await store.catchUp('t')).toBe(0);
      expect(await tenantOf(store)).toMatchObject({ spentMicroUsd: 60, heldMicroUsd: 5, spentTokens: 7 });
      const [, , agent] = await store.counters('t', [{ kind: 'agent', name: 'agent:g' }]);
      expect(agent).toMatchObject({ spentMicroUsd: 20, heldMicroUsd: 5 });
    });

    it('takes hundreds of calls in one message', async () => {
      const { store } = await make();
      const asks = Array.from({ length: 600 }, (_, i) =>
        ask(`c${i}`, 1, { scopes: { tenant_id: 't', request_id: `r${i}`, agent_id: `g${i % 7}` } }),
      );
      const answers = await store.reserve('t', money(500), asks);
      expect(answers.filter((answer) => answer.admitted)).toHaveLength(500);
      await store.settle(
        't',
        asks.map((one) => settlement(one.call_id, 1, { scopes: one.scopes })),
      );
      expect(await tenantOf(store)).toMatchObject({ heldMicroUsd: 0, spentMicroUsd: 600 });
    });
  });
}

conformance('memory', async (rules, ledger = () => []) => {
  const clock = new FakeClock();
  const sums = async () => ledger(`day:${epochDay(clock.now())}`);
  const store = new MemoryReservationStore(clock, { ...DEFAULT_RULES, ...rules }, sums);
  return { store, outbox: store.outbox, advance: async (ms) => void clock.advance(ms) };
});

describe('on Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = server.client();
  });
  beforeEach(async () => void (await server.flush()));
  afterAll(() => server.stop());
  conformance('redis', async (rules, ledger = () => []) => ({
    store: new RedisReservationStore(redis, { ...DEFAULT_RULES, ...rules }, async () =>
      ledger(`day:${epochDay(Date.now())}`),
    ),
    outbox: new RedisUsageOutbox(redis),
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  }));
});
