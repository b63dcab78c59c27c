/**
 * What watching costs: three fleets side by side, loaded in turn in one run. `off` logs nothing, exports nothing and is not
 * scraped; `deployed` is what deploy/k8s sets (logs, traces of 5 % of the calls, metrics scraped); `all` records each call.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';
import { startFleet } from '../../tools/local/fleet.mjs';
import { load } from './measure.mjs';
import { UNLIMITED } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 5);
const CONNECTIONS = 32;

const MODES = {
  off: () => ({ LOG_LEVEL: 'silent' }),
  deployed: (collector) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector, OTEL_TRACES_SAMPLE_RATIO: '0.05' }),
  all: (collector) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector, OTEL_TRACES_SAMPLE_RATIO: '1' }),
};
const NAMES = Object.keys(MODES);

export async function telemetryBench(root) {
  const drain = spawn(process.execPath, [join(root, 'test/load/otlp-drain.mjs')], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const collector = `http://127.0.0.1:${await new Promise((resolve) => drain.once('message', resolve))}`;
  const running = [];
  try {
    const fleets = {};
    for (const name of NAMES) running.push((fleets[name] = await startWith(root, MODES[name](collector))));
    const round = (name, seconds = SECONDS) => loadOf(fleets[name].fleet, name !== 'off', seconds);
    for (const name of NAMES) await round(name, 4);
    const rounds = [];
    for (let number = 0; number < ROUNDS; number += 1) {
      const results = {};
      // Each goes first as often as the others.
      for (let turn = 0; turn < NAMES.length; turn += 1) {
        const name = NAMES[(number + turn) % NAMES.length];
        results[name] = await round(name);
      }
      rounds.push(results);
    }
    return {
      name: 'telemetry',
      cost_of_calls_per_second: costs(rounds, rate),
      cost_in_cpu: costs(rounds, cpu, true),
      rounds,
    };
  } finally {
    drain.kill('SIGKILL');
    for (const { end } of running) await end();
  }
}

const rate = ({ calls_per_second: calls }) => calls;
const cpu = ({ cpu_us_per_call: parts }) => parts.gateway + parts.builtin + parts.budget;

/** Median over the rounds of what a mode loses against `off` of the same round, as a share. */
function costs(rounds, figure, isCost = false) {
  return Object.fromEntries(
    NAMES.slice(1).map((name) => {
      const shares = rounds.map((round) => {
        const ratio = figure(round[name]) / figure(round.off);
        return isCost ? ratio - 1 : 1 - ratio;
      });
      return [name, Number(shares.toSorted((a, b) => a - b)[Math.floor(shares.length / 2)].toFixed(3))];
    }),
  );
}

async function startWith(root, env) {
  const before = { ...process.env };
  Object.assign(process.env, UNLIMITED, env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: join(root, 'test/load/fleet.yaml'),
    PYTHON_SANDBOX_TRAINING_MS: '0',
  });
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-bench-'));
  const started = await startFleet({ root, stateDir, say: () => {}, onLost: (name) => console.error(`lost ${name}`) });
  for (const key of Object.keys(process.env)) if (!(key in before)) delete process.env[key];
  Object.assign(process.env, before);
  return {
    fleet: started.fleet,
    async end() {
      await started.stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}

let number = 0;
async function loadOf(fleet, isScraped, seconds) {
  const pids = Object.fromEntries(fleet.services.map(({ name, pid }) => [name, pid]));
  // Once in each round: three times as often as a Prometheus with the interval of deploy/k8s.
  const scraping = isScraped ? setTimeout(() => void scrape(fleet), seconds * 500) : undefined;
  try {
    return await load({
      url: `${fleet.url}/api/v1/tools/calculator/execute`,
      headers: { authorization: `Bearer ${fleet.api_key}` },
      bodyOf: () => JSON.stringify({ arguments: { expression: `${(number += 1)} * 2` } }),
      connections: CONNECTIONS,
      seconds,
      processes: { gateway: pids.gateway, builtin: pids['builtin-executor'], budget: pids.budget },
    });
  } finally {
    clearTimeout(scraping);
  }
}

function scrape({ services }) {
  return Promise.all(services.map(({ admin_url: url }) => fetch(`${url}/metrics`).then((response) => response.text())));
}
