/**
 * What users call, through every entry point, with one connection and with 32: rate, p50, p99 and CPU per call, next to the bare pair, the
 * floor and MCP proxies of npm in front of the same echo server. CPU is of all processes of the fleet, brokers and upstream included,
 * and is printed by process as well. Every call has other arguments; limits are evaluated and never reached.
 *
 *   npm run bench -- paths      (BENCH_ROUNDS and BENCH_SECONDS, default 5 and 1.5; BENCH_WARM, default 30,000 calls of each way, for at most 30 s,
 *                               before the first round; BENCH_PATHS=regular expression of `path, entryPoint`;
 *                               BENCH_ONE_PROCESS=1 for all services in one process)
 */
import { connect, headers as natsHeaders } from 'nats';
import { loadavg } from 'node:os';
import { Pool } from 'undici';
import { closedLoop, processTree } from './measure.mjs';
import { ENTRY_POINTS, PATHS, withPaths } from './paths.mjs';
import { startPeers } from './peers.mjs';
import { medianWithSpread } from './spread.mjs';
import { startBarePair, startFloor } from './yardsticks.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 1.5);
const WANTED = new RegExp(process.env.BENCH_PATHS ?? '.');
const CONNECTIONS = [32, 1];
/** Much code takes more calls than little code until V8 has optimised it, and a fast way makes more of them in the same time. */
const WARM = Number(process.env.BENCH_WARM ?? 30_000);
/** Enough for programs, whose time is not V8's. */
const WARM_SECONDS = 30;
/** Calls so far, of all ways: what one of them asked must not be in the cache when another one asks. */
let calls = 0;
/** The peer that ratios are taken to. */
const YARDSTICK = 'mcp-proxy';

/** @param {string} root of the repository */
export const pathsBench = (root) => withPaths(root, (fleet, upstream) => everyPath(root, fleet, upstream));

async function everyPath(root, fleet, upstream) {
  const { peers, stop: stopPeers } = await startPeers(root);
  const bare = await startBarePair(root, fleet.nats_url);
  const floor = await startFloor(root, upstream.origin);
  const nats = await connect({ servers: fleet.nats_url });
  try {
    const ways = {
      'bare pair': httpWay({
        url: bare.url,
        bodyOf: (n) => ({ name: 'calculator', arguments: { expression: `${n} * 2` } }),
        good: '"success":true',
        processes: () => ({ ...bare.pids, ...fleet.broker_pids }),
      }),
      floor: httpWay({
        url: floor.url,
        headers: { authorization: `Bearer ${floor.key}` },
        bodyOf: (n) => ENTRY_POINTS.mcp.body('say', { text: `call ${n}` }),
        good: '"text":"call ',
        processes: () => ({ ...floor.pids, upstream: upstream.pid }),
      }),
    };
    for (const [name, { pid, url, headers, bodyOf }] of Object.entries(peers))
      ways[name] = httpWay({
        url,
        headers,
        bodyOf,
        good: '"text":"call ',
        processes: () => tree(name, pid),
      });
    for (const [path, [tool, argumentsOf]] of Object.entries(PATHS)) {
      for (const [entryPoint, { good, body, ...address }] of Object.entries(ENTRY_POINTS)) {
        const name = `${path}, ${entryPoint}`;
        if (!WANTED.test(name)) continue;
        const bodyOf = (n) => body(tool, argumentsOf(n));
        const processes = () => processesOf(fleet, upstream.pid);
        ways[name] =
          entryPoint === 'nats'
            ? natsWay(nats, fleet.api_key, { bodyOf, good, processes })
            : httpWay({
                url: fleet.url + address.path(tool),
                headers: { ...address.headers, authorization: `Bearer ${fleet.api_key}` },
                bodyOf,
                good,
                processes,
              });
      }
    }
    return report(await measured(ways));
  } finally {
    await nats.close();
    bare.stop();
    floor.stop();
    stopPeers();
  }
}

/** All ways in turn, round after round, so that other work on the machine meets all of them. */
async function measured(ways) {
  for (const way of Object.values(ways)) await way(32, { calls: WARM, seconds: WARM_SECONDS });
  const rounds = [];
  const loads = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const seen = {};
    loads.push(Number(loadavg()[0].toFixed(1)));
    for (const connections of CONNECTIONS) {
      for (const [name, way] of Object.entries(ways))
        (seen[name] ??= {})[connections] = await way(connections, { seconds: SECONDS });
    }
    rounds.push(seen);
  }
  return { rounds, loads };
}

function httpWay({ url, headers = {}, bodyOf, good, processes }) {
  const { origin, pathname: path } = new URL(url);
  return async (connections, until) => {
    const pool = new Pool(origin, { connections, pipelining: 1 });
    const send = async () => {
      const { statusCode, body } = await pool.request({
        method: 'POST',
        path,
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(bodyOf((calls += 1))),
      });
      const text = await body.text();
      if (statusCode !== 200 || !text.includes(good)) throw new Error(`${url}: ${statusCode} ${text.slice(0, 300)}`);
    };
    try {
      return await closedLoop(send, { connections, ...until, processes: processes() });
    } finally {
      await pool.close();
    }
  };
}

function natsWay(connection, key, { bodyOf, good, processes }) {
  const headers = natsHeaders();
  headers.set('Authorization', `Bearer ${key}`);
  const send = async () => {
    const answer = await connection.request('tool.call', JSON.stringify(bodyOf((calls += 1))), {
      timeout: 30_000,
      headers,
    });
    if (!answer.string().includes(good)) throw new Error(`tool.call: ${answer.string().slice(0, 300)}`);
  };
  return (connections, until) => closedLoop(send, { connections, ...until, processes: processes() });
}

const tree = (name, pid) =>
  Object.fromEntries(processTree(pid).map((one, index) => [index === 0 ? name : `${name} child ${index}`, one]));

/** All processes by name. Read anew each time: the sandbox replaces its host. */
function processesOf(fleet, upstream) {
  const parts = fleet.services.map(({ name, pid }) => tree(name, pid));
  return Object.assign({ ...fleet.broker_pids, upstream }, ...parts);
}

/** Medians over the rounds; ratios are of the same round. Prints the load averages before the rounds, and two tables. */
function report({ rounds, loads }) {
  const median = (read) => medianWithSpread(rounds.map(read)).median;
  const names = Object.keys(rounds[0]);
  const rows = names.flatMap((name) =>
    CONNECTIONS.map((connections) => {
      const at = (read) => median((round) => read(round[name][connections]));
      const ratio = (read) =>
        medianWithSpread(rounds.map((round) => read(round[name][connections]) / read(round[YARDSTICK][connections])));
      const parts = [...new Set(rounds.flatMap((round) => Object.keys(round[name][connections].cpu_us_per_call)))];
      return {
        path: name,
        connections,
        calls_per_second: Math.round(at((one) => one.calls_per_second)),
        p50_ms: at((one) => one.p50_ms),
        p99_ms: at((one) => one.p99_ms),
        cpu_us: Math.round(at(cpuOf)),
        of_mcp_proxy: {
          rate: ratio((one) => one.calls_per_second),
          p50: ratio((one) => one.p50_ms),
          cpu: ratio(cpuOf),
        },
        cpu_us_by_process: Object.fromEntries(
          parts.map((part) => [part, Math.round(at((one) => one.cpu_us_per_call[part] ?? 0))]),
        ),
      };
    }),
  );
  console.log(`load averages: ${loads.join(', ')}\n`);
  print(rows);
  return { name: 'paths', loads, rows };
}

const cpuOf = ({ cpu_us_per_call: cpu }) => Object.values(cpu).reduce((sum, one) => sum + one, 0);

function print(rows) {
  const line = (cells) => console.log(`| ${cells.join(' | ')} |`);
  const head = (cells) => (line(cells), line(cells.map(() => '---')));
  const spread = ({ median, quartiles: [low, high] }) => `${median} (${low} to ${high})`;
  head(['path', 'conn.', 'calls/s', 'p50 ms', 'p99 ms', 'CPU µs', 'rate', 'p50', `CPU, of ${YARDSTICK}`]);
  for (const { path, connections, calls_per_second: rate, p50_ms, p99_ms, cpu_us, of_mcp_proxy: of } of rows)
    line([path, connections, rate, p50_ms, p99_ms, cpu_us, spread(of.rate), spread(of.p50), spread(of.cpu)]);
  console.log('');
  head(['path', 'conn.', 'CPU µs per call by process']);
  for (const { path, connections, cpu_us_by_process: parts } of rows)
    line([
      path,
      connections,
      Object.entries(parts)
        .map(([name, cpu]) => `${name} ${cpu}`)
        .join(', '),
    ]);
}
