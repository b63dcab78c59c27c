import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Kysely, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sqliteDialect } from './sqlite.js';

describe('the embedded SQLite', () => {
  let folder: string;
  const opened: Kysely<Record<string, never>>[] = [];
  const open = (file: string) => {
    const db = new Kysely<Record<string, never>>({ dialect: sqliteDialect(file) });
    opened.push(db);
    return db;
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'toolfleet-sqlite-'));
  });
  afterAll(async () => {
    await Promise.all(opened.map((db) => db.destroy()));
    await rm(folder, { recursive: true, force: true });
  });

  it('runs a long statement while the process goes on', async () => {
    const db = open(':memory:');
    const counted = sql<{ n: number }>`
      with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 300000)
      select count(*) as n from numbers`.execute(db);
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    turn();
    expect((await counted).rows).toEqual([{ n: 300_000 }]);
    isOver = true;
    expect(turns).toBeGreaterThan(10);
  });

  it('runs statements of a transaction without others between them', async () => {
    const db = open(join(folder, 'deep', 'one.db'));
    await sql`create table item (name text unique)`.execute(db);
    const failed = db.transaction().execute(async (tx) => {
      await sql`insert into item values ('a')`.execute(tx);
      await sql`insert into item values ('a')`.execute(tx);
    });
    const beside = sql`insert into item values ('b')`.execute(db);
    await expect(failed).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_UNIQUE' });
    expect((await beside).numAffectedRows).toBe(1n);
    expect((await sql`select name from item`.execute(db)).rows).toEqual([{ name: 'b' }]);
  });

  it('answers a statement that runs while the database is closed', async () => {
    const db = open(join(folder, 'closed.db'));
    await sql`create table item (name text)`.execute(db);
    const inserted = sql`insert into item values ('a')`.execute(db);
    await db.destroy();
    expect((await inserted).numAffectedRows).toBe(1n);
    const again = open(join(folder, 'closed.db'));
    expect((await sql`select name from item`.execute(again)).rows).toEqual([{ name: 'a' }]);
  });

  it('keeps the code and the class of errors', async () => {
    const notOpened = sql`select 1`.execute(open(folder));
    await expect(notOpened).rejects.toMatchObject({ code: 'SQLITE_CANTOPEN' });
    await expect(sql`select ${Symbol('x')}`.execute(open(':memory:'))).rejects.toThrow();
    await expect(sql`select ${{ a: 1 }} as a`.execute(open(':memory:'))).resolves.toMatchObject({
      rows: [{ a: '{"a":1}' }],
    });
  });

  it('moves binary values without what shares their memory', async () => {
    const db = open(':memory:');
    const whole = Buffer.from('0123456789');
    const { rows } = await sql<{ part: Uint8Array }>`select ${whole.subarray(2, 5)} as part`.execute(db);
    expect(Buffer.from(rows[0]!.part).toString()).toBe('234');
    expect(whole.toString()).toBe('0123456789');
  });
});
