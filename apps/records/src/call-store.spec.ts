/** The store of calls on both databases. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import type { FinishedCall, RecordsList } from '@toolfleet/contracts/records';
import { DAY_MS, postgresDialect, sqliteDialect } from '@toolfleet/database';
import { eventually, FakeClock, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { Kysely, type Dialect } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { callRetention } from './call-retention.js';
import { RecordedCallStore } from './call-store.js';

const NOON = Date.UTC(2026, 10, 21, 12);

const call = (id: string, more: Partial<FinishedCall> = {}): FinishedCall => ({
  call_id: id,
  ended_at: NOON,
  tenant_id: 'acme',
  user_id: 'ann',
  tool: 'calculator',
  entry_point: 'http',
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

const SEAL = 'a-records-key-for-tests-0123456789abcdef';
const SECRET = 'a-secret-argument-of-a-call';

interface Opened {
  store: RecordedCallStore;
  reopen(seal?: string): Promise<RecordedCallStore>;
  dialect(): Dialect;
}

/** Rows of bodies and of keys. */
async function keptRows(dialect: Dialect): Promise<number[]> {
  const db = new Kysely<Record<'call_body' | 'body_key', { key_id: string }>>({ dialect });
  const rows = await Promise.all(
    (['call_body', 'body_key'] as const).map((table) => db.selectFrom(table).select('key_id').execute()),
  );
  await db.destroy();
  return rows.map(({ length }) => length);
}

function conformance(name: string, make: () => Promise<Opened>): void {
  describe(`store of calls: ${name}`, () => {
    const filled = async (...calls: FinishedCall[]) => {
      const { store, reopen, dialect } = await make();
      await store.append(randomUUID(), calls, NOON);
      return {
        store,
        reopen,
        dialect,
        list: (query: Partial<RecordsList> = {}) => store.list({ limit: 100, ...query }),
      };
    };

    it('tells the facts of calls, equal ones once with their number', async () => {
      const { store } = await filled(
        call('a', { roles: ['admin'], via: 'api_key', toolset: 'support@2' }),
        call('b', { roles: ['admin'], via: 'api_key', toolset: 'support' }),
        call('c', { parent_call_id: 'a', toolset: 'support2@1', micro_usd: 7 }),
        call('d', { tenant_id: 'globex', tool: 'file_read' }),
      );
      const facts = ['tool', 'roles', 'via', 'has_parent'] as const;
      const { rows, next } = await store.facts({ tenant_id: 'acme', facts: [...facts] });
      expect(next).toBeUndefined();
      expect(rows.toSorted((one, other) => Number(other[4]) - Number(one[4]))).toEqual([
        ['calculator', ['admin'], 'api_key', false, 2, 'a'],
        ['calculator', null, null, true, 1, 'c'],
      ]);
      const each = { facts: ['micro_usd', 'ended_at'] as ('micro_usd' | 'ended_at')[], each: true };
      expect((await store.facts({ ...each, toolset: 'support' })).rows.map((row) => row[3])).toEqual(['b', 'a']);
      expect((await store.facts({ ...each, tool: 'file_read' })).rows).toEqual([[1_500, NOON, 1, 'd']]);
      await store.close();
    });

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

    it('keeps the client, and the decision of the policy with its rules', async () => {
      const decided = { client: 'claude-code/2.1', policy: 'denied' as const, policy_rules: ['a.rego:3', 'b.rego:9'] };
      const { store, list } = await filled(
        call('denied', decided),
        call('allowed', { policy: 'allowed' }),
        call('old'),
      );
      const [denied, allowed, old] = (await list()).calls;
      expect(denied).toMatchObject(decided);
      expect(allowed).toMatchObject({ policy: 'allowed' });
      for (const member of ['client', 'policy', 'policy_rules']) expect(old).not.toHaveProperty(member);
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
      expect(await found({ user_id: 'bob', tenant_id: 'acme', status: ['refused', 'cancelled'] })).toEqual(['refused']);
      expect(await found({ user_id: 'bob', tenant_id: 'acme', tool: 'crm_get' })).toEqual([]);
      expect(await found({ key_id: 'k1' })).toEqual(['slow']);
      expect(await found({ agent_id: 'planner' })).toEqual(['slow']);
      expect(await found({ status: ['refused', 'tool_error'] })).toEqual(['refused']);
      expect(await found({ code: 'RATE_LIMITED' })).toEqual(['refused']);
      expect(await found({ min_duration_ms: 900 })).toEqual(['slow']);
      expect(await found({ min_micro_usd: 1_501 })).toEqual(['dear']);
      expect(await found({ from: NOON + 1 })).toEqual(['dear']);
      expect(await found({ from: NOON, to: NOON + 1, tenant_id: 'globex' })).toEqual(['other']);
      const { groups } = await list({ tenant_id: 'acme', limit: 1, group_by: ['status', 'day'] });
      const none = { failures: 0, tokens: 0, micro_usd: 0, mean_ms: 20, p50_ms: 20, p95_ms: 20, max_ms: 20 };
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
            p95_ms: 900,
            max_ms: 900,
          },
          { ...none, status: 'refused', day: '2026-11-21', calls: 1, failures: 1, tokens: 7, micro_usd: 1_500 },
        ],
        total: {
          calls: 5,
          failures: 1,
          tokens: 35,
          micro_usd: 56_000,
          mean_ms: 196,
          p50_ms: 20,
          p95_ms: 900,
          max_ms: 900,
        },
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
          duration_ms: (index * 7) % 2_000,
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
      // Of the calls of a user, its index gives the stretches: 7,998 of ann at globex are two.
      const anns = { tenant_id: 'globex', user_id: 'ann', min_duration_ms: 1_999, limit: 10 };
      const newest = await store.list(anns, () => true);
      expect(ids(newest).length).toBeLessThan(ids(await store.list(anns)).length);
      expect(ids(await store.list({ ...anns, before: newest.next! }, () => true)).length).toBeGreaterThan(0);
      const { groups } = await store.list({ limit: 1, group_by: ['tenant'] });
      expect(groups!.total).toMatchObject({ calls: 12_000, p50_ms: 1_000, p95_ms: 1_900, max_ms: 1_999 });
      const all = await store.list({ tenant_id: 'acme', limit: 4_000 });
      expect([all.calls.length, (await store.list({ tenant_id: 'acme', limit: 10, before: all.next })).next]).toEqual([
        4_000,
        undefined,
      ]);
      // A turn goes through 5,000 calls of the tenant's 8,000 at least.
      const bob = { tenantId: 'globex', userId: 'bob' };
      const first = await store.erase(bob, { dryRun: false, isOver: () => true });
      expect(first).toEqual({ rows: 1, keys: 0, next: expect.any(String) });
      expect(await store.erase(bob, { dryRun: false, after: first.next! })).toEqual({ rows: 1, keys: 0 });
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
        deliveryDays: 14,
        of: [
          { tenantId: 'globex', days: 30 },
          { tenantId: 'short', days: 2 },
        ],
      };
      const logger = { info: () => {}, warn: (fields: object) => expect.fail(JSON.stringify(fields)) };
      const retention = callRetention(store, kept, { clock, logger: logger as never });
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

    describe('arguments and results', () => {
      const body = { arguments: { text: SECRET }, result: { output: 42 } };
      const withBody = (id: string, more: Partial<FinishedCall> = {}) => call(id, { body, body_bytes: 60, ...more });
      const read = (store: RecordedCallStore, tenant_id: string, call_id: string) =>
        store.bodies.read({ tenant_id, call_id }, NOON);

      it('are read by tenant and call, and rows say their size', async () => {
        const { store, reopen, list } = await filled(withBody('a'), call('b'), withBody('g', { tenant_id: 'globex' }));
        await store.append(randomUUID(), [withBody('a', { body: { result: { text: 'again' } } })], NOON + 1);
        expect((await list()).calls.map(({ body_bytes: bytes }) => bytes)).toEqual([60, undefined, 60, 60]);
        expect(await read(store, 'acme', 'a')).toEqual({ body: { result: { text: 'again' } }, readings: [] });
        expect(await read(store, 'globex', 'g')).toEqual({ body, readings: [] });
        for (const [tenant, id] of [
          ['acme', 'b'],
          ['acme', 'g'],
          ['globex', 'a'],
          ['acme', 'none'],
        ] as const)
          expect(await read(store, tenant, id)).toEqual({ readings: [] });
        await store.close();
        const other = await reopen('another-records-key-for-tests-0123456789');
        expect(await read(other, 'acme', 'a')).toEqual({ readings: [], is_unreadable: true });
        // It seals with a key that it can open.
        await other.append(randomUUID(), [withBody('new')], NOON + 2);
        expect(await read(other, 'acme', 'new')).toEqual({ body, readings: [] });
        await other.close();
      });

      it('are stored with the reading of another than their maker', async () => {
        const { store } = await filled(withBody('a'));
        const reader = { tenant_id: 'acme', user_id: 'audrey', key_id: 'k9' };
        const asked = await store.bodies.read({ tenant_id: 'acme', call_id: 'a', reader }, NOON + 5);
        expect(asked).toEqual({ body, readings: [] });
        expect((await read(store, 'acme', 'a')).readings).toEqual([{ ...reader, at: NOON + 5 }]);
        await store.erase({ tenantId: 'acme', userId: 'audrey' }, { dryRun: false });
        expect(await read(store, 'acme', 'a')).toEqual({ body, readings: [] });
        await store.close();
      });

      it('end with their calls, and with the key of their tenant', async () => {
        const { store, list, dialect } = await filled(
          withBody('bobs', { user_id: 'bob' }),
          withBody('anns'),
          withBody('other', { tenant_id: 'globex' }),
        );
        await store.erase({ tenantId: 'acme', userId: 'bob' }, { dryRun: false });
        expect(await keptRows(dialect())).toEqual([2, 2]);
        expect(await store.erase({ tenantId: 'acme' }, { dryRun: true })).toEqual({ rows: 1, keys: 1 });
        // Nothing can be read once the key is deleted, before the first row is.
        await store.bodies.eraseOwner({ tenantId: 'acme' }, false);
        expect(await read(store, 'acme', 'anns')).toEqual({ readings: [] });
        await store.erase({ tenantId: 'acme' }, { dryRun: false });
        expect(await keptRows(dialect())).toEqual([1, 1]);
        expect(ids(await list())).toEqual(['other']);
        expect((await read(store, 'globex', 'other')).body).toEqual(body);
        await store.dropBefore(NOON + DAY_MS);
        await store.eraseBefore(NOON + DAY_MS, { except: [] });
        expect(await keptRows(dialect())).toEqual([0, 1]);
        await store.close();
      });
    });

    it('erases a tenant, or a user with its keys', async () => {
      const { store, list } = await filled(
        call('own', { user_id: 'bob' }),
        call('by-key', { key_id: 'k1' }),
        call('left'),
        call('other', { tenant_id: 'globex', user_id: 'bob', key_id: 'k1' }),
      );
      const bob = { tenantId: 'acme', userId: 'bob', keyIds: ['k1'] };
      expect(await store.erase(bob, { dryRun: true })).toEqual({ rows: 2, keys: 0 });
      expect(await store.erase(bob, { dryRun: false })).toEqual({ rows: 2, keys: 0 });
      expect(ids(await list())).toEqual(['left', 'other']);
      expect(await store.erase({ tenantId: 'acme' }, { dryRun: false })).toEqual({ rows: 1, keys: 0 });
      expect(ids(await list())).toEqual(['other']);
      await store.close();
    });
  });
}

const opened = async (store: RecordedCallStore) => {
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
  const dialect = () => sqliteDialect(join(folder, 'records.db'));
  const reopen = (seal = SEAL) => opened(new RecordedCallStore(dialect(), seal));
  return { store: await reopen(), reopen, dialect };
});

it('keeps no text of a body in its files, and nothing without a secret key', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-records-'));
  folders.push(folder);
  const file = join(folder, 'records.db');
  for (const seal of [SEAL, undefined]) {
    const store = await opened(new RecordedCallStore(sqliteDialect(file), seal));
    const body = { arguments: { text: SECRET } };
    await store.append(randomUUID(), [call(`id-of-${seal ? 'sealed' : 'open'}`, { body, body_bytes: 40 })], NOON);
    await store.close();
  }
  const bytes = Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
  expect([bytes.includes('id-of-sealed'), bytes.includes(SECRET)]).toEqual([true, false]);
  const store = await opened(new RecordedCallStore(sqliteDialect(file), SEAL));
  expect((await store.list({ limit: 9 })).calls.map((one) => one.body_bytes)).toEqual([40, undefined]);
  await store.close();
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
    const dialect = () => postgresDialect(url);
    const reopen = (seal = SEAL) => opened(new RecordedCallStore(dialect(), seal));
    return { store: await reopen(), reopen, dialect };
  });

  it('loses no call and stores none twice when the database is killed between and during batches', async () => {
    const store = await opened(new RecordedCallStore(postgresDialect(await server.createDatabase('killed'))));
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
