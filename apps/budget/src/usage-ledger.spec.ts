import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { Kysely, type Dialect } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate, postgresDialect, sqliteDialect, type Migration, epochDay } from '@toolfleet/database';
import { LEDGER_MIGRATIONS } from './ledger-tables.js';
import { UsageLedger } from './usage-ledger.js';
import type { LedgerRow } from './usage-ledger.js';

const NOON = Date.UTC(2026, 10, 21, 12);
const HOUR = 3_600_000;

const row = (callId: string, more: Partial<LedgerRow> = {}): LedgerRow => ({
  call_id: callId,
  tenant_id: 'acme',
  user_id: 'ann',
  tool_name: 'calculator',
  tokens: 100,
  real_tokens: 40,
  micro_usd: 10,
  success: true,
  provenance: 'live',
  at: NOON,
  kind: 'settled',
  charged_at: NOON,
  ...more,
});

/** What a later release may do to the tables. */
const NEWER: Migration = {
  async up(db) {
    await db.schema.alterTable('token_usage').addColumn('added', 'text').execute();
    await db.schema
      .alterTable('usage_daily')
      .addColumn('added', 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
    await db.schema.createTable('added').addColumn('name', 'text').execute();
  },
};

function conformance(
  name: string,
  make: () => Promise<{ store: UsageLedger; dialect(): Dialect; reopen(): Promise<UsageLedger> }>,
): void {
  describe(`usage store: ${name}`, () => {
    it('writes a call once, however often it is delivered', async () => {
      const { store } = await make();
      await Promise.all([store.append([row('a'), row('b')]), store.append([row('a')])]);
      await store.append([row('a', { micro_usd: 999 }), row('a', { tenant_id: 'other' })]);
      expect(await store.sums({ tenant_id: 'acme', group_by: [] })).toEqual([{ calls: 2, tokens: 80, micro_usd: 20 }]);
      await store.close();
    });

    it('keeps what many tenants append at once, but for rows that the database refuses', async () => {
      const { store } = await make();
      const appends = Array.from({ length: 40 }, (_, index) => {
        const micro_usd = index === 20 ? Number.NaN : 10;
        return store.append([row(`call-${index}`, { tenant_id: `tenant-${index}`, micro_usd })]);
      });
      const refused = (await Promise.allSettled(appends)).flatMap(({ status }, index) =>
        status === 'rejected' ? index : [],
      );
      expect(refused).toEqual([20]);
      expect(await store.sums({ group_by: ['tenant'] })).toHaveLength(39);
      await store.close();
    });

    it('sums by day, tool, source, user, key, agent and tenant, in the order of the groups', async () => {
      const { store } = await make();
      await store.append([
        row('a'),
        row('b', { tool_name: 'web_search', micro_usd: 4_000, tokens: 2_000, real_tokens: 1_500 }),
        row('c', { user_id: 'bob', agent_id: 'planner', charged_at: NOON + 13 * HOUR }),
        row('d', { tenant_id: 'zeta' }),
      ]);
      expect(await store.sums({ tenant_id: 'acme', group_by: ['day', 'tool'] })).toEqual([
        { day: '2026-11-21', tool_name: 'calculator', calls: 1, tokens: 40, micro_usd: 10 },
        { day: '2026-11-21', tool_name: 'web_search', calls: 1, tokens: 1_500, micro_usd: 4_000 },
        { day: '2026-11-22', tool_name: 'calculator', calls: 1, tokens: 40, micro_usd: 10 },
      ]);
      expect(await store.sums({ tenant_id: 'acme', group_by: ['user'], tool_name: 'calculator' })).toEqual([
        { user_id: 'ann', calls: 1, tokens: 40, micro_usd: 10 },
        { user_id: 'bob', calls: 1, tokens: 40, micro_usd: 10 },
      ]);
      expect(
        (await store.sums({ tenant_id: 'acme', group_by: ['agent'], owner: { user_id: 'bob' } }))[0]?.agent_id,
      ).toBe('planner');
      await store.append([
        row('e', { tenant_id: 'keyed', key_id: 'k1', source: 'mcp/crm' }),
        row('f', { tenant_id: 'keyed' }),
      ]);
      expect(await store.sums({ tenant_id: 'keyed', group_by: ['key', 'source'] })).toEqual(
        expect.arrayContaining([
          { key_id: 'k1', source: 'mcp/crm', calls: 1, tokens: 40, micro_usd: 10 },
          { calls: 1, tokens: 40, micro_usd: 10 },
        ]),
      );
      await store.pseudonymise({ tenantId: 'keyed' }, 'purged-1', () => false);
      expect(await store.sums({ tenant_id: 'purged-1', group_by: ['key'] })).toEqual([
        { calls: 2, tokens: 80, micro_usd: 20 },
      ]);
      expect(await store.sums({ group_by: ['tenant'], to_at: NOON + 1 })).toEqual([
        { tenant_id: 'acme', calls: 2, tokens: 1_540, micro_usd: 4_010 },
        { tenant_id: 'purged-1', calls: 2, tokens: 80, micro_usd: 20 },
        { tenant_id: 'zeta', calls: 1, tokens: 40, micro_usd: 10 },
      ]);
      expect(await store.sums({ tenant_id: 'acme', group_by: [], from_at: NOON + HOUR })).toEqual([
        { calls: 1, tokens: 40, micro_usd: 10 },
      ]);
      expect(await store.sums({ tenant_id: 'nobody', group_by: ['day'] })).toEqual([]);
      await store.close();
    });

    it('reports the spending of a tenant, so that a lost gate can be rebuilt', async () => {
      const { store } = await make();
      await store.append([
        row('old', { micro_usd: 5, real_tokens: 5, agent_id: 'g', charged_at: NOON - 30 * HOUR }),
        row('a', { micro_usd: 7, real_tokens: 70, agent_id: 'g', task_id: 'k', request_id: 'r' }),
        row('b', { micro_usd: 3, request_id: 'b' }),
      ]);
      const sums = await store.spentSince('acme', NOON, NOON - 24 * HOUR);
      expect(Object.fromEntries(sums.map((sum) => [sum.scope, [sum.microUsd, sum.tokens]]))).toEqual({
        tenant: [15, 115],
        [`day:${epochDay(NOON)}`]: [10, 110],
        'request:r': [7, 70],
        'agent:g': [7, 70],
        'task:k': [7, 70],
      });
      await store.close();
    });

    it('replaces old days by sums that reports and limits still count', async () => {
      const { store, reopen } = await make();
      const day = 24 * HOUR;
      const rows = [
        ...Array.from({ length: 3 }, (_, i) => row(`old${i}`, { charged_at: NOON - 9 * day, real_tokens: 7 })),
        row('slice', { charged_at: NOON - 9 * day, parent_call_id: 'old0' }),
        row('agent', {
          charged_at: NOON - 9 * day,
          agent_id: 'planner',
          user_id: 'bob',
          key_id: 'k1',
          source: 'mcp/crm',
        }),
        row('next', { charged_at: NOON - 8 * day }),
        row('kept', { charged_at: NOON - 7 * day }),
        row('now'),
      ];
      await store.append(rows);
      const reports = async (from: UsageLedger) => [
        await from.sums({ tenant_id: 'acme', group_by: ['day', 'tool', 'source', 'user', 'key', 'agent'] }),
        await from.sums({ group_by: ['tenant'], to_at: NOON - 6 * day }),
        await from.spentSince('acme', NOON, NOON - day),
      ];
      const before = await reports(store);
      expect(await store.rollUpBefore(NOON - 7 * day)).toBe(6);
      expect(await reports(store)).toEqual(before);
      expect(await store.rollUpBefore(NOON - 7 * day)).toBe(0);
      // Rows of a day that is gone may still arrive from the outbox, after a restart as well.
      await store.append([row('late', { charged_at: NOON - 9 * day })]);
      await store.close();
      const again = await reopen();
      await again.append([row('kept', { charged_at: NOON - 7 * day }), row('later', { charged_at: NOON - 9 * day })]);
      expect(await again.rollUpBefore(NOON - 7 * day)).toBe(2);
      expect(await again.sums({ tenant_id: 'acme', group_by: [] })).toEqual([
        { calls: 9, tokens: 301, micro_usd: 100 },
      ]);
      await again.close();
    });

    it('holds sums beyond 32 bits and long batches', async () => {
      const { store } = await make();
      await store.append(Array.from({ length: 1_200 }, (_, i) => row(`c${i}`, { micro_usd: 5_000_000_000 })));
      expect((await store.sums({ tenant_id: 'acme', group_by: [] }))[0]).toEqual({
        calls: 1_200,
        tokens: 48_000,
        micro_usd: 6_000_000_000_000,
      });
      await store.close();
    });

    it('opens again where it left off', async () => {
      const { store, reopen } = await make();
      await store.append([row('a')]);
      await store.close();
      const again = await reopen();
      await again.append([row('a'), row('b')]);
      expect((await again.sums({ tenant_id: 'acme', group_by: [] }))[0]?.calls).toBe(2);
      await again.close();
    });

    it('works after a rollback from a release with more migrations', async () => {
      const { store, reopen, dialect } = await make();
      const day = 24 * HOUR;
      await store.append([row('old', { charged_at: NOON - 9 * day }), row('a')]);
      await store.close();
      const newer = new Kysely<unknown>({ dialect: dialect() });
      await migrate(newer, {
        ...LEDGER_MIGRATIONS,
        all: { ...LEDGER_MIGRATIONS.all, '9001-newer': NEWER, '9002-newest': { up: async () => undefined } },
      });
      await newer.destroy();
      const again = await reopen();
      await again.append([row('a'), row('b'), row('next', { charged_at: NOON + day })]);
      expect(await again.rollUpBefore(NOON - 5 * day)).toBe(1);
      expect((await again.sums({ group_by: [] }))[0]?.calls).toBe(4);
      await again.close();
      await (await reopen()).close();
    });

    it('refuses a ledger that needs a newer release, and changes nothing', async () => {
      const { store, reopen, dialect } = await make();
      await store.append([row('a')]);
      await store.close();
      const migrations = {
        ...LEDGER_MIGRATIONS.all,
        '9001-newer': NEWER,
        '9002-breaks': { ...NEWER, needsRelease: '0.4.0' },
      };
      const newer = () => new Kysely<unknown>({ dialect: dialect() });
      const failing = newer();
      // The second one adds existing rows.
      await expect(migrate(failing, { ...LEDGER_MIGRATIONS, all: migrations })).rejects.toThrow(/added/);
      await failing.destroy();
      await (await reopen()).close();
      migrations['9002-breaks'].up = async () => undefined;
      const breaking = newer();
      await migrate(breaking, { ...LEDGER_MIGRATIONS, all: migrations });
      await migrate(breaking, { ...LEDGER_MIGRATIONS, all: migrations }); // knows it
      await breaking.destroy();
      await expect(reopen()).rejects.toThrow(
        'the ledger needs release 0.4.0 or newer (migration 9002-breaks); start that release, or restore a backup from before its upgrade',
      );
      await expect(reopen()).rejects.toHaveProperty('startRefused', true);
    });

    it('is migrated once by replicas that start together', async () => {
      const { store, dialect } = await make();
      await store.close();
      let runs = 0;
      const up = async () => void (runs += 1);
      const replicas = Array.from(
        { length: name === 'SQLite' ? 1 : 3 },
        () => new Kysely<unknown>({ dialect: dialect() }),
      );
      await Promise.all(
        replicas.map((db) =>
          migrate(db, { ...LEDGER_MIGRATIONS, all: { ...LEDGER_MIGRATIONS.all, '9001-slow': { up } } }),
        ),
      );
      await Promise.all(replicas.map((db) => db.destroy()));
      expect(runs).toBe(1);
    });
  });
}

const opened = async (store: UsageLedger): Promise<UsageLedger> => {
  try {
    await store.open();
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
};

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
conformance('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-ledger-'));
  folders.push(folder);
  const dialect = () => sqliteDialect(join(folder, 'deep', 'ledger.db'));
  const reopen = () => opened(new UsageLedger(dialect()));
  return { store: await reopen(), dialect, reopen };
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
    const url = await server.createDatabase(`ledger_${(databases += 1)}`);
    const dialect = () => postgresDialect(url);
    const reopen = () => opened(new UsageLedger(dialect()));
    return { store: await reopen(), dialect, reopen };
  });
});
