/**
 * Work that waits for people, and events: the time from a yes to the start of the run, the time from the end of a call to its delivery,
 * and the cost of a parked program in the sandbox and in the stores. `npm run bench -- waits`.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { withFleet } from './with-fleet.mjs';

const APPROVED = Number(process.env.BENCH_ROUNDS ?? 100);
const DELIVERED = 500;
/** Calls between two deliveries that are measured are made at this pace, far below the capacity of an endpoint. */
const CALL_EVERY_MS = 20;
const PARKED = 100;
const POLICY = `package tools
deny contains "never" if input.tool == "none"
ask contains "Save it?" if input.tool == "note"
`;

/** A tool and a receiver of events in this process, so that their times have one clock. */
async function startEndpoint() {
  const starts = new Map();
  const events = new Map();
  const server = createServer((request, response) => {
    const at = performance.now();
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      if (request.url === '/hook') {
        if (!events.has(body.data.call_id)) events.set(body.data.call_id, at);
        return response.writeHead(204).end();
      }
      starts.set(body.args.text, at);
      return response.writeHead(200, { 'content-type': 'application/json' }).end('{"saved": true}');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, starts, events, stop: () => server.close() };
}

async function until(what, isTrue, timeoutMs = 120_000) {
  const giveUpAt = performance.now() + timeoutMs;
  while (performance.now() < giveUpAt) {
    if (await isTrue()) return;
    await sleep(50);
  }
  throw new Error(`${what}: not within ${timeoutMs} ms`);
}

/** Milliseconds: median, 99 of 100, and the longest. */
function percentiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Resident MiB of a process and of those that it started. */
function residentMib(pid) {
  const statusOf = (one) => readFileSync(`/proc/${one}/status`, 'utf8');
  const number = (text, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  const children = readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && number(statusOf(name), 'PPid') === pid;
    } catch {
      return false; // it has ended
    }
  });
  return [pid, ...children].reduce((sum, one) => sum + number(statusOf(one), 'VmRSS'), 0) / 1024;
}

const bench = (endpoint) => async (fleet) => {
  const ask = async (path, body, key = fleet.api_key) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const sent = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const answer = await fetch(`${fleet.url}${path}`, { headers, ...sent });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text.slice(0, 300)}`);
    return JSON.parse(text);
  };
  await until('the tool is listed', async () => (await ask('/tools/list')).includes('note'));
  const { tenant_id } = await ask('/api/v1/me');
  const { token: bob } = await ask('/api/v1/keys', { client: 'bob', tenant_id, roles: ['approver'], tier: 'admin' });
  const park = (text) => ask('/api/v1/tools/note/execute', { arguments: { text }, mode: 'async' });
  const approve = (id) => ask(`/api/v1/approvals/${id}/approve`, {}, bob);

  const waits = [];
  for (let round = 0; round < APPROVED + 5; round += 1) {
    const { call_id: id } = await park(`n${round}`);
    const from = performance.now();
    await approve(id);
    await until('the run has started', () => endpoint.starts.has(`n${round}`));
    if (round >= 5) waits.push(endpoint.starts.get(`n${round}`) - from);
  }

  await ask('/api/v1/webhooks', { url: `${endpoint.origin}/hook`, kinds: ['call.finished'] });
  const ends = new Map();
  const call = async (index) => {
    const body = await ask('/api/v1/tools/calculator/execute', { arguments: { expression: `${index}+1` } });
    ends.set(body.call_id, performance.now());
  };
  const calls = [];
  for (let index = 0; index < DELIVERED; index += 1) {
    calls.push(call(index));
    await sleep(CALL_EVERY_MS);
  }
  await Promise.all(calls);
  await until('all are delivered', () => [...ends.keys()].every((id) => endpoint.events.has(id)));
  const delays = [...ends].map(([id, at]) => Math.max(0, endpoint.events.get(id) - at));

  const redis = new Redis(fleet.redis_url);
  const sandbox = fleet.services.find(({ name }) => name === 'python-sandbox');
  const used = async () => ({
    sandbox_mib: sandbox ? residentMib(sandbox.pid) : NaN,
    redis_kib: Number(/used_memory:(\d+)/.exec(await redis.info('memory'))[1]) / 1024,
    rows_kib: databaseKib(join(process.env.DATABASE_DIR, 'records.db')),
  });
  const program = (index) =>
    ask('/api/v1/tools/run_program/execute', {
      arguments: { code: `tools.note(text="first")\ntools.note(text="p${index}")` },
      mode: 'async',
    });
  const waiting = async (count) =>
    until(`${count} programs wait`, async () => {
      const { approvals } = await ask('/api/v1/approvals?state=pending&tool=run_program&limit=500', undefined, bob);
      return approvals.length >= count;
    });
  // The interpreter and its threads are there already.
  for (let index = 0; index < 8; index += 1) await program(-index);
  await waiting(8);
  await sleep(2_000);
  const before = await used();
  for (let index = 0; index < PARKED; index += 1) await program(index);
  await waiting(PARKED + 8);
  await sleep(2_000);
  const after = await used();
  redis.disconnect();
  const perProgram = (name) => Number(((after[name] - before[name]) / PARKED).toFixed(2));
  return {
    name: 'waits',
    yes_to_start_ms: percentiles(waits),
    end_to_delivery_ms: percentiles(delays),
    parked_programs: PARKED,
    sandbox_mib: { before: Math.round(before.sandbox_mib), after: Math.round(after.sandbox_mib) },
    kib_per_parked_program: { redis: perProgram('redis_kib'), records: perProgram('rows_kib') },
  };
};

/** KiB of a database of SQLite with its log. */
function databaseKib(path) {
  const name = path.split('/').at(-1);
  const files = readdirSync(dirname(path)).filter((file) => file.startsWith(name));
  return files.reduce((sum, file) => sum + statSync(join(dirname(path), file)).size, 0) / 1024;
}

/** @param {string} root of the repository */
export async function waitsBench(root) {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-waits-'));
  const endpoint = await startEndpoint();
  writeFileSync(join(folder, 'tools.rego'), POLICY);
  const parameters = [{ name: 'text', type: 'string', required: true, description: 'What to save' }];
  const note = { url: `${endpoint.origin}/run`, func_name: 'note', description: 'Saves', parameters, rate_limit: 0 };
  const config = join(folder, 'note.yaml');
  writeFileSync(config, JSON.stringify({ mcp_tools: { note } }));
  const env = {
    POLICY_DIR: folder,
    EGRESS_ALLOWED_ENDPOINTS: endpoint.origin,
    DATABASE_DIR: folder,
  };
  try {
    return await withFleet(root, bench(endpoint), { env, config });
  } finally {
    endpoint.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
