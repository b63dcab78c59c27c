/**
 * What recording costs a gateway per call, and the store of calls: rows per second, bytes per million rows, how long lists and sums
 * take over many rows, and the longest delay of the event loop meanwhile. CPU time depends less on what else the machine does; PostgreSQL's is not in it.
 * `node test/load/records.bench.mjs [rows] [postgres URL]`; without a URL the embedded SQLite in a folder of its own.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import pg from 'pg';
import { RecordedCallStore } from '../../apps/records/dist/call-store.js';
import { postgresDialect, sqliteDialect } from '../../libs/database/dist/index.js';
import { CallBodies } from '../../libs/records/dist/call-bodies.js';
import { CallRecorder } from '../../libs/records/dist/call-recorder.js';
import { SystemClock } from '../../libs/resilience/dist/index.js';

const RECORDED = 20_000;
/** Calls of a gateway within the time for which the recorder collects them. */
const COLLECTED = 250;

/** The registry's definition, shared by all calls. */
const TOOL = {
  name: 'calculator',
  revision: '0123456789abcdef',
  binding: { kind: 'builtin' },
  source: { kind: 'builtin', name: 'builtin.compute' },
  input_schema: { type: 'object', properties: { expression: { type: 'string' } } },
};

console.log(`${(await recorderMicros()).toFixed(1)} µs of CPU per call in a gateway, with its share of the message`);
const { median, bytes: bodyBytes } = await bodyMicros();
console.log(`${median.toFixed(1)} µs more with its arguments and result, ${bodyBytes} bytes`);

const [rows = '1000000', url] = process.argv.slice(2);
const BATCH = 500;
const TOOLS = 200;
const TENANTS = 50;
const DAYS = 10;
const ROUNDS = 40;

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-bench-'));
const store = new RecordedCallStore(
  url ? postgresDialect(url, { application: 'bench' }) : sqliteDialect(join(folder, 'records.db')),
);
await store.open();
const start = Date.now() - DAYS * 86_400_000;
const step = (DAYS * 86_400_000) / Number(rows);

/** A call as gateways send them: 3 % fail, tools and tenants are used unevenly. */
function call(index) {
  const uneven = (size) => Math.floor(Math.random() ** 3 * size);
  const failed = index % 33 === 0;
  return {
    call_id: randomUUID(),
    request_id: randomUUID(),
    trace_id: randomUUID().replaceAll('-', ''),
    ended_at: Math.round(start + index * step),
    tenant_id: `tenant-${uneven(TENANTS)}`,
    user_id: `user-${uneven(1_000)}`,
    key_id: `key-${uneven(500)}`,
    agent_id: `agent-${uneven(100)}`,
    tool: `service_operation_${uneven(TOOLS)}`,
    revision: '0123456789abcdef',
    source: 'openapi/service',
    kind: 'openapi',
    entry_point: 'http',
    origin: 'public',
    status: failed ? 'tool_error' : 'success',
    outcomes: { transport: 'delivered', protocol: 'ok', tool: failed ? 'failed' : 'ok' },
    ...(failed && { code: 'UPSTREAM_ERROR', error: 'The service answered 500' }),
    provenance: 'live',
    attempts: 1,
    duration_ms: Math.round(Math.random() ** 4 * 50_000) / 10,
    stages: { admit_ms: 0.4, wait_ms: 0, queue_ms: 0, execute_ms: 20, rest_ms: 1 },
    micro_usd: index % 3 === 0 ? 1_000 : 0,
    tokens: 0,
  };
}

const began = performance.now();
let sampleId;
for (let index = 0; index < Number(rows); index += BATCH) {
  const calls = Array.from({ length: BATCH }, (_, offset) => call(index + offset));
  sampleId ??= calls[7].call_id;
  await store.append(randomUUID(), calls, calls[0].ended_at);
}
const seconds = (performance.now() - began) / 1_000;
console.log(`${Math.round(Number(rows) / seconds)} rows/s, ${rows} rows in ${seconds.toFixed(0)} s`);

async function bytes() {
  if (!url) return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  const client = new pg.Client(url);
  await client.connect();
  const { rows: found } = await client.query('select pg_database_size(current_database()) as bytes');
  await client.end();
  return Number(found[0].bytes);
}
console.log(`${Math.round(((await bytes()) / Number(rows)) * 1e6) / 1e6} bytes per row`);

const LISTS = {
  'newest of the fleet': () => ({}),
  'newest of a tenant': () => ({ tenant_id: 'tenant-3' }),
  'failures of a tenant': () => ({ tenant_id: 'tenant-3', status: ['tool_error', 'refused'] }),
  'a tool of a tenant': () => ({ tenant_id: 'tenant-3', tool: 'service_operation_150' }),
  'slower than 4.9 s of a tenant': () => ({ tenant_id: 'tenant-3', min_duration_ms: 4_900 }),
  'a user of a tenant': () => ({ tenant_id: 'tenant-3', user_id: 'user-900' }),
  'a user of the fleet who made none': () => ({ user_id: 'user-none' }),
  'one day of a tenant': () => ({ tenant_id: 'tenant-3', from: start + 86_400_000, to: start + 2 * 86_400_000 }),
  'one call': () => ({ call_id: sampleId }),
  'sums of a tenant by tool and day': () => ({ tenant_id: 'tenant-3', group_by: ['tool', 'day'], limit: 1 }),
  'sums of the fleet by key': () => ({ group_by: ['key'], limit: 1 }),
};
for (const [name, query] of Object.entries(LISTS)) {
  const times = [];
  const cpuBefore = process.cpuUsage();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  for (let round = 0; round < ROUNDS && times.reduce((sum, ms) => sum + ms, 0) < 10_000; round += 1) {
    const from = performance.now();
    await store.list({ limit: 100, ...query() });
    times.push(performance.now() - from);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  const cpuMs = (user + system) / 1_000 / times.length;
  delay.disable();
  const delayed = `the event loop delayed by at most ${(delay.max / 1e6).toFixed(0)} ms`;
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1);
  const cpu = `${cpuMs.toFixed(1)} ms of CPU`;
  console.log(`${name}: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, ${cpu} (${times.length} lists), ${delayed}`);
}
await store.close();
rmSync(folder, { recursive: true, force: true });

/** CPU of turning ended calls into a message, less the CPU of making the calls: the median of rounds that alternate. */
async function recorderMicros(bodies) {
  const records = {
    append: async (batch) => {
      Buffer.from(JSON.stringify(batch));
      return { stored: true };
    },
  };
  const recorder = new CallRecorder({
    records,
    clock: new SystemClock(),
    maxSpooled: 1e9,
    onDropped: () => {},
    bodies,
  });
  const round = async (isRecorded) => {
    const before = process.cpuUsage();
    for (let index = 1; index <= RECORDED; index += 1) {
      const record = endedCall(index);
      if (!isRecorded) continue;
      recorder.finished(record);
      if (index % COLLECTED === 0) await recorder.flush();
    }
    const { user, system } = process.cpuUsage(before);
    return (user + system) / RECORDED;
  };
  for (const isRecorded of [true, false]) await round(isRecorded);
  const costs = [];
  for (let index = 0; index < 21; index += 1) costs.push((await round(true)) - (await round(false)));
  return costs.toSorted((a, b) => a - b)[10];
}

/** The same for arguments and results, redacted and cut. */
async function bodyMicros() {
  const bodies = new CallBodies({ keep: 'all', redact: { '*': ['card.number'] } });
  const differences = [];
  for (let index = 0; index < 3; index += 1)
    differences.push((await recorderMicros(bodies)) - (await recorderMicros()));
  return { median: differences.toSorted((a, b) => a - b)[1], bytes: bodies.of(endedCall(1)).bytes };
}

/** A builtin call as the engine records it. */
function endedCall(index) {
  const principal = { tenantId: 'acme', userId: 'ann', keyId: 'key1', via: 'api_key', roles: ['dev'] };
  const request = {
    callId: `01a20901-dba4-70b3-b158-${index}`,
    requestId: `request-${index}`,
    target: { toolName: 'calculator' },
    input: { rawArguments: { expression: '6 * 7' } },
    reuse: {},
    principal,
    context: {},
    entry_point: 'http',
    origin: 'public',
    mode: { kind: 'run' },
  };
  return {
    call: { request, tool: TOOL, startedAt: 100, admittedAt: 101, attempts: 1, waitedMs: 0 },
    ok: true,
    durationMs: 20.123,
    microUsd: 1,
    attempts: 1,
    provenance: 'live',
    timing: { queue_ms: 0, wait_ms: 0, execute_ms: 10 },
    result: { usage: { tokens: 0 }, output: { result: 42, expression: '6 * 7' }, text: '42' },
  };
}
