/**
 * `POST /api/v1/tools/<tool>/execute` with everything on, against the bare pair, in alternating rounds of one run: the calculator
 * through gateway → NATS → builtin-executor, `execute_python` through gateway → Redis → python-sandbox. Limits are set to 10^9 but
 * evaluated; every call has other arguments.
 */
import { startBarePair } from './yardsticks.mjs';
import { load, processTree, rssMiB, totalCpuMicros } from './measure.mjs';
import { medianWithSpread } from './spread.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 4);
const CONNECTIONS = [32, 1];

/** Body of the n-th call of each tool. */
const BODIES = {
  ours: ['calculator', (n, connections) => ({ expression: `${n} * 2 + ${connections}` })],
  python: ['execute_python', (n, connections) => ({ code: `print(${n} + ${connections})` })],
};

export const calculatorBench = (root) => withFleet(root, (fleet) => againstBarePair(root, fleet));

async function againstBarePair(root, fleet) {
  const bare = await startBarePair(root, fleet.nats_url);
  try {
    const run = (kind, connections, seconds = SECONDS) =>
      load(kind === 'bare' ? bareLoad(bare, fleet, connections, seconds) : toolLoad(fleet, kind, connections, seconds));
    for (const kind of ['ours', 'python', 'bare']) await run(kind, 32, 3);
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const measured = {};
      for (const connections of CONNECTIONS) {
        for (const kind of ['bare', 'ours', 'python'])
          measured[`${kind}_${connections}`] = await run(kind, connections);
      }
      rounds.push(measured);
    }
    return {
      name: 'calculator',
      calculator: againstBare(rounds, 'ours'),
      execute_python: againstBare(rounds, 'python'),
      rounds,
      rss_mib: Object.fromEntries(
        fleet.services.map(({ name, pid }) => [name, processTree(pid).reduce((sum, p) => sum + rssMiB(p), 0)]),
      ),
    };
  } finally {
    bare.stop();
  }
}

/** Load on one tool of a fleet; CPU is of all processes that take part, brokers included. */
function toolLoad(fleet, kind, connections, seconds) {
  const [tool, argumentsOf] = BODIES[kind];
  const executor = kind === 'python' ? 'python-sandbox' : 'builtin-executor';
  const processes = { ...fleet.broker_pids };
  for (const { name, pid } of fleet.services) {
    if (!['gateway', 'budget', executor].includes(name)) continue;
    for (const [index, one] of processTree(pid).entries()) processes[index === 0 ? name : `${name}_${index}`] = one;
  }
  return {
    url: `${fleet.url}/api/v1/tools/${tool}/execute`,
    headers: { authorization: `Bearer ${fleet.api_key}` },
    bodyOf: (n) => JSON.stringify({ arguments: argumentsOf(n, connections) }),
    connections,
    seconds,
    processes,
  };
}

function bareLoad(bare, fleet, connections, seconds) {
  return {
    url: bare.url,
    bodyOf: (n) => JSON.stringify({ name: 'calculator', arguments: { expression: `${n} * 2 + ${connections}` } }),
    connections,
    seconds,
    processes: { ...bare.pids, ...fleet.broker_pids },
  };
}

/** Ratios of a kind of call to the bare pair of the same round, by number of connections. */
function againstBare(rounds, kind) {
  const compare = (connections) => {
    const ratio = (value) =>
      medianWithSpread(
        rounds.map((round) => value(round[`${kind}_${connections}`]) / value(round[`bare_${connections}`])),
      );
    return {
      rate: ratio((one) => one.calls_per_second),
      cpu_per_call: ratio((one) => totalCpuMicros(one)),
      p99: ratio((one) => one.p99_ms),
    };
  };
  return Object.fromEntries(CONNECTIONS.map((connections) => [`connections_${connections}`, compare(connections)]));
}
