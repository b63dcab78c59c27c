/**
 * Cost of a reservation on a real Redis: reserves/s for messages of 1, 8 and 32 asks, and their ratio to a bare EVALSHA that
 * does nothing, in one run. Needs a build. Usage: node test/load/budget.bench.mjs [seconds per figure]
 */
import { execFileSync } from 'node:child_process';
import { cpus, loadavg } from 'node:os';
import { startRedis } from '@toolfleet/testing';
import { unlimited, withSettings } from '../../apps/budget/dist/limits.js';
import { RedisReservationStore } from '../../apps/budget/dist/redis-reservation-store.js';
import { DEFAULT_RULES } from '../../apps/budget/dist/reservation-store.js';

const seconds = Number(process.argv[2] ?? 2);
/** Messages on the way at once, as with 32 connections in front of a gateway that batches. */
const IN_FLIGHT = 8;

const server = await startRedis();
const redis = server.client();
const store = new RedisReservationStore(redis, DEFAULT_RULES, async () => []);
const limits = withSettings(unlimited(), {
  max_cost_per_tenant: 1_000,
  max_cost_per_day: 1_000,
  max_cost_per_request: 1_000,
  token_budget_per_agent: 1_000_000_000,
});
let serial = 0;

/** Runs `work` with IN_FLIGHT of it at once; returns runs per second and CPU of this process per run, in microseconds. */
async function measure(work) {
  const until = performance.now() + seconds * 1_000;
  let runs = 0;
  const from = performance.now();
  const cpu = process.cpuUsage();
  const lane = async () => {
    while (performance.now() < until) {
      await work();
      runs += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  const used = process.cpuUsage(cpu);
  return {
    perSecond: Math.round((runs * 1_000) / (performance.now() - from)),
    cpuMicros: Math.round((used.user + used.system) / runs),
  };
}

const asksOf = (size, agent) =>
  Array.from({ length: size }, () => {
    const callId = `00000000-0000-7000-8000-${String((serial += 1)).padStart(12, '0')}`;
    const scopes = { tenant_id: 'acme', request_id: callId, ...(agent ? { agent_id: 'planner' } : {}) };
    return { callId, scopes, microUsd: 1, tokens: 0, leaseMs: 60_000, userId: 'ann', toolName: 'calculator' };
  });
const settlements = (asks) =>
  asks.map((ask) => ({ callId: ask.callId, scopes: ask.scopes, microUsd: 1, tokens: 0, row: JSON.stringify(ask) }));
const reserveAndSettle = async (size) => {
  const asks = asksOf(size, false);
  await store.reserve('acme', limits, asks);
  await store.settle('acme', settlements(asks));
  if (serial % 4_096 < size) await redis.xtrim('{b:acme}:outbox', 'MAXLEN', 0);
};

redis.defineCommand('nothing', { numberOfKeys: 1, lua: 'return 1' });
const rows = [];
try {
  for (let warm = 0; warm < 200; warm += 1) await reserveAndSettle(8);
  const bare = await measure(() => redis.nothing('{b:acme}:scopes', 'a', 'b', 'c'));
  rows.push({ what: 'bare EVALSHA', messagesPerSecond: bare.perSecond, callsPerSecond: bare.perSecond, ratio: 1 });
  for (const size of [1, 8, 32]) {
    await redis.flushall();
    const reserve = await measure(() => store.reserve('acme', limits, asksOf(size, false)));
    rows.push(row(`reserve, ${size} asks`, reserve, size, bare));
  }
  await redis.flushall();
  rows.push(
    row('reserve with agent, 8 asks', await measure(() => store.reserve('acme', limits, asksOf(8, true))), 8, bare),
  );
  for (const size of [1, 8]) {
    await redis.flushall();
    rows.push(row(`reserve + settle, ${size} calls`, await measure(() => reserveAndSettle(size)), size, bare));
  }
} finally {
  await server.stop();
}

function row(what, { perSecond, cpuMicros }, size, bare) {
  return {
    what,
    messagesPerSecond: perSecond,
    callsPerSecond: perSecond * size,
    ratio: Number(((perSecond * size) / bare.perSecond).toFixed(2)),
    clientCpuMicrosPerCall: Number((cpuMicros / size).toFixed(1)),
  };
}

console.table(rows);
const redisVersion = execFileSync('redis-server', ['--version'], { encoding: 'utf8' }).match(/v=(\S+)/)?.[1];
console.log(
  JSON.stringify({ node: process.version, redis: redisVersion, cpus: cpus().length, load: loadavg()[0], rows }),
);
