/**
 * Cost of the first calls of a fleet, by which users judge it.
 *
 * - Tools: a fresh fleet, one that has had 50 calls, and a warm one take turns, so that other work on the machine meets all of them.
 *   `fresh` is the price of first calls, `after_50_calls` what a warm-up of 50 real calls would leave of it; both are ratios to the
 *   warm fleet.
 * - `print(1)` over HTTP against spawning `python3` natively, taking turns from the first call of a fleet on, then back to back.
 * - Memory of each service at rest.
 *
 *   npm run bench -- first-calls      (BENCH_ROUNDS, default 3; BENCH_ONE_PROCESS=1 for all services of a fleet in one process)
 */
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { loadavg } from 'node:os';
import { Pool } from 'undici';
import { memoryKib, processTree } from './measure.mjs';
import { medianWithSpread } from './spread.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
/** The fleets that take turns, in the order they start: how many calls each has had. */
const CALLS_BEFORE = { warm: 2_000, after_50_calls: 50, fresh: 0 };
const CALLS = 100;
/** Calls back to back before it is the turn of the next fleet. With one each, the caches of the processor are cold for all of them. */
const CALLS_PER_TURN = 5;
/** Groups of these calls: first and last. */
const GROUPS = [
  [1, 5],
  [1, CALLS],
];
/** Calls that take turns with spawns, and their groups: up to which call. */
const TURNS = 150;
const TURN_GROUPS = [5, 20, 50, TURNS];
const PAUSE_MS = 15;
/** The first user comes later than the work that services do right after they are ready. */
const SETTLE_MS = 3_000;
/** V8 returns the memory of the start some seconds later. */
const REST_MS = 10_000;
/** Never a version-manager shim from the PATH: those start several times slower and would make every ratio look better. */
const PYTHON = process.env.BENCH_PYTHON ?? '/usr/bin/python3';
/** The arguments of the n-th call. No two calls are alike, so that no answer comes from a cache. */
const TOOLS = {
  calculator: (n) => ({ expression: `${n} * 2` }),
  execute_python: (n) => ({ code: `print(1) # ${n}` }),
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const nameOf = ([from, to]) => `calls_${from}_to_${to}`;

/** @param {string} root of the repository */
export async function firstCallsBench(root) {
  await warmUpClient();
  const rounds = [];
  const loads = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    loads.push(Number(loadavg()[0].toFixed(1)));
    const ofWarm = {};
    for (const tool of Object.keys(TOOLS)) ofWarm[tool] = await takingTurns(root, tool);
    rounds.push({ of_a_warm_call: ofWarm, of_a_spawn: await withFleet(root, againstSpawns) });
  }
  const over = (read) => medianWithSpread(rounds.map(read));
  /** Figures of a round, in the same shape over all rounds. */
  const overAll = (first, read) =>
    typeof first === 'number'
      ? over(read)
      : Object.fromEntries(
          Object.entries(first).map(([key, value]) => [key, overAll(value, (seen) => read(seen)[key])]),
        );
  return {
    name: 'first-calls',
    loads,
    ...overAll(rounds[0], (seen) => seen),
    memory_at_rest_mib: await withFleet(root, memory),
  };
}

/** @returns the p50 of a warm call in ms, and the ratios of the others to the warm fleet by group */
async function takingTurns(root, tool) {
  const { warm, ...others } = await withCalledFleets(root, tool, Object.entries(CALLS_BEFORE), async (sides) => {
    await pause(SETTLE_MS);
    const took = Object.fromEntries(sides.map(({ name }) => [name, []]));
    for (let turn = 0; turn < CALLS / CALLS_PER_TURN; turn += 1) {
      for (const { name, call } of sides) {
        for (let n = 0; n < CALLS_PER_TURN; n += 1) took[name].push(await call());
      }
    }
    return took;
  });
  const ratios = (ms) =>
    Object.fromEntries(
      GROUPS.map(([from, to]) => {
        const of = (measure) => measure(ms.slice(from - 1, to)) / measure(warm.slice(from - 1, to));
        return [nameOf([from, to]), { mean: of(mean), p50: of(median) }];
      }),
    );
  return {
    warm_ms: median(warm),
    ...Object.fromEntries(Object.entries(others).map(([name, ms]) => [name, ratios(ms)])),
  };
}

/** Starts fleets one after the other, has each called as often as wanted, hands all to `use` and stops them. */
async function withCalledFleets(root, tool, wanted, use, sides = []) {
  const [[name, before] = [], ...rest] = wanted;
  if (name === undefined) return use(sides);
  return withFleet(root, async (fleet) => {
    const client = clientOf(fleet);
    let calls = 0;
    const call = () => client.call(tool, TOOLS[tool]((calls += 1)));
    try {
      for (let n = 0; n < before; n += 1) await call();
      return await withCalledFleets(root, tool, rest, use, [...sides, { name, call }]);
    } finally {
      await client.close();
    }
  });
}

/** A caller on one connection. `call` resolves to the milliseconds of a call, and rejects when it fails. */
function clientOf({ url, api_key: key }) {
  const pool = new Pool(url, { connections: 1, pipelining: 1 });
  return {
    async call(tool, args) {
      const began = performance.now();
      const { statusCode, body } = await pool.request({
        method: 'POST',
        path: `/api/v1/tools/${tool}/execute`,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify({ arguments: args }),
      });
      const text = await body.text();
      const ms = performance.now() - began;
      if (statusCode !== 200 || !text.includes('"success":true')) {
        throw new Error(`${tool}: ${statusCode} ${text.slice(0, 300)}`);
      }
      return ms;
    },
    close: () => pool.close(),
  };
}

/** The code of the client would otherwise be as cold as the first fleet's. */
async function warmUpClient() {
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => response.end('{"success":true}'));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = clientOf({ url: `http://127.0.0.1:${server.address().port}`, api_key: 'none' });
  for (let n = 0; n < 1_000; n += 1) await client.call('calculator', TOOLS.calculator(n));
  await client.close();
  server.close();
}

/** Milliseconds of a native run. */
function native() {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(PYTHON, ['-c', 'print(1)'], { stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.on('error', reject);
    child.on('close', () => resolve(performance.now() - began));
  });
}

/** Ratios of calls to spawns of the same time. */
async function againstSpawns(fleet) {
  await pause(SETTLE_MS);
  const client = clientOf(fleet);
  let calls = 0;
  const overHttp = () => client.call('execute_python', TOOLS.execute_python((calls += 1)));
  const turns = async (pauseMs, turn) => {
    const took = { native: [], http: [] };
    for (let i = 0; i < TURNS; i += turn) {
      for (const [side, one] of [
        ['native', native],
        ['http', overHttp],
      ]) {
        for (let j = 0; j < turn; j += 1) {
          if (pauseMs > 0) await pause(pauseMs);
          took[side].push(await one());
        }
      }
    }
    return took;
  };
  try {
    const first = await turns(PAUSE_MS, 1);
    const spawnMs = median(first.native);
    const groups = {};
    let from = 0;
    for (const to of TURN_GROUPS) {
      groups[nameOf([from + 1, to])] = median(first.http.slice(from, to)) / spawnMs;
      from = to;
    }
    const later = await turns(0, 10);
    return {
      call_1: first.http[0] / spawnMs,
      ...groups,
      all: median(first.http) / spawnMs,
      back_to_back: median(later.http) / median(later.native),
    };
  } finally {
    await client.close();
  }
}

/** MiB of each service with its children: resident, and proportional set size. */
async function memory({ services }) {
  await pause(REST_MS);
  const each = services.map(({ name, pid }) => {
    const all = processTree(pid).map(memoryKib);
    const sum = (kind) => Math.round(all.reduce((total, one) => total + one[kind], 0) / 1_024);
    return [name, { rss: sum('rss'), pss: sum('pss') }];
  });
  const total = (kind) => each.reduce((sum, [, one]) => sum + one[kind], 0);
  return { ...Object.fromEntries(each), all: { rss: total('rss'), pss: total('pss') } };
}
