/**
 * Effects of one tenant's attacks on the cheap calls of another: their p99 while each attack runs, against their p99 right
 * before it, in the same fleet; medians of some rounds, because machines are shared. The same attack on a second fleet is the control: it
 * takes as much of the machine, and none of the queues and event loops of the first. The attacker sends as much as the largest rate class
 * of customers allows, 500 requests a minute; with ATTACK_FLOOD=1 it has no limit and sends all it can, to show the use of the limits.
 *
 *   npm run bench -- attacks      (BENCH_ROUNDS and BENCH_SECONDS per phase, default 3 and 5; BENCH_ATTACKS=part of a name)
 */
import { fork } from 'node:child_process';
import { Agent, request } from 'node:http';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ATTACKS } from './attacks.mjs';
import { mainThreadMs, treeMiB } from './measure.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 5);
/** Largest factor by which an attack may raise the victim's p99. */
const MAX_RATIO = 3;
/** The least quiet p99 that counts: a slice of the scheduler is not harm. */
const LEAST_P99_MS = 20;
const WARM_UP_SECONDS = 3;
/** Pause between two calls of the victim. */
const PAUSE_MS = 10;
/** Time for requests of an attack to end before the next phase. */
const COOL_DOWN_MS = 1_500;
/** Time for an attack to begin. */
const SETTLE_MS = 1_000;
const SAMPLE_MS = 250;

export const attacksBench = (root) =>
  withFleet(root, (twin) => withFleet(root, (fleet) => underEachAttack(root, fleet, twin)));

async function underEachAttack(root, fleet, twin) {
  const [here, there] = await Promise.all([fleet, twin].map(targetOf));
  const measure = measuring(fleet, victimOf(fleet, await keyOf(fleet, 'victim')));
  await measure(WARM_UP_SECONDS);
  const rows = [];
  for (const attack of Object.keys(ATTACKS).filter((name) => name.includes(process.env.BENCH_ATTACKS ?? ''))) {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const load = loadavg()[0];
      const quiet = await measure(SECONDS);
      const control = await during(root, attack, there, () => measure(SECONDS));
      await sleep(COOL_DOWN_MS);
      const attacked = await during(root, attack, here, () => measure(SECONDS));
      await sleep(COOL_DOWN_MS);
      rounds.push({ load, quiet, control, attacked });
    }
    rows.push(rowOf(attack, rounds));
  }
  printTable(rows);
  return { name: 'attacks', max_ratio: MAX_RATIO, meets_its_goals: rows.every(isHeld), rows };
}

const targetOf = async (fleet) => ({ url: fleet.url, nats_url: fleet.nats_url, key: await keyOf(fleet, 'attacker') });

/** Adds to the victim's latencies: memory of the gateway, and the shares of time for which its event loop had a core and waited for one. */
function measuring({ services }, victim) {
  const { pid } = services.find(({ name }) => name === 'gateway');
  return async (seconds) => {
    let mib = 0;
    const sampler = setInterval(() => (mib = Math.max(mib, treeMiB(pid))), SAMPLE_MS);
    const [from, before] = [performance.now(), mainThreadMs(pid)];
    const seen = await victim(seconds).finally(() => clearInterval(sampler));
    const [ms, after] = [performance.now() - from, mainThreadMs(pid)];
    const shareOf = (what) => Number(((after[what] - before[what]) / ms).toFixed(2));
    return { ...seen, gateway_mib: mib, gateway_ran: shareOf('ran'), gateway_waited: shareOf('waited') };
  };
}

function rowOf(attack, rounds) {
  const p99 = (phase) => median(rounds.map((round) => round[phase].p99_ms));
  const ratio = (phase) =>
    Number(median(rounds.map((of) => of[phase].p99_ms / Math.max(LEAST_P99_MS, of.quiet.p99_ms))).toFixed(2));
  return {
    attack,
    p99_quiet_ms: p99('quiet'),
    p99_control_ms: p99('control'),
    p99_attacked_ms: p99('attacked'),
    control_ratio: ratio('control'),
    ratio: ratio('attacked'),
    gateway_waited: median(rounds.map(({ attacked }) => attacked.gateway_waited)),
    gateway_mib: Math.max(...rounds.map(({ attacked }) => attacked.gateway_mib)),
    failed: rounds.reduce((sum, { attacked }) => sum + attacked.failed, 0),
    rounds,
  };
}

/** Runs an attack in a separate process while `measure` does. */
async function during(root, attack, to, measure) {
  // Not in the session of the fleet: some kernels divide the machine between sessions first.
  const child = fork(join(root, 'test/load/attacks.mjs'), [attack, JSON.stringify(to)], { detached: true });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    await sleep(SETTLE_MS);
    const measured = await measure();
    if (child.exitCode !== null) throw new Error(`the attack ended by itself: ${attack}`);
    return measured;
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const isHeld = ({ ratio, failed }) => ratio <= MAX_RATIO && failed === 0;

/** A key of a tenant in the rate class that has no limits here. */
async function keyOf({ url, api_key }, tenant) {
  const response = await fetch(`${url}/api/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ client: tenant, tenant_id: tenant, tier: 'admin' }),
  });
  if (!response.ok) throw new Error(`no key for ${tenant}: ${await response.text()}`);
  return (await response.json()).token;
}

/** The victim: one cheap call after the other on one connection; no two are alike. */
function victimOf({ url }, key) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let serial = 0;
  const one = () =>
    new Promise((resolve) => {
      const from = performance.now();
      const body = JSON.stringify({ arguments: { expression: `${(serial += 1)} + 0.25` } });
      const sent = request(
        `${url}/api/v1/tools/calculator/execute`,
        {
          agent,
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
          },
        },
        (response) => {
          response.resume();
          response.once('end', () => resolve({ ms: performance.now() - from, ok: response.statusCode === 200 }));
        },
      );
      sent.once('error', () => resolve({ ms: performance.now() - from, ok: false }));
      sent.end(body);
    });
  return async (seconds) => {
    const until = performance.now() + seconds * 1_000;
    const times = [];
    let failed = 0;
    while (performance.now() < until) {
      const { ms, ok } = await one();
      times.push(ms);
      if (!ok) failed += 1;
      await sleep(PAUSE_MS);
    }
    const sorted = times.toSorted((a, b) => a - b);
    const at = (q) => Number(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))].toFixed(2));
    return { calls: sorted.length, failed, p50_ms: at(0.5), p99_ms: at(0.99) };
  };
}

function printTable(rows) {
  const head = [
    'Attack',
    'p99 quiet',
    'p99, twin attacked',
    'p99 attacked',
    'Ratio, twin',
    'Ratio',
    'Gateway waited for a core',
  ];
  const columns = [...head, 'Gateway MiB', 'Victim’s calls that failed'];
  console.log(`| ${columns.join(' | ')} |\n|${' --- |'.repeat(columns.length)}`);
  for (const row of rows) {
    const times = [row.p99_quiet_ms, row.p99_control_ms, row.p99_attacked_ms].map((ms) => `${ms} ms`);
    const waited = `${Math.round(100 * row.gateway_waited)} %`;
    console.log(
      `| ${[row.attack, ...times, row.control_ratio, row.ratio, waited, row.gateway_mib, row.failed].join(' | ')} |`,
    );
  }
}
