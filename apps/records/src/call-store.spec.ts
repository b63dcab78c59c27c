/** The store of calls on both databases. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import type { FinishedCall, RecordsList } from '@toolfleet/contracts/records';
import { DAY_MS, postgresDialect, sqliteDialect } from '@toolfleet/database';
import { eventually, FakeClock, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CallRetention } from './call-retention.js';
import { CallStore } from './call-store.js';

const NOON = Date.UTC(2026, 10, 21, 12);

const call = (id: string, more: Partial<FinishedCall> = {}): FinishedCall => ({
  call_id: id,
  ended_at: NOON,
  tenant_id: 'acme',
  user_id: 'ann',
  tool: 'calculator',
  door: 'http',
  origin: 'public',
  status: 'success',
  outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
  attempts: 1,
  duration_ms: 20,
  stages: { admit_ms: 1, wait_ms: 2, queue_ms: 3, execute_ms: 10, rest_ms: 4 },
  micro_usd: 1_500,
  tokens: 7,
  ...more,
});
const ids = ({ calls }: { calls: readonly { call_id: string }[] }) => calls.map(({ call_id: id }) => id);

function conformance(name: string, make: () => Promise<{ store: CallStore; reopen(): Promise<CallStore> }>): void {
  describe(`store of calls: ${name}`, () => {
    const filled = async (...calls: FinishedCall[]) => {
      const { store, reopen } = await make();
      await store.append(randomUUID(), calls, NOON);
      return { store, reopen, list: (query: Partial<RecordsList> = {}) => store.list({ limit: 100, ...query }) };
    };

    it('stores a call as it was sent, also after it was opened again', async () => {
      const sent = call('a', {
        parent_call_id: 'p',
        idempotency_key: 'k',
        status: 'system_error',
        code: 'EXECUTOR_UNAVAILABLE',
        outcomes: { transport: 'failed', protocol: 'none', tool: 'none' },
        retried: [{ attempt: 1, error: 'no answer', delay_ms: 250 }],
        source: 'mcp/crm',
      });
      const { store, reopen } = await filled(sent, ...Array.from({ length: 80 }, (_, index) => call(`b${index}`)));
      await store.close();
      const again = await reopen();
      const { calls } = await again.list({ call_id: 'a', limit: 10 });
      expect(calls).toEqual([{ ...sent, cursor: String(NOON * 1_000) }]);
      expect((await again.list({ limit: 1_000 })).calls).toHaveLength(81);
      await again.close();
    });

    it('stores any text, and refuses a batch with a call that it can never store', async () => {
      const { store, list } = await filled(call('a', { error: 'cut\0here\ud800' }));
      expect((await list()).calls).toMatchObject([{ error: 'cut\ufffdhere\ufffd' }]);
      const broken = [call('b'), { call_id: 'c' } as FinishedCall];
      const nameless = [call('b'), call('c', { user_id: null as never })];
      for (const calls of [broken, nameless])
        await expect(store.append(randomUUID(), calls, NOON)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
      expect(ids(await list())).toEqual(['a']);
      await store.close();
    });

    it('stores a batch once, however often it is delivered', async () => {
      const { store } = await make();
      const batch = randomUUID();
      const stored = await Promise.all([1, 2, 3].map(() => store.append(batch, [call('a')], NOON)));
      expect(stored.filter(Boolean)).toHaveLength(1);
      expect(ids(await store.list({ limit: 10 }))).toEqual(['a']);
      await store.close();
    });

    it('gives each call a later position, whatever the clock does', async () => {
      const { store, list } = await filled(call('a'), call('b'));
      await store.append(randomUUID(), [call('c')], NOON - 3_600_000);
      await Promise.all(['d', 'e', 'f'].map((id) => store.append(randomUUID(), [call(id)], NOON)));
      const { calls } = await list();
      expect(ids({ calls }).slice(0, 3)).toEqual(['a', 'b', 'c']);
      const positions = calls.map(({ cursor }) => Number(cursor));
      expect(new Set(positions).size).toBe(6);
      expect(positions).toEqual(positions.toSorted((a, b) => a - b));
      await store.close();
    });

    it('pages in both directions', async () => {
      const { store, list } = await filled(...Array.from({ length: 7 }, (_, index) => call(`c${index}`)));
      const last = await list({ limit: 3 });
      expect(ids(last)).toEqual(['c4', 'c5', 'c6']);
      expect(ids(await list({ limit: 3, before: last.calls[0]!.cursor }))).toEqual(['c1', 'c2', 'c3']);
      expect(ids(await list({ limit: 2, after: last.calls[0]!.cursor }))).toEqual(['c5', 'c6']);
      await store.close();
    });

    it('filters and sums', async () => {
      const { store, list } = await filled(
        call('plain'),
        call('made', { parent_call_id: 'plain', tool: 'crm_get', source: 'mcp/crm' }),
        call('slow', { duration_ms: 900, key_id: 'k1', agent_id: 'planner' }),
        call('dear', { micro_usd: 50_000, ended_at: NOON + 1_000 }),
        call('refused', { status: 'refused', code: 'RATE_LIMITED', user_id: 'bob' }),
        call('other', { tenant_id: 'globex' }),
      );
      const found = async (query: Partial<RecordsList>) => ids(await list(query));
      expect(await found({ tenant_id: 'globex' })).toEqual(['other']);
      expect(await found({ parent_call_id: 'plain' })).toEqual(['made']);
      expect(await found({ call_id: 'pl' })).toEqual(['plain']);
      expect(await found({ call_id: '%' })).toEqual([]);
      expect(await found({ tool: 'crm_get' })).toEqual(['made']);
      expect(await found({ source: 'mcp/crm' })).toEqual(['made']);
      expect(await found({ user_id: 'bob', tenant_id: 'acme' })).toEqual(['refused']);
      expect(await found({ key_id: 'k1' })).toEqual(['slow']);
      expect(await found({ agent_id: 'planner' })).toEqual(['slow']);
      expect(await found({ status: ['refused', 'tool_error'] })).toEqual(['refused']);
      expect(await found({ code: 'RATE_LIMITED' })).toEqual(['refused']);
      expect(await found({ min_duration_ms: 900 })).toEqual(['slow']);
      expect(await found({ min_micro_usd: 1_501 })).toEqual(['dear']);
      expect(await found({ from: NOON + 1 })).toEqual(['dear']);
      expect(await found({ from: NOON, to: NOON + 1, tenant_id: 'globex' })).toEqual(['other']);
      const { groups } = await list({ tenant_id: 'acme', limit: 1, group_by: ['status', 'day'] });
      const none = { failures: 0, tokens: 0, micro_usd: 0, mean_ms: 20, max_ms: 20 };
      expect(groups).toEqual({
        rows: [
          {
            ...none,
            status: 'success',
            day: '2026-11-21',
            calls: 4,
            tokens: 28,
            micro_usd: 54_500,
            mean_ms: 240,
            max_ms: 900,
          },
          { ...none, status: 'refused', day: '2026-11-21', calls: 1, failures: 1, tokens: 7, micro_usd: 1_500 },
        ],
      });
      const byKey = await list({ limit: 1, group_by: ['tenant', 'key'], tool: 'calculator' });
      expect(byKey.groups!.rows).toEqual([
        expect.objectContaining({ tenant_id: 'acme', calls: 3 }),
        expect.objectContaining({ tenant_id: 'acme', key_id: 'k1', calls: 1 }),
        expect.objectContaining({ tenant_id: 'globex', calls: 1 }),
      ]);
      await store.close();
    });

    it('searches stretch by stretch, and goes on where it stopped', async () => {
      const { store } = await make();
      const made = Array.from({ length: 12_000 }, (_, index) =>
        call(`c${index}`, {
          user_id: index % 4_000 === 0 ? 'bob' : 'ann',
          tenant_id: index % 3 === 0 ? 'acme' : 'globex',
        }),
      );
      for (let from = 0; from < made.length; from += 500)
        await store.append(randomUUID(), made.slice(from, from + 500), NOON);
      const bobs = { user_id: 'bob', limit: 10 };
      expect(ids(await store.list(bobs))).toEqual(['c0', 'c4000', 'c8000']);
      expect(await store.list({ ...bobs, group_by: ['status'], limit: 1 })).toMatchObject({
        calls: [{ call_id: 'c8000' }],
        groups: { rows: [{ calls: 3 }] },
      });
      for (const direction of ['before', 'after'] as const) {
        const found: string[] = [];
        let next = direction === 'after' ? '0' : undefined;
        for (let requests = 0; requests < 3; requests += 1) {
          const page = await store.list({ ...bobs, group_by: ['status'], [direction]: next }, () => true);
          expect(page.groups).toMatchObject({ rows: [{ calls: 1 }], since: NOON + 7 });
          found.push(...ids(page));
          ({ next } = page);
        }
        expect([found.toSorted(), next]).toEqual([['c0', 'c4000', 'c8000'], undefined]);
      }
      const all = await store.list({ tenant_id: 'acme', limit: 4_000 });
      expect([all.calls.length, (await store.list({ tenant_id: 'acme', limit: 10, before: all.next })).next]).toEqual([
        4_000,
        undefined,
      ]);
      // A turn goes through 5,000 calls of the tenant at least, which has 8,000.
      const bob = { tenantId: 'globex', userId: 'bob' };
      const first = await store.erase(bob, { dryRun: false, isOver: () => true });
      expect(first).toEqual({ rows: 1, next: expect.any(String) });
      expect(await store.erase(bob, { dryRun: false, after: first.next! })).toEqual({ rows: 1 });
      expect(ids(await store.list(bobs))).toEqual(['c0']);
      await store.close();
    });

    it('keeps calls for the days of their tenant', async () => {
      const { store } = await make();
      const days = [40, 20, 5, 0];
      for (const ago of days)
        await store.append(
          randomUUID(),
          ['acme', 'globex', 'short'].map((tenant_id) => call(`${tenant_id}${ago}`, { tenant_id })),
          NOON - ago * DAY_MS,
        );
      // The store is opened with its oldest calls first, as time passes.
      const clock = new FakeClock(NOON);
      const kept = {
        days: 10,
        of: [
          { tenantId: 'globex', days: 30 },
          { tenantId: 'short', days: 2 },
        ],
      };
      const logger = { info: () => {}, warn: (fields: object) => expect.fail(JSON.stringify(fields)) };
      const retention = new CallRetention(store, kept, { clock, logger: logger as never });
      await retention.run();
      await retention.run();
      expect(ids(await store.list({ limit: 100 }))).toEqual([
        'globex20',
        'acme5',
        'globex5',
        'acme0',
        'globex0',
        'short0',
      ]);
      await store.append(randomUUID(), [call('new')], NOON);
      await store.close();
    });

    it('erases a tenant, or a user with its keys', async () => {
      const { store, list } = await filled(
        call('own', { user_id: 'bob' }),
        call('by-key', { key_id: 'k1' }),
        call('left'),
        call('other', { tenant_id: 'globex', user_id: 'bob', key_id: 'k1' }),
      );
      const bob = { tenantId: 'acme', userId: 'bob', keyIds: ['k1'] };
      expect(await store.erase(bob, { dryRun: true })).toEqual({ rows: 2 });
      expect(await store.erase(bob, { dryRun: false })).toEqual({ rows: 2 });
      expect(ids(await list())).toEqual(['left', 'other']);
      expect(await store.erase({ tenantId: 'acme' }, { dryRun: false })).toEqual({ rows: 1 });
      expect(ids(await list())).toEqual(['other']);
      await store.close();
    });
  });
}

const opened = async (store: CallStore) => {
  await store.open();
  return store;
};

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
conformance('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-records-'));
  folders.push(folder);
  const reopen = () => opened(new CallStore(sqliteDialect(join(folder, 'records.db'))));
  return { store: await reopen(), reopen };
});

// A machine without PostgreSQL shows this suite as skipped.
describe.skipIf(!POSTGRES_PROGRAMS)('on PostgreSQL', () => {
  let server: PostgresServer;
  let databases = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());

  conformance('PostgreSQL', async () => {
    const url = await server.createDatabase(`records_${(databases += 1)}`);
    const reopen = () => opened(new CallStore(postgresDialect(url)));
    return { store: await reopen(), reopen };
  });

  it('loses no call and stores none twice when the database is killed between and during batches', async () => {
    const store = await opened(new CallStore(postgresDialect(await server.createDatabase('killed'))));
    const batches = Array.from({ length: 30 }, (_, index) => ({ id: randomUUID(), calls: [call(`c${index}`)] }));
    let refused = 0;
    // As gateways send: again until it is confirmed, whatever became of the last delivery.
    const deliver = async ({ id, calls }: (typeof batches)[number]) => {
      for (;;) {
        const done = await store.append(id, calls, NOON).then(
          () => true,
          () => false,
        );
        if (done) return;
        refused += 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    await deliver(batches[0]!);
    const delivered = Promise.all(batches.slice(1).map(deliver));
    await server.kill();
    await eventually('a batch is refused', () => refused > 0);
    await server.restart();
    await delivered;
    const { calls } = await store.list({ limit: 100 });
    expect(ids({ calls }).toSorted()).toEqual(batches.map((batch) => batch.calls[0]!.call_id).toSorted());
    await store.close();
  });
});
