/**
 * What watching costs: three fleets side by side, loaded in turn in one run. `off` logs nothing, exports nothing and is not
 * scraped; `deployed` is what deploy/k8s sets (logs, traces of 5 % of the calls, metrics scraped); `all` records each call.
 * Many short segments, each compared with the `off` of its own round: load of neighbours hits all three.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';
import { startFleet } from '../../tools/local/fleet.mjs';
import { load } from './measure.mjs';
import { medianWithSpread } from './spread.mjs';
import { UNLIMITED } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 24);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 2);
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
    for (const name of NAMES) await segment(fleets[name].fleet, 0, 4);
    const rounds = [];
    for (let number = 0; number < ROUNDS; number += 1) {
      const results = {};
      // Each goes first as often as the others.
      for (let turn = 0; turn < NAMES.length; turn += 1) {
        const name = NAMES[(number + turn) % NAMES.length];
        results[name] = await segment(fleets[name].fleet, name === 'off' ? undefined : number, SECONDS);
      }
      rounds.push(results);
    }
    return {
      name: 'telemetry',
      measured_rounds: ROUNDS,
      seconds_of_a_segment: SECONDS,
      cost_of_calls_per_second: costs(rounds, (mode, off) => 1 - mode.calls_per_second / off.calls_per_second),
      cost_in_cpu: costs(rounds, (mode, off) => cpu(mode) / cpu(off) - 1),
      calls_per_second: eachMode((name) => rounds.map((round) => round[name].calls_per_second)),
      cpu_us_per_call: eachMode((name) => rounds.map((round) => cpu(round[name]))),
      p99_ms: eachMode((name) => rounds.map((round) => round[name].p99_ms)),
    };
  } finally {
    drain.kill('SIGKILL');
    for (const { end } of running) await end();
  }
}

const eachMode = (valueOf) => Object.fromEntries(NAMES.map((name) => [name, valueOf(name)]));
const cpu = ({ cpu_us_per_call: parts }) => parts.gateway + parts.builtin + parts.budget;

/** Cost of each mode against `off` of the same round, as shares. */
function costs(rounds, cost) {
  const shares = (name) => rounds.map((round) => cost(round[name], round.off));
  return Object.fromEntries(NAMES.slice(1).map((name) => [name, medianWithSpread(shares(name))]));
}

async function startWith(root, env) {
  const before = { ...process.env };
  Object.assign(process.env, UNLIMITED, env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: join(root, 'test/load/fleet.yaml'),
    PYTHON_SANDBOX_WARM_UP_MS: '0',
  });
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-bench-'));
  const started = await startFleet({
    root,
    stateDir,
    say: () => {},
    onGivenUp: (error) => console.error(error.message),
  });
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
/**
 * Loads one fleet. With the number of a round one of its services is scraped meanwhile, another one each time: each service
 * about every 15 s of load, as deploy/k8s sets it.
 */
async function segment(fleet, round, seconds) {
  const pids = Object.fromEntries(fleet.services.map(({ name, pid }) => [name, pid]));
  const scraped = round === undefined ? undefined : fleet.services[round % fleet.services.length];
  const scraping = scraped && setTimeout(() => void scrape(scraped), seconds * 500);
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

const scrape = async ({ admin_url: url }) => (await fetch(`${url}/metrics`)).text();
