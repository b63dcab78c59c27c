/**
 * What the attacks of one tenant do to the cheap calls of another: their p99 while each attack runs, against their p99 right
 * before it, in the same fleet; medians of some rounds, because machines are shared. The attacker sends as much as the largest rate class of customers allows, 500 requests a
 * minute; with ATTACK_FLOOD=1 it has no limit and sends all it can, which shows what the limits are for.
 *
 *   npm run bench -- attacks      (BENCH_ROUNDS and BENCH_SECONDS per phase, default 3 and 5; BENCH_ATTACKS=part of a name)
 */
import { fork } from 'node:child_process';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ATTACKS } from './attacks.mjs';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 5);
/** Largest factor by which an attack may raise the victim's p99. */
const MAX_RATIO = 3;
const WARM_UP_SECONDS = 3;
/** Pause between two calls of the victim. */
const PAUSE_MS = 10;
/** Time for what an attack has begun to end before the next quiet phase. */
const COOL_DOWN_MS = 1_500;
/** Time for an attack to begin. */
const SETTLE_MS = 1_000;

export const attacksBench = (root) => withFleet(root, (fleet) => underEachAttack(root, fleet));

async function underEachAttack(root, fleet) {
  const [attacker, victim] = await Promise.all(['attacker', 'victim'].map((tenant) => keyOf(fleet, tenant)));
  const measure = victimOf(fleet, victim);
  await measure(WARM_UP_SECONDS);
  const rows = [];
  for (const attack of Object.keys(ATTACKS).filter((name) => name.includes(process.env.BENCH_ATTACKS ?? ''))) {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const quiet = await measure(SECONDS);
      const to = { url: fleet.url, nats_url: fleet.nats_url, key: attacker };
      const attacked = await during(root, attack, to, () => measure(SECONDS));
      rounds.push({ quiet: quiet.p99_ms, attacked: attacked.p99_ms, failed: attacked.failed });
      await sleep(COOL_DOWN_MS);
    }
    const quiet = median(rounds.map((round) => round.quiet));
    const attacked = median(rounds.map((round) => round.attacked));
    const ratio = Number(median(rounds.map((round) => round.attacked / round.quiet)).toFixed(2));
    const failed = rounds.reduce((sum, round) => sum + round.failed, 0);
    rows.push({ attack, p99_quiet_ms: quiet, p99_attacked_ms: attacked, ratio, failed, rounds });
  }
  printTable(rows);
  return { name: 'attacks', max_ratio: MAX_RATIO, meets_its_goals: rows.every(isHeld), rows };
}

/** Runs an attack in a separate process while `measure` does. */
async function during(root, attack, to, measure) {
  const child = fork(join(root, 'test/load/attacks.mjs'), [attack, JSON.stringify(to)]);
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
  console.log('| Attack | p99 quiet | p99 under attack | Ratio | Victim’s calls that failed |');
  console.log('| --- | --- | --- | --- | --- |');
  for (const { attack, p99_quiet_ms: quiet, p99_attacked_ms: attacked, ratio, failed } of rows)
    console.log(`| ${attack} | ${quiet} ms | ${attacked} ms | ${ratio} | ${failed} |`);
}
