/**
 * Gateways before one budget service: reserve, 2 ms of work, settle, in 32 lanes per gateway, over real NATS and Redis. Alternating
 * rounds of one run compare a question per call with shared leases, for one gateway and for two that spend from the same limit.
 * At the end two gateways race for a small limit, to be spent exactly.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedBudget } from '@toolfleet/engine-adapters';
import { SystemClock } from '@toolfleet/resilience';
import { startNats, startRedis } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { BudgetClient } from '../../libs/engine-adapters/dist/budget-client.js';
import { cpuMicros } from './measure.mjs';
import { medianWithSpread } from './spread.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 2);
const LANES = 32;
const WORK_MS = 2;
const LIMIT_MICRO_USD = 2_000;
const never = new AbortController().signal;
let serial = 0;

export async function leasesBench(root) {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-leases-'));
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const service = startBudgetService(root, folder, nats.url, redis.url);
  const clients = await Promise.all(
    ['one', 'two'].map((name) => NatsClient.connect({ url: nats.url, name, clock: new SystemClock() })),
  );
  try {
    await isServed(clients[0]);
    const gateways = clients.map(newGateway);
    const run = (tenant, count, kind) => measure(gateways.slice(0, count), kind, tenant, service.pid);
    await run('warm', 2, 'leased');
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      rounds.push({
        one_asks: await run('roomy', 1, 'asks'),
        one_leased: await run('roomy', 1, 'leased'),
        two_asks: await run('roomy', 2, 'asks'),
        two_leased: await run('roomy', 2, 'leased'),
      });
    }
    const ratio = (name, to, field) => medianWithSpread(rounds.map((round) => round[name][field] / round[to][field]));
    return {
      name: 'leases',
      /** Leases against a question per call. */
      cpu_per_call: { one: ratio('one_leased', 'one_asks', 'cpu_us'), two: ratio('two_leased', 'two_asks', 'cpu_us') },
      rate: {
        one: ratio('one_leased', 'one_asks', 'calls_per_second'),
        two: ratio('two_leased', 'two_asks', 'calls_per_second'),
      },
      /** Two gateways against one, both with leases: 1 when they do not get in each other's way. */
      messages_two_to_one: ratio('two_leased', 'one_leased', 'reserves_per_1000'),
      race: await race(gateways),
      rounds,
    };
  } finally {
    service.kill('SIGTERM');
    await Promise.all(clients.map((client) => client.close()));
    await Promise.all([nats.stop(), redis.stop()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

function startBudgetService(root, folder, natsUrl, redisUrl) {
  const config = join(folder, 'fleet.yaml');
  const limits = `    roomy: { max_cost_per_tenant: 1000000 }\n    tight: { max_cost_per_tenant: ${LIMIT_MICRO_USD / 1e6} }\n`;
  writeFileSync(config, `budget:\n  tenants:\n${limits}`);
  const environment = {
    NATS_URL: natsUrl,
    REDIS_URL: redisUrl,
    TOOLFLEET_CONFIG: config,
    DATABASE_DIR: folder,
    ENVIRONMENT: 'development',
    ADMIN_HOST: '127.0.0.1',
    ADMIN_PORT: '0',
    LOG_LEVEL: 'error',
  };
  return spawn(process.execPath, [join(root, 'apps/budget/dist/main.js')], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

async function isServed(client) {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    try {
      return await client.request('budget.limits', { scopes: { tenant_id: 'warm' } }, { timeoutMs: 500 });
    } catch {
      await sleep(100);
    }
  }
  throw new Error('the budget service did not start');
}

/** A gateway's way to the budget, with and without leases; counts the reservations that it sends. */
function newGateway(nats) {
  const sent = { reserves: 0 };
  const counting = new Proxy(nats, {
    get(target, key) {
      const value = target[key];
      if (key !== 'request') return typeof value === 'function' ? value.bind(target) : value;
      return (subject, ...rest) => {
        if (subject === 'budget.reserve') sent.reserves += 1;
        return target.request(subject, ...rest);
      };
    },
  });
  const clock = new SystemClock();
  const asks = new BudgetClient(counting, clock, (message) => console.error(message));
  return { sent, asks, leased: new LeasedBudget(asks, clock) };
}

/** One call; false when it is refused. */
async function call(budget, tenant) {
  const call_id = `00000000-0000-7000-8000-${String((serial += 1)).padStart(12, '0')}`;
  const scopes = { tenant_id: tenant, request_id: call_id };
  const reserved = budget.reserve({ call_id, scopes, micro_usd: 1, tokens: 0, lease_ms: 20_000 }, never);
  if (!(await reserved).admitted) return false;
  await sleep(WORK_MS);
  const amounts = { micro_usd: 1, tokens: 0 };
  const shown = { user_id: 'ann', tool_name: 'calculator', real_tokens: 0, success: true, provenance: 'live' };
  budget.settle({ call_id, scopes, ...amounts, row: { call_id, ...scopes, ...shown, ...amounts, at: Date.now() } });
  return true;
}

async function measure(gateways, kind, tenant, servicePid) {
  const cpuBefore = cpuMicros(process.pid) + cpuMicros(servicePid);
  const before = gateways.reduce((sum, { sent }) => sum + sent.reserves, 0);
  const from = performance.now();
  const until = from + SECONDS * 1_000;
  let calls = 0;
  const lane = async (budget) => {
    while (performance.now() < until) {
      if (!(await call(budget, tenant))) throw new Error('refused far below the limit');
      calls += 1;
    }
  };
  await Promise.all(gateways.flatMap((gateway) => Array.from({ length: LANES }, () => lane(gateway[kind]))));
  const seconds = (performance.now() - from) / 1_000;
  const reserves = gateways.reduce((sum, { sent }) => sum + sent.reserves, 0) - before;
  return {
    calls_per_second: Math.round(calls / seconds),
    cpu_us: Number(((cpuMicros(process.pid) + cpuMicros(servicePid) - cpuBefore) / calls).toFixed(1)),
    reserves_per_1000: Number(((reserves * 1_000) / calls).toFixed(1)),
  };
}

/** Two gateways call until the limit is spent: together exactly as often as it allows. */
async function race(gateways) {
  let admitted = 0;
  const lane = async (budget) => {
    while (await call(budget, 'tight')) admitted += 1;
  };
  await Promise.all(gateways.flatMap(({ leased }) => Array.from({ length: LANES }, () => lane(leased))));
  if (admitted !== LIMIT_MICRO_USD)
    throw new Error(`${admitted} calls of 1 were admitted by a limit of ${LIMIT_MICRO_USD}`);
  return { limit: LIMIT_MICRO_USD, admitted };
}
