/**
 * Time to test rules with recorded calls, and how long they hold the event loop: the shipped policy, one that asks for the time of each
 * call, a rate limit and a budget. Store and gateway share this process; between them are messages as over NATS, without the network.
 * `node test/load/rules.bench.mjs [rows]` after a build.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { RuleTests } from '../../libs/rules/dist/rule-tests.js';
import { RecordedCallStore } from '../../apps/records/dist/call-store.js';
import { sqliteDialect } from '../../libs/database/dist/index.js';
import { SystemClock } from '../../libs/resilience/dist/index.js';

const ROWS = Number(process.argv[2] ?? 1_000_000);
const BATCH = 500;
const DAYS = 30;
const TENANTS = 50;
const USERS = 1_000;
const NAMES = ['calculator', 'file_write', 'file_read', ...Array.from({ length: 200 }, (_, index) => `tool_${index}`)];

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-bench-'));
const store = new RecordedCallStore(sqliteDialect(join(folder, 'records.db')));
await store.open();
const start = Date.now() - DAYS * 86_400_000;
const step = (DAYS * 86_400_000) / ROWS;
const uneven = (size) => Math.floor(Math.random() ** 3 * size);

function call(index) {
  const user = uneven(USERS);
  return {
    call_id: randomUUID(),
    ended_at: Math.round(start + index * step),
    tenant_id: `tenant-${user % TENANTS}`,
    user_id: `user-${user}`,
    key_id: `key-${user}`,
    via: 'api_key',
    roles: user % 10 === 0 ? ['admin'] : [],
    tool: NAMES[uneven(NAMES.length)],
    revision: '0123456789abcdef',
    source: 'builtin/builtin.compute',
    kind: 'builtin',
    entry_point: 'http',
    origin: 'public',
    status: 'success',
    outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
    attempts: 1,
    duration_ms: 12,
    stages: { admit_ms: 0.4, wait_ms: 0, queue_ms: 0, execute_ms: 10, rest_ms: 1 },
    micro_usd: 1_000,
    tokens: 0,
  };
}
for (let index = 0; index < ROWS; index += BATCH) {
  const calls = Array.from({ length: BATCH }, (_, offset) => call(index + offset));
  await store.append(randomUUID(), calls, calls[0].ended_at);
}

const definition = (name) => ({
  name,
  version: '1.0.0',
  description: name,
  category: 'data',
  input_schema: { type: 'object' },
  binding: { kind: 'builtin', toolset: 'compute', handler: name },
  source: { kind: 'builtin', name: 'builtin.compute' },
  revision: '0123456789abcdef',
  available: true,
  cost_per_use_micro_usd: 1_000,
});
const clock = new SystemClock();
/** As the service does: half of `STORE_TIMEOUT_MS` for a request. */
const facts = async (query) => {
  const until = performance.now() + 2_500;
  return JSON.parse(JSON.stringify(await store.facts(query, () => performance.now() > until)));
};
const feed = { one: async (_, id) => ({ call_id: id }) };
const tests = new RuleTests({ facts }, { get: async (name) => definition(name) }, {}, feed, {}, clock);
const operator = { tenantId: 'operator', userId: 'op', roles: ['operator'], tools: ['*'], via: 'api_key' };

const shipped = readFileSync(new URL('../../deploy/policies/tools.rego', import.meta.url), 'utf8');
const timed = `${shipped}\ndeny contains "at night" if { input.tool == "file_read"; time.now_ns() % 2 == 1 }\n`;
const policy = (text) => ({ policy: { files: [{ name: 'tools.rego', text }] } });
const RULES = {
  'shipped policy': policy(shipped),
  'policy with times': policy(timed),
  'rate limit of a tool': { rate_limit: { tool: 'calculator', per_minute: 5 } },
  'budget of a tenant': { budget: { subject: 'tenant', limit_usd: 5 }, tenant_id: 'tenant-0' },
};
for (const [name, test] of Object.entries(RULES)) {
  const loop = monitorEventLoopDelay({ resolution: 1 });
  loop.enable();
  const cpuBefore = process.cpuUsage();
  const {
    calls,
    refused,
    undecidable,
    is_partial: isPartial,
    took_ms: tookMs,
  } = await tests.run(operator, {
    from: start - 1_000,
    ...test,
  });
  loop.disable();
  const { user, system } = process.cpuUsage(cpuBefore);
  const [p99, max] = [loop.percentile(99), loop.max].map((ns) => Math.round(ns / 1e6));
  console.log(
    JSON.stringify({
      name,
      calls,
      refused,
      undecidable,
      isPartial,
      tookMs,
      cpuMs: Math.round((user + system) / 1_000),
      loopMs: { p99, max },
    }),
  );
}
await store.close();
rmSync(folder, { recursive: true, force: true });
