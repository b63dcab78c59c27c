/**
 * `POST /api/v1/tools/calculator/execute` through gateway → NATS → builtin-executor with everything on, against the bare
 * pair, in alternating rounds of one run. Limits are set to 10^9 but evaluated; every call has other arguments.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';
import { load, processTree, rssMiB } from './measure.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 8);

export const calculatorBench = (root) => withFleet(root, (fleet) => againstBarePair(root, fleet));

async function againstBarePair(root, fleet) {
  const bare = await startBarePair(root, fleet.nats_url);
  try {
    const pids = Object.fromEntries(fleet.services.map(({ name, pid }) => [name, pid]));
    const hot = { gateway: pids.gateway, builtin: pids['builtin-executor'], budget: pids.budget };
    const ours = (connections) => ({
      url: `${fleet.url}/api/v1/tools/calculator/execute`,
      headers: { authorization: `Bearer ${fleet.api_key}` },
      bodyOf: (n) => JSON.stringify({ arguments: { expression: `${n} * 2 + ${connections}` } }),
      connections,
      seconds: SECONDS,
      processes: { ...hot, ...fleet.broker_pids },
    });
    const yardstick = (connections) => ({
      url: bare.url,
      bodyOf: (n) => JSON.stringify({ name: 'calculator', arguments: { expression: `${n} * 2 + ${connections}` } }),
      connections,
      seconds: SECONDS,
      processes: { ...bare.pids, ...fleet.broker_pids },
    });
    await load({ ...ours(32), seconds: 4 });
    await load({ ...yardstick(32), seconds: 3 });
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      rounds.push({
        bare_32: await load(yardstick(32)),
        ours_32: await load(ours(32)),
        bare_1: await load(yardstick(1)),
        ours_1: await load(ours(1)),
      });
    }
    const ratios = rounds.map((r) => r.ours_32.calls_per_second / r.bare_32.calls_per_second).toSorted((a, b) => a - b);
    return {
      name: 'calculator',
      ratio_32: Number(ratios[Math.floor(ratios.length / 2)].toFixed(3)),
      rounds,
      rss_mib: Object.fromEntries(
        fleet.services.map(({ name, pid }) => [name, processTree(pid).reduce((sum, p) => sum + rssMiB(p), 0)]),
      ),
    };
  } finally {
    bare.stop();
  }
}

async function startBarePair(root, natsUrl) {
  const port = await freePort();
  const start = async (...args) => {
    const child = spawn(process.execPath, [join(root, 'test/load/bare-pair.mjs'), ...args], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', () => reject(new Error('the bare pair did not start')));
    });
    return child;
  };
  const children = [await start('responder', natsUrl), await start('door', natsUrl, String(port))];
  return {
    url: `http://127.0.0.1:${port}/call`,
    pids: { bare_responder: children[0].pid, bare_door: children[1].pid },
    stop: () => children.forEach((child) => child.kill('SIGKILL')),
  };
}
