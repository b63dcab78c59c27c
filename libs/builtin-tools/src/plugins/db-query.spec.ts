import { mkdtemp, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import type { BuiltinTool } from '../builtin-tool.js';
import { runTool } from '../run-tool.fixture.js';
import { PluginFolder } from './plugin-folder.js';

const examples = join(import.meta.dirname, '../../../../docs/examples/plugins');
let tool: BuiltinTool;
let folder: string;
const before = process.env['DB_QUERY_URL'];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-db-'));
  const database = new DatabaseSync(join(folder, 'shop.db'));
  database.exec(
    `CREATE TABLE parcels (id INTEGER, city TEXT); INSERT INTO parcels SELECT value, 'City ' || (value % 3) FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 500) SELECT value FROM n)`,
  );
  database.close();
  const { added, faults } = await new PluginFolder(examples, new Set()).look();
  expect(faults).toEqual([]);
  tool = added.find((one) => one.metadata.name === 'db_query') as BuiltinTool;
  process.env['DB_QUERY_URL'] = `sqlite:${folder}/{project}.db`;
});
afterAll(async () => {
  if (before === undefined) delete process.env['DB_QUERY_URL'];
  else process.env['DB_QUERY_URL'] = before;
  await rm(folder, { recursive: true, force: true });
});

const query = async (sql: string, params: JsonObject[string][] = [], project = 'shop') =>
  (await runTool(tool, { sql, params }, { context: { project_id: project } })).output as {
    rows: JsonObject[];
    count: number;
    more: boolean;
  };
const faultOf = async (pending: Promise<unknown>) => {
  const fault = await pending.catch((error: unknown) => error);
  expect(isToolError(fault)).toBe(true);
  return (fault as Error).message;
};

describe('db_query, the example plugin, on SQLite', () => {
  it('reads rows, with parameters, capped', async () => {
    expect(await query('SELECT id, city FROM parcels WHERE id = ?', [7])).toEqual({
      rows: [{ id: 7, city: 'City 1' }],
      count: 1,
      more: false,
    });
    expect(await query('SELECT city, count(*) AS n FROM parcels GROUP BY city ORDER BY city;')).toMatchObject({
      count: 3,
    });
    expect(await query("-- all\nWITH x AS (SELECT * FROM parcels) SELECT ';' AS a, id FROM x")).toMatchObject({
      count: 200,
      more: true,
    });
  });

  it.each([
    ['DROP TABLE parcels', 'Only SELECT queries allowed'],
    ['INSERT INTO parcels VALUES (1, 2)', 'Only SELECT queries allowed'],
    ['PRAGMA writable_schema = 1', 'Only SELECT queries allowed'],
    ["ATTACH 'other.db' AS o", 'Only SELECT queries allowed'],
    ['/* SELECT */ DELETE FROM parcels', 'Only SELECT queries allowed'],
    ['SELECT 1; DROP TABLE parcels', 'Only one statement allowed'],
    ["SELECT ';'; DROP TABLE parcels", 'Only one statement allowed'],
    ['SELECT 1; -- x\n DROP TABLE parcels', 'Only one statement allowed'],
  ])('refuses %s', async (sql, message) => {
    expect(await faultOf(query(sql))).toBe(message);
  });

  it('cannot write even where the text passes', async () => {
    expect(await faultOf(query('WITH x AS (SELECT 1) DELETE FROM parcels'))).toMatch(/readonly/);
    expect(await faultOf(query('WITH x AS (SELECT 1) INSERT INTO parcels SELECT 1, 2'))).toMatch(/readonly/);
    expect((await query('SELECT count(*) AS n FROM parcels')).rows).toEqual([{ n: 500 }]);
  });

  it('tells faults of the query, and reads no other project', async () => {
    expect(await faultOf(query('SELECT missing_column FROM parcels'))).toMatch(/no such column: missing_column/);
    expect(await faultOf(query('SELECT 1', [], 'other'))).toMatch(/unable to open/);
    expect(await faultOf(query('SELECT 1', [], '../shop'))).toMatch(/DB_QUERY_URL/);
  });

  it('stops a query without end when the caller goes away', async () => {
    const endless = 'WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n';
    const caller = new AbortController();
    const pending = runTool(tool, { sql: endless }, { context: { project_id: 'shop' }, signal: caller.signal });
    setTimeout(() => caller.abort(new Error('gone')), 300);
    await expect(pending).rejects.toThrow('gone');
  });
});
