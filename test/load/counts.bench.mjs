/**
 * Function invocations per call by layer, and what coverage does not see: JSON, timers, ticks, Redis, NATS, SQLite. 16 connections, 40 calls/s.
 *
 *   npm run bench -- counts     COUNT_PATHS=regular expression of `path, entryPoint`; COUNT_WARM (1500) calls per path
 *                               before the count; BENCH_ONE_PROCESS=1 for all services in one process; COUNT_TOP=n lists the functions that run most;
 *                               COUNT_PAUSE_MS=0 makes calls without pauses, so that more of them share a batch
 */
import { connect, headers as natsHeaders } from 'nats';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { CEILINGS } from './call-ceilings.mjs';
import { CONNECTIONS, countCalls, countIdle, startCoverage } from './counts.mjs';
import { ENTRY_POINTS, PATHS, withPaths } from './paths.mjs';

const WARM = Number(process.env.COUNT_WARM ?? 1_500);
/** Calls per path after the coverage began, which are not counted. */
const SETTLE = 300;
const WANTED = new RegExp(process.env.COUNT_PATHS ?? '.');
/** For the spec: the paths of `call-ceilings.mjs`. */
const ONLY_CEILED = process.env.COUNT_CEILED !== undefined;
const TOP = Number(process.env.COUNT_TOP ?? 0);

/**
 * Counts each path in a fleet of its own processes.
 * @param {string} root of the repository
 */
export async function countsBench(root) {
  const sockets = mkdtempSync(join(tmpdir(), 'counts-'));
  const { NODE_OPTIONS: options = '' } = process.env;
  const env = {
    COUNT_SOCKETS: sockets,
    NODE_OPTIONS: `${options} --import=${join(root, 'test/load/count-hook.mjs')}`.trim(),
  };
  try {
    const rows = await withPaths(root, (fleet) => countAll(root, fleet, sockets), env);
    print(rows);
    return { name: 'counts', rows };
  } finally {
    rmSync(sockets, { recursive: true, force: true });
  }
}

async function countAll(root, fleet, sockets) {
  const nats = await connect({ servers: fleet.nats_url });
  const pool = new Pool(fleet.url, { connections: CONNECTIONS, pipelining: 1 });
  const ways = Object.entries(PATHS).flatMap(([path, [tool, argumentsOf]]) =>
    Object.entries(ENTRY_POINTS).map(([name, entryPoint]) => ({
      name: `${path}, ${name}`,
      make: callsOf({ fleet, nats, pool, tool, argumentsOf, entryPoint }),
    })),
  );
  const wanted = ways.filter(({ name }) => WANTED.test(name) && (!ONLY_CEILED || name in CEILINGS));
  const rows = [];
  try {
    for (const { make } of wanted) await make(WARM);
    const counted = { root, processes: await startCoverage(root, sockets), redisUrl: fleet.redis_url };
    // V8 compiles functions again after the coverage began.
    for (const { make } of wanted) await make(SETTLE);
    const idle = await countIdle(counted);
    for (const { name, make } of wanted) {
      const found = await countCalls(counted, idle, () => make(CONNECTIONS));
      rows.push({ path: name, ceiling: CEILINGS[name], ...rounded(found) });
    }
    for (const { close } of counted.processes) close();
  } finally {
    await Promise.all([nats.close(), pool.close()]);
  }
  return rows;
}

let sent = 0;

/** Makes calls on all connections. A failed call ends the count, because failures run other functions. */
function callsOf({ fleet, nats, pool, tool, argumentsOf, entryPoint: { path, headers, body, good } }) {
  const natsHeader = natsHeaders();
  natsHeader.set('Authorization', `Bearer ${fleet.api_key}`);
  const httpHeaders = { 'content-type': 'application/json', authorization: `Bearer ${fleet.api_key}`, ...headers };
  const call = async () => {
    const message = JSON.stringify(body(tool, argumentsOf((sent += 1))));
    let text;
    if (path) {
      const answer = await pool.request({ path: path(tool), method: 'POST', headers: httpHeaders, body: message });
      text = await answer.body.text();
    } else text = (await nats.request('tool.call', message, { timeout: 30_000, headers: natsHeader })).string();
    if (!text.includes(good)) throw new Error(`${tool}: ${text.slice(0, 300)}`);
  };
  return async (calls) => {
    let left = calls;
    const connection = async () => {
      while (left > 0) {
        left -= 1;
        await call();
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  };
}

function rounded({ invocations, functions, threads, also, ...tables }) {
  const whole = (table, least = 0.5) =>
    Object.fromEntries(
      Object.entries(table)
        .filter(([, count]) => count >= least)
        .toSorted(([, a], [, b]) => b - a)
        .map(([name, count]) => [name, Math.round(count)]),
    );
  return {
    invocations: Math.round(invocations),
    functions,
    threads: Math.round(threads),
    layers: whole(tables.layers),
    packages: whole(tables.packages, 5),
    processes: whole(tables.processes),
    top: Object.fromEntries(
      Object.entries(tables.top)
        .toSorted(([, a], [, b]) => b - a)
        .slice(0, TOP)
        .map(([name, count]) => [name, Number(count.toFixed(1))]),
    ),
    also: Object.fromEntries(Object.entries(also).map(([name, count]) => [name, Number(count.toFixed(2))])),
  };
}

function print(rows) {
  const line = (cells) => console.log(`| ${cells.join(' | ')} |`);
  const table = (title, read) => {
    const names = [...new Set(rows.flatMap((row) => Object.keys(read(row))))];
    line([title, ...rows.map(({ path }) => path)]);
    line(['---', ...rows.map(() => '---')]);
    for (const name of names) line([name, ...rows.map((row) => read(row)[name] ?? '')]);
    console.log('');
  };
  table('per call', ({ invocations, ceiling, functions, threads }) => ({
    invocations,
    ceiling,
    'distinct functions': functions,
    'in worker threads': threads,
  }));
  for (const part of ['layers', 'also', 'processes', 'packages', 'top']) table(part, (row) => row[part]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  const { rows } = await countsBench(root);
  // For the spec that starts this program.
  process.send?.(rows, () => process.disconnect());
}
