/**
 * `print(1)` over HTTP against spawning `python3` natively, taking turns from the first call of a fleet on, because users judge by the
 * first calls; then back to back. Then the memory of each service at rest. `npm run bench -- first-calls`.
 */
import { spawn } from 'node:child_process';
import { memoryKib, processTree } from './measure.mjs';
import { withFleet } from './with-fleet.mjs';

const CALLS = Number(process.env.BENCH_CALLS ?? 150);
const PAUSE_MS = 15;
/** V8 returns the memory of the start some seconds later. */
const REST_MS = 10_000;
/** Never a version-manager shim from the PATH: those start several times slower and would make every ratio look better. */
const PYTHON = process.env.BENCH_PYTHON ?? '/usr/bin/python3';
/** Calls of a fleet in groups: up to which call. */
const GROUPS = [5, 20, 50, CALLS];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const round = (value) => Number(value.toFixed(2));

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

async function bench(fleet) {
  const rest = await atRest(fleet);
  let calls = 0;
  const overHttp = async () => {
    const began = performance.now();
    const answer = await fetch(`${fleet.url}/api/v1/tools/execute_python/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${fleet.api_key}` },
      // Another program each time, so that no answer comes from a cache.
      body: JSON.stringify({ arguments: { code: `print(1) # ${(calls += 1)}` } }),
    });
    const body = await answer.json();
    if (!body.success) throw new Error(`HTTP ${answer.status}: ${JSON.stringify(body)}`);
    return performance.now() - began;
  };
  const turns = async (count, pauseMs, turn) => {
    const took = { native: [], http: [] };
    for (let i = 0; i < count; i += turn) {
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
  const first = await turns(CALLS, PAUSE_MS, 1);
  const spawnMs = median(first.native);
  const groups = {};
  let from = 0;
  for (const to of GROUPS) {
    groups[`calls_${from + 1}_to_${to}`] = round(median(first.http.slice(from, to)) / spawnMs);
    from = to;
  }
  const later = await turns(CALLS, 0, 10);
  return {
    name: 'first-calls',
    spawn_ms: round(spawnMs),
    first_call_ms: round(first.http[0]),
    of_a_spawn: { ...groups, back_to_back: round(median(later.http) / median(later.native)) },
    memory_at_rest_mib: rest,
    memory_after_mib: await atRest(fleet),
  };
}

/** MiB of each service with its children: resident, and proportional set size. */
async function atRest({ services }) {
  await pause(REST_MS);
  const each = services.map(({ name, pid }) => {
    const all = processTree(pid).map(memoryKib);
    const sum = (kind) => Math.round(all.reduce((total, one) => total + one[kind], 0) / 1_024);
    return [name, { rss: sum('rss'), pss: sum('pss') }];
  });
  const total = (kind) => each.reduce((sum, [, one]) => sum + one[kind], 0);
  return { ...Object.fromEntries(each), all: { rss: total('rss'), pss: total('pss') } };
}

/** @param {string} root of the repository */
export const firstCallsBench = (root) => withFleet(root, bench);
