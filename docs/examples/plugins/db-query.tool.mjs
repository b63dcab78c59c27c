/**
 * db_query: lets a model read a database. The worked example of docs/write-a-tool.md.
 *
 * Four walls, because a text that starts with SELECT can still do harm ("SELECT 1; DROP TABLE …", "WITH x AS (DELETE …)"):
 *   1. one statement, and it begins with SELECT, WITH or VALUES;
 *   2. a read-only transaction (PostgreSQL) or a read-only connection (SQLite): the database itself refuses to write;
 *   3. at most 200 rows are read, whatever the query would return;
 *   4. an end: PostgreSQL stops a query after DB_QUERY_TIMEOUT_MS (5 s) itself; the child process the query runs in is
 *      killed two seconds later, because SQLite runs inside the process and hears no signal.
 * Give it a database user that may SELECT the model's tables, and nothing else: functions are called with its rights.
 *
 * DB_QUERY_URL (or DB_QUERY_URL_FILE): sqlite:/data/shop.db or postgres://reader@host/shop. `{project}` in it stands for the
 * project of the call, so that each project reads its own database. PostgreSQL needs the package `pg` (`npm install pg` in
 * the plugin folder or above it).
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MAX_ROWS = 200;
const TIMEOUT_MS = Number(process.env.DB_QUERY_TIMEOUT_MS ?? 5_000);
/** The child may run this much longer: a server that works without a caller is worse than a late answer. */
const CHILD_GRACE_MS = 2_000;
/** Sent by a child once it is connected to its database, before it runs the query. */
const CONNECTED = 'connected';
/** Longest answer in characters of JSON. */
const MAX_RESULT = 1_000_000;

/** @type {import('@toolfleet/builtin-tools').Plugin} */
export default ({ defineTool, ok, ToolError }) =>
  defineTool({
    name: 'db_query',
    version: '1.0.0',
    description:
      'Run one read-only SQL query (SELECT) and get at most 200 rows. Values go into params, as ? (SQLite) or $1 (PostgreSQL) in the query.',
    category: 'data',
    tags: ['database'],
    inputSchema: {
      type: 'object',
      properties: {
        sql: { type: 'string', description: 'One SELECT statement', minLength: 1, maxLength: 10_000 },
        params: {
          type: 'array',
          items: { type: ['string', 'number', 'boolean', 'null'] },
          maxItems: 100,
          description: 'Values of the placeholders, in order',
        },
      },
      required: ['sql'],
      additionalProperties: false,
    },
    // The project is injected by the caller; the model neither sees nor chooses it.
    contextKeys: ['project_id'],
    sessionAware: true,
    // Reading twice is harmless, but an answer may be old at once: never cached.
    idempotent: true,
    cacheTtlSeconds: 0,
    timeoutSeconds: 10,
    async handler({ sql, params = [] }, run) {
      const refusal = whyNot(sql);
      if (refusal) throw new ToolError('TOOL_ERROR', { message: refusal });
      const url = databaseUrl(run.context.project_id);
      if (!url) throw new ToolError('AUTH_NOT_CONFIGURED', { message: 'db_query has no database: set DB_QUERY_URL' });
      const answer = await inChild({ url, sql, params, timeoutMs: TIMEOUT_MS }, run.signal);
      if (answer.error !== undefined) throw new ToolError('TOOL_ERROR', { message: answer.error });
      const { rows, more } = answer;
      return ok({ rows, count: rows.length, more }, `${rows.length}${more ? '+' : ''} row(s)\n${JSON.stringify(rows)}`);
    },
  });

/** Why a text is not one reading statement; undefined when it is. */
export function whyNot(sql) {
  const bare = withoutTextAndComments(sql).trim();
  if (!/^(?:select|with|values)\b/i.test(bare)) return 'Only SELECT queries allowed';
  if (/;\s*\S/.test(bare)) return 'Only one statement allowed';
  return undefined;
}

/** The query with every literal, quoted name and comment replaced by blanks: its words and signs are left. */
function withoutTextAndComments(sql) {
  return sql.replace(
    /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$([A-Za-z_]*)\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\//g,
    ' ',
  );
}

function databaseUrl(project) {
  const file = process.env.DB_QUERY_URL_FILE;
  const url = file ? readFileSync(file, 'utf8').trim() : process.env.DB_QUERY_URL;
  if (!url?.includes('{project}')) return url;
  return /^[A-Za-z0-9_-]{1,64}$/.test(project ?? '') ? url.replaceAll('{project}', project) : undefined;
}

/** Runs the query in a child of this very file. The child gets no environment but this message. */
function inChild(query, signal) {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(new URL(import.meta.url.split('?')[0])), ['--db-query-child'], {
      env: {},
      execArgv: ['--max-old-space-size=128', '--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const end = (settle, value) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      child.kill('SIGKILL');
      settle(value);
    };
    const aborted = () => end(reject, signal.reason);
    // The query has its time from here on: the start of the child depends on the machine and ends with the call at the latest.
    let timer;
    const connected = () => {
      timer = setTimeout(
        () => end(resolve, { error: `The query took longer than ${TIMEOUT_MS / 1_000} s` }),
        TIMEOUT_MS + CHILD_GRACE_MS,
      );
    };
    signal.addEventListener('abort', aborted, { once: true });
    child.on('message', (message) => (message === CONNECTED ? connected() : end(resolve, message)));
    child.once('exit', () => end(resolve, { error: 'The query ended abnormally' }));
    child.once('error', (error) => end(resolve, { error: error.message }));
    child.send(query);
  });
}

async function answerOf({ url, sql, params, timeoutMs }) {
  try {
    const rows = url.startsWith('sqlite:')
      ? await readSqlite(url.slice('sqlite:'.length), sql, params)
      : await readPostgres(url, sql, params, timeoutMs);
    // Numbers beyond 2^53 and bytes have no JSON of their own.
    const shown = JSON.stringify(rows.slice(0, MAX_ROWS), (_key, value) =>
      typeof value === 'bigint'
        ? String(value)
        : value instanceof Uint8Array
          ? Buffer.from(value).toString('base64')
          : value,
    );
    if (shown.length > MAX_RESULT) return { error: 'The result is too large: select fewer columns or rows' };
    return { rows: JSON.parse(shown), more: rows.length > MAX_ROWS };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

async function readSqlite(path, sql, params) {
  const { DatabaseSync } = await import('node:sqlite');
  const database = new DatabaseSync(path, { readOnly: true, allowExtension: false });
  process.send(CONNECTED);
  const statement = database.prepare(sql);
  statement.setReadBigInts(false);
  const rows = [];
  for (const row of statement.iterate(...params.map((value) => (typeof value === 'boolean' ? Number(value) : value)))) {
    rows.push({ ...row });
    if (rows.length > MAX_ROWS) break;
  }
  return rows;
}

async function readPostgres(url, sql, params, timeoutMs) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({
    connectionString: url,
    statement_timeout: timeoutMs,
    connectionTimeoutMillis: timeoutMs + CHILD_GRACE_MS,
  });
  await client.connect();
  process.send(CONNECTED);
  try {
    await client.query('BEGIN TRANSACTION READ ONLY');
    // The extended protocol takes one statement; the cursor hands out no more rows than asked for.
    await client.query({
      text: `DECLARE db_query NO SCROLL CURSOR FOR ${sql.replace(/;\s*$/, '')}`,
      values: params,
      queryMode: 'extended',
    });
    return (await client.query(`FETCH ${MAX_ROWS + 1} FROM db_query`)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

if (process.argv.includes('--db-query-child')) {
  process.once('message', (query) => void answerOf(query).then((answer) => process.send(answer)));
  process.once('disconnect', () => process.exit(0));
}
