import { mkdtemp, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import type { BuiltinTool } from '../builtin-tool.js';
import { runTool } from '../../spec/run-tool.fixture.js';
import { readTools } from './plugin-api.js';
import { PluginFolder } from './plugin-folder.js';

const examples = join(import.meta.dirname, '../../../../docs/examples/plugins');
let tool: BuiltinTool;
let folder: string;
/** What the queries of these tests may last; set before the plugin is loaded and reads it once. */
const TIMEOUT_MS = 1_500;
const before = process.env['DB_QUERY_URL'];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-db-'));
  const database = new DatabaseSync(join(folder, 'shop.db'));
  database.exec(
    `CREATE TABLE parcels (id INTEGER, city TEXT); INSERT INTO parcels SELECT value, 'City ' || (value % 3) FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 500) SELECT value FROM n)`,
  );
  database.close();
  process.env['DB_QUERY_TIMEOUT_MS'] = String(TIMEOUT_MS);
  const { added, faults } = await new PluginFolder(examples, new Set(), { tools: readTools }).look();
  expect(faults).toEqual([]);
  tool = added.find((one) => one.metadata.name === 'db_query') as BuiltinTool;
});
afterAll(async () => {
  if (before === undefined) delete process.env['DB_QUERY_URL'];
  else process.env['DB_QUERY_URL'] = before;
  delete process.env['DB_QUERY_TIMEOUT_MS'];
  await rm(folder, { recursive: true, force: true });
});

const query = async (sql: string, params: JsonObject[string][] = [], project = 'shop') =>
  (await runTool(tool, { sql, params }, { context: { project_id: project } })).output as {
    rows: JsonObject[];
    count: number;
    more: boolean;
  };
const catchToolError = async (pending: Promise<unknown>) => {
  const fault = await pending.catch((error: unknown) => error);
  expect(isToolError(fault)).toBe(true);
  return (fault as Error).message;
};

describe('db_query, the example plugin, on SQLite', () => {
  beforeAll(() => {
    process.env['DB_QUERY_URL'] = `sqlite:${folder}/{project}.db`;
  });

  it('reads rows with parameters, up to a limit', async () => {
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
    expect(await catchToolError(query(sql))).toBe(message);
  });

  it('cannot write even if the text passes the check', async () => {
    expect(await catchToolError(query('WITH x AS (SELECT 1) DELETE FROM parcels'))).toMatch(/readonly/);
    expect(await catchToolError(query('WITH x AS (SELECT 1) INSERT INTO parcels SELECT 1, 2'))).toMatch(/readonly/);
    expect((await query('SELECT count(*) AS n FROM parcels')).rows).toEqual([{ n: 500 }]);
  });

  it('reports errors of the query, and reads no other project', async () => {
    expect(await catchToolError(query('SELECT missing_column FROM parcels'))).toMatch(/no such column: missing_column/);
    expect(await catchToolError(query('SELECT 1', [], 'other'))).toMatch(/unable to open/);
    expect(await catchToolError(query('SELECT 1', [], '../shop'))).toMatch(/DB_QUERY_URL/);
  });

  it('stops an endless query when the caller cancels', async () => {
    const endless = 'WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT count(*) FROM n';
    const caller = new AbortController();
    const pending = runTool(tool, { sql: endless }, { context: { project_id: 'shop' }, signal: caller.signal });
    setTimeout(() => caller.abort(new Error('gone')), 300);
    await expect(pending).rejects.toThrow('gone');
  });
});

// A machine without PostgreSQL shows this suite as skipped.
describe.skipIf(!POSTGRES_PROGRAMS)('db_query on PostgreSQL, with a user that may read', () => {
  let server: PostgresServer;
  let owner: pg.Client;
  const statements = async () =>
    (await owner.query(`SELECT pid FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'`)).rowCount;

  beforeAll(async () => {
    server = await startPostgres();
    owner = new pg.Client({ connectionString: await server.createDatabase('shop') });
    await owner.connect();
    await owner.query(`CREATE TABLE parcels (id bigint, city text, weight numeric, sent date);
      INSERT INTO parcels SELECT n, 'City ' || n % 3, n * 1.5, '2026-03-01' FROM generate_series(1, 500) AS n;
      CREATE TABLE salaries (amount integer);
      CREATE SEQUENCE numbers;
      CREATE FUNCTION send_off() RETURNS integer LANGUAGE sql AS 'DELETE FROM parcels RETURNING 1';
      CREATE ROLE reader LOGIN; GRANT SELECT ON parcels TO reader; GRANT ALL ON SEQUENCE numbers TO reader`);
    process.env['DB_QUERY_URL'] = server.url('{project}', 'reader');
  });
  afterAll(async () => {
    await owner?.end();
    await server?.stop();
  });

  it('reads rows with parameters, up to a limit', async () => {
    const { rows } = await query('SELECT id, city, weight, sent::text FROM parcels WHERE id = $1 AND city = $2', [
      7,
      'City 1',
    ]);
    expect(rows).toEqual([{ id: '7', city: 'City 1', weight: '10.5', sent: '2026-03-01' }]);
    expect(await query('SELECT city, count(*)::int AS n FROM parcels GROUP BY city ORDER BY city;')).toMatchObject({
      rows: [
        { city: 'City 0', n: 166 },
        { city: 'City 1', n: 167 },
        { city: 'City 2', n: 167 },
      ],
    });
    expect(
      await query(`-- all\nWITH x AS (SELECT $$;$$ AS a, ';' AS b, id FROM parcels) SELECT * FROM x`),
    ).toMatchObject({
      count: 200,
      more: true,
    });
    expect(await query('VALUES (1), (2)')).toMatchObject({ count: 2, more: false });
  });

  it('reads no more of an endless result than it returns', async () => {
    const { count, more } = await query(
      'WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n) SELECT v FROM n',
    );
    expect([count, more]).toEqual([200, true]);
  });

  it.each([
    ['WITH gone AS (DELETE FROM parcels RETURNING *) SELECT * FROM gone', /must not contain data-modifying/],
    ['SELECT send_off()', /read-only transaction/],
    ["SELECT nextval('numbers')", /read-only transaction/],
    ['SELECT * INTO copy FROM parcels', /INTO/],
    ['SELECT * FROM parcels FOR UPDATE', /read-only transaction|FOR UPDATE/],
    ["SELECT set_config('transaction_read_only', 'off', false)", /read-write mode must be set before/],
    ['SELECT 1; DROP TABLE parcels', /^Only one statement allowed$/],
    ["SELECT E'\\''; DROP TABLE parcels; --'", /multiple commands/],
    ['COMMIT', /^Only SELECT queries allowed$/],
  ])('changes nothing by %s, though the user of the database might', async (sql, message) => {
    process.env['DB_QUERY_URL'] = server.url('{project}', 'toolfleet');
    try {
      expect(await catchToolError(query(sql))).toMatch(message);
    } finally {
      process.env['DB_QUERY_URL'] = server.url('{project}', 'reader');
    }
    expect((await owner.query('SELECT count(*)::int AS n FROM parcels')).rows).toEqual([{ n: 500 }]);
  });

  it('reads what its user may read in its project', async () => {
    expect(await catchToolError(query('SELECT * FROM salaries'))).toMatch(/permission denied/);
    expect(await catchToolError(query("SELECT pg_read_file('/etc/passwd')"))).toMatch(/permission denied/);
    expect(await catchToolError(query('SELECT missing FROM parcels'))).toMatch(/column "missing" does not exist/);
    expect(await catchToolError(query('SELECT 1', [], 'other'))).toMatch(/database "other" does not exist/);
  });

  it('makes the server stop a query that takes too long, whatever the query sets', async () => {
    expect(await catchToolError(query('SELECT pg_sleep(60)'))).toMatch(/statement timeout/);
    const lifted = "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)";
    expect(await catchToolError(query(lifted))).toMatch(/statement timeout/);
    expect(await statements()).toBe(0);
  });
});
