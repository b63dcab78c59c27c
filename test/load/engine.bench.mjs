/**
 * Cost of the engine per call, against the bare pair: ajv validation and the function itself. Everything in memory, so
 * the figures are the engine's own, without NATS and Redis. CPU time, rounds of all variants interleaved: a busy machine slows
 * all of them alike, so trust the ratios.
 *
 *   node test/load/engine.bench.mjs [seconds per variant, default 2]     (after `tsc -b libs/testing`)
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { SingleFlight, Deadline, RetryBudget, SystemClock, takeToken } from '@toolfleet/resilience';
import { ArgumentReader, fingerprint } from '@toolfleet/bounded-schema';
import { Audit, Executor, makeExecuteCall } from '@toolfleet/engine';
import { MemoryBudget, memoryPorts } from '@toolfleet/testing/memory-ports';

const SECONDS = Number(process.argv[2] ?? 2);
const ROUNDS = 10;
const clock = new SystemClock();

const schema = {
  type: 'object',
  properties: {
    query: { type: 'string', minLength: 1 },
    max_results: { type: 'integer', minimum: 1, maximum: 100, default: 10 },
    site: { type: 'string' },
    safe: { type: 'boolean' },
  },
  required: ['query'],
};
const reply = { ok: true, output: { results: [1, 2, 3] }, text: 'Found 3 results', metadata: { source: 'x' } };

class NoOp extends Executor {
  async execute() {
    return reply;
  }
}
class SilentAudit extends Audit {
  finished() {}
}
class CountingBudget extends MemoryBudget {
  reserve(ask) {
    this.held.set(ask.call_id, ask.micro_usd);
    return { admitted: true, call_id: ask.call_id };
  }
  settle(ask) {
    this.held.delete(ask.call_id);
    this.spent += ask.micro_usd;
  }
  release(callId) {
    this.held.delete(callId);
  }
}

const tool = (parts) => ({
  name: 'web_search',
  version: '1.0.0',
  description: '',
  category: 'search',
  revision: JSON.stringify(parts),
  available: true,
  input_schema: schema,
  binding: { kind: 'builtin', toolset: 'web', handler: 'web_search' },
  source: { kind: 'builtin', name: 'builtin' },
  rate_limit: 100_000_000,
  ...parts,
});

function engine(parts, interceptors = []) {
  const ports = { clock, audit: new SilentAudit(), budget: new CountingBudget(), interceptors };
  return makeExecuteCall(memoryPorts([tool(parts)], new NoOp(), ports));
}

/** An interceptor in process that changes nothing. */
const passing = (name) => ({
  name,
  at: ['call'],
  timeoutMs: 2_000,
  failsOpen: false,
  watches: () => true,
  intercept: (_call, next) => next(),
});

let serial = 0;
const never = new AbortController().signal;
const principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' };
const request = (args) => ({
  callId: `c${(serial += 1)}`,
  target: { toolName: 'web_search' },
  input: { rawArguments: args },
  principal,
  origin: 'public',
  entryPoint: 'http',
  context: {},
  limits: { deadlineAt: Date.now() + 120_000 },
  reuse: {},
  signal: new AbortController().signal,
  mode: { kind: 'run' },
});
const fresh = () => ({ query: `news ${(serial += 1)}`, max_results: 5, site: 'example.com', safe: true });
const same = { query: 'news', max_results: 5, site: 'example.com', safe: true };

const validate = new Ajv2020({ useDefaults: true }).compile(schema);
const noOp = new NoOp();
const reader = new ArgumentReader(schema, { toolName: 'web_search' });
const uncached = engine({ idempotent: true, cache_ttl_seconds: 0 });
const intercepted = engine({ idempotent: true, cache_ttl_seconds: 0 }, [passing('a')]);
const twice = engine({ idempotent: true, cache_ttl_seconds: 0 }, [passing('a'), passing('b')]);
const unlimited = engine({ idempotent: true, cache_ttl_seconds: 0, rate_limit: 0 });
const cached = engine({ idempotent: true });
const effect = engine({ idempotent: false });
const flights = new SingleFlight();
const budget = new RetryBudget();
let bucket;

/** One step around work that does nothing, with a call that was opened before: what it adds to each call. */
async function steps() {
  const dist = new URL('../../libs/engine/dist/', import.meta.url);
  const { buildCall, newActiveCall } = await import(new URL('call.js', dist));
  const { Steps } = await import(new URL('step.js', dist));
  const { loadShedding, ToolLatencies } = await import(new URL('steps/load-shedding.js', dist));
  const { ToolPlans } = await import(new URL('tool-plan.js', dist));
  const ports = memoryPorts([], new NoOp(), { clock, audit: new SilentAudit(), budget: new CountingBudget() });
  const plans = new ToolPlans(ports.settings);
  const latencies = new ToolLatencies();
  const pure = tool({ idempotent: true, cache_ttl_seconds: 0 });
  const timing = { queue_ms: 0, wait_ms: 0, execute_ms: 0 };
  const result = { ...reply, provenance: 'live', usage: { tokens: 0, microUsd: 0 }, attempts: 1, timing };
  const open = (definition) => {
    const asked = request(fresh());
    const active = newActiveCall(asked, clock.monotonic());
    const deadline = Deadline.at(clock, asked.limits.deadlineAt);
    const resolved = { active, signal: asked.signal, deadline, tool: definition, plan: plans.get(definition) };
    return buildCall(resolved, asked.input.rawArguments, undefined, ports.settings);
  };
  const around = (made, definition) => {
    const chained = made.reduce((all, one) => all.add(one), Steps.of()).around(async () => result);
    return () => chained(open(definition));
  };
  const rows = { 'chain: none (opens the call)': around([], pure) };
  const row = async (label, file, name, definition = pure) => {
    const module = await import(new URL(`steps/${file}.js`, dist));
    rows[`chain: ${label}`] = around([module[name](ports, latencies)], definition);
  };
  await row('idempotency key, none', 'idempotency-key', 'idempotencyKey');
  await row('cache, miss and store', 'cache', 'cache', tool({ idempotent: true }));
  await row('session dedupe, no session', 'session-dedupe', 'sessionDedupe');
  await row('single flight', 'single-flight', 'singleFlight');
  await row('concurrency limit', 'concurrency-limit', 'concurrencyLimit');
  rows['chain: load shedding'] = around([loadShedding(latencies)], pure);
  await row('rate limit', 'rate-limit', 'rateLimit');
  await row('budget', 'budget', 'budget');
  await row('fallback, not needed', 'fallback', 'fallback');
  await row('retry, not needed', 'retry', 'retry');
  await row('breaker', 'breaker', 'breaker');
  await row('attempt timeout', 'attempt-timeout', 'attemptTimeout');
  await row('journal, idempotent', 'journal', 'journal');
  await row('journal in memory, with effects', 'journal', 'journal', tool({ idempotent: false }));
  return rows;
}

/** Name → one call of it. `single` variants are steps of the engine alone. */
const variants = {
  'bare: ajv + function': async () => {
    const args = fresh();
    if (!validate(args)) throw new Error('invalid');
    return noOp.execute(args);
  },
  'engine: idempotent, uncached': () => uncached(request(fresh())),
  'engine: + one passing interceptor': () => intercepted(request(fresh())),
  'engine: + two passing interceptors': () => twice(request(fresh())),
  'engine: + result cache, miss': () => cached(request(fresh())),
  'engine: cached hit': () => cached(request(same)),
  'engine: with effects, journalled': () => effect(request(fresh())),
  'engine: no rate limit': () => unlimited(request(fresh())),
  'engine: 3 coercions, 1 dropped': () =>
    uncached(request({ query: `n ${(serial += 1)}`, max_results: '5', safe: 'yes', site: 7, zap: 1 })),
  'engine: refused (invalid)': () => uncached(request({ max_results: 'x' })).catch(() => {}),
  'step: request + deadline': async () => request(fresh()),
  'step: read arguments': async () => reader.read(fresh()),
  'step: cache key (RFC 8785 + SHA-256)': async () => fingerprint(['acme', 'web_search', 'r', fresh()]),
  'step: token bucket': async () => {
    const taken = takeToken(bucket, { perPeriod: 1e8, periodMs: 60_000 }, clock.monotonic());
    bucket = taken.state;
  },
  'step: coalesce': () => flights.join(`k${(serial += 1)}`, never, async () => reply),
  'step: retry budget': async () => budget.deposit(),
  ...(await steps()),
};

const CONCURRENCY = 64;
async function run(call, ms) {
  const from = performance.now();
  const before = process.cpuUsage();
  let calls = 0;
  while (performance.now() - from < ms) {
    const turn = [];
    for (let index = 0; index < CONCURRENCY; index += 1) turn.push(call());
    await Promise.all(turn);
    calls += CONCURRENCY;
  }
  const { user, system } = process.cpuUsage(before); // not wall time: what others run on the machine costs them
  return { calls, ms: (user + system) / 1_000 };
}

const totals = Object.fromEntries(Object.keys(variants).map((name) => [name, { calls: 0, ms: 0 }]));
for (const call of Object.values(variants)) await run(call, 100); // warm up
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, call] of Object.entries(variants)) {
    const { calls, ms } = await run(call, (SECONDS * 1_000) / ROUNDS);
    totals[name].calls += calls;
    totals[name].ms += ms;
  }
}

const coalesced = await measureCoalesced();
const micros = (name) => (totals[name].ms * 1_000) / totals[name].calls;
const bare = micros('bare: ajv + function');
const opened = micros('chain: none (opens the call)');
console.log(`node ${process.version}, ${SECONDS} s per variant, ${CONCURRENCY} concurrent, interleaved\n`);
for (const name of Object.keys(variants)) {
  const us = micros(name);
  const base = name.startsWith('chain:') ? opened : bare;
  const rate = Math.round(1e6 / us).toLocaleString('en');
  const figures = [
    `${us.toFixed(2).padStart(7)} µs CPU`,
    `${rate.padStart(10)} /s`,
    `${(us - base).toFixed(2).padStart(7)} µs added`,
  ];
  console.log(name.padEnd(40), ...figures);
}
const shared = `${coalesced.us.toFixed(2).padStart(7)} µs CPU, ${coalesced.runs} runs for ${coalesced.calls} calls`;
console.log('engine: 64 identical at once'.padEnd(40), shared);

/** Identical concurrent calls of a tool that is never cached: how many of them the executor sees. */
async function measureCoalesced() {
  let runs = 0;
  class Slow extends Executor {
    async execute() {
      runs += 1;
      await new Promise((resolve) => setImmediate(resolve));
      return reply;
    }
  }
  const execute = makeExecuteCall(
    memoryPorts([tool({ idempotent: true, cache_ttl_seconds: 0 })], new Slow(), {
      clock,
      audit: new SilentAudit(),
      budget: new CountingBudget(),
    }),
  );
  const { calls, ms } = await run(() => execute(request(same)), SECONDS * 1_000);
  return { us: (ms * 1_000) / calls, runs, calls };
}
