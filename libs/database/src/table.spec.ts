import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { Kysely, sql, type Dialect } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isPostgres, postgresDialect } from './dialects.js';
import { sqliteDialect } from './sqlite.js';
import { migrate, type Migrations } from './migrate.js';
import { erase, eraseIds, newestFirst, ofOwner, ofTenants } from './rows.js';
import { bytes, createTables, each, flag, integer, json, maybe, real, serial, table, text } from './table.js';
import type { TablesOf } from './table.js';

const item = table(
  'item',
  {
    id: text,
    ...each(text, 'tenant_id', 'user_id'),
    ...each(maybe(text), 'key_id', 'note'),
    at: integer,
    price: real,
    isOpen: flag,
    wasOpen: maybe(flag),
    tags: json<string[]>(),
    more: maybe(json<{ [name: string]: unknown }>()),
    sealed: bytes,
  },
  {
    partitionBy: 'at',
    indexes: { open: { on: ['at'], where: "note <> 'x'" }, one: { on: ['id', 'at'], unique: true } },
  },
);
const numbered = table('numbered', { position: serial, name: text });
const TABLES = { item, numbered };
const MIGRATIONS: Migrations = {
  name: 'the store of items',
  table: 'item_migration',
  all: {
    '0.1.0': {
      up: async (db) => {
        await createTables(db, Object.values(TABLES));
        if (isPostgres(db)) await sql`create table item_all partition of item default`.execute(db);
      },
    },
  },
};

function onDatabase(name: string, open: () => Promise<Dialect>): void {
  describe(`tables: ${name}`, () => {
    let db: Kysely<TablesOf<typeof TABLES>>;
    afterEach(() => db.destroy());
    const made = async () => {
      db = new Kysely({ dialect: await open() });
      await migrate(db, MIGRATIONS);
      return db;
    };
    const row = {
      ...{ id: 'a', tenant_id: 'acme', user_id: 'ann', at: 1_700_000_000_000_123, price: 0.1 },
      ...{ isOpen: true, tags: ['x', 'ü'], sealed: Buffer.from([0, 255]) },
    };

    it('give back the values that were stored, and no member for null', async () => {
      const items = await made();
      await items.insertInto('item').values(row).execute();
      const full = { ...row, id: 'b', key_id: 'k', note: 'a\0b', wasOpen: false, more: { a: null, list: [1, '2'] } };
      await items.insertInto('item').values(full).execute();
      const [one, two] = await items.selectFrom('item').selectAll().orderBy('id').execute();
      expect(one).toEqual(row);
      expect(Object.keys(one!)).toHaveLength(Object.keys(row).length);
      expect(two).toEqual({ ...full, note: 'a\uFFFDb' });
      await items.updateTable('item').set({ note: null, isOpen: false }).where('wasOpen', '=', false).execute();
      const changed = await items.selectFrom('item').selectAll().where('isOpen', '=', false).execute();
      expect(changed).toEqual([{ ...two, note: undefined, isOpen: false }]);
      const { count } = await items
        .selectFrom('item')
        .select((of) => of.fn.countAll().as('count'))
        .executeTakeFirstOrThrow();
      expect(count).toBe(2);
      const numbers = items
        .insertInto('numbered')
        .values([{ name: 'x' }, { name: 'y' }])
        .returningAll();
      expect(await numbers.execute()).toEqual([
        { position: 1, name: 'x' },
        { position: 2, name: 'y' },
      ]);
    });

    it('are read page by page, and erased by owner, retention and id', async () => {
      const items = await made();
      for (const [at, id] of [...'cabed'].entries())
        await items
          .insertInto('item')
          .values({ ...row, id, at: Math.floor(at / 2), user_id: id, key_id: `k${id}` })
          .execute();
      const seen: string[] = [];
      for (let before: string | undefined, more = true; more;) {
        const page = await newestFirst(items.selectFrom('item').selectAll(), ['at', 'id'], { before, limit: 2 });
        seen.push(...page.rows.map(({ id }) => id));
        [before, more] = [page.next, page.next !== undefined];
      }
      expect(seen).toEqual(['d', 'e', 'b', 'c', 'a']);
      const isAnn = ofOwner({ tenantId: 'acme', userId: 'a', keyIds: ['kb'] });
      expect([await erase(items, 'item', isAnn, true), await erase(items, 'item', isAnn)]).toEqual([2, 2]);
      expect(await erase(items, 'item', ofTenants({ except: ['acme'] }), true)).toBe(0);
      expect(await erase(items, 'item', ofTenants({ except: [] }), true)).toBe(3);
      await eraseIds(items, ['item'], 'id', ['c', 'd']);
      expect(await erase(items, 'item', ofTenants({ only: 'acme' }))).toBe(1);
    });

    it('of an unreleased build are refused, with the command that starts anew', async () => {
      const items = await made();
      await sql`update item_migration set name = '0001-items'`.execute(items);
      await expect(migrate(items, MIGRATIONS)).rejects.toThrow(
        /^the store of items was made by an unreleased build \(migration 0001-items\) and cannot be read; start anew: mv \.toolfleet \.toolfleet\.old && npm start/,
      );
    });
  });
}

onDatabase('SQLite', async () => sqliteDialect(':memory:'));

describe.skipIf(!POSTGRES_PROGRAMS)('on PostgreSQL (needs postgres)', () => {
  let server: PostgresServer;
  let databases = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  onDatabase('PostgreSQL', async () => postgresDialect(await server.createDatabase(`items${(databases += 1)}`)));
});
