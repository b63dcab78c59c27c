/**
 * What a call costs when there is much of something: CPU of all processes with few and with many keys, tenants, tools and bytes of a result, and the
 * exponent by which it grows (0: not at all, 1: in proportion). Also the longest turn of an event loop, in CPU time. Records are grown by
 * records.bench.mjs.
 *
 *   npm run bench -- growth     GROWTH_MANY=n keys, tenants and tools (2000)
 */
import { createServer } from 'node:http';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { closedLoop, totalCpuMicros } from './measure.mjs';
import { withFleet } from './with-fleet.mjs';

const MANY = Number(process.env.GROWTH_MANY ?? 2_000);
/** A tenant has at most 1,000. */
const KEYS = Math.min(MANY, 900);
const WARM_CALLS = 20_000;
const CALLS = 10_000;
const CONNECTIONS = 32;
/** Bytes of small and large results; calls of the large ones. */
const [SMALL, LARGE, LARGE_CALLS] = [1_024, 1_048_576, 400];
/** Few, so that a turn has one large result. */
const LARGE_CONNECTIONS = 4;
const NEVER = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
const LISTED_WITHIN_MS = 60_000;

/** @param {string} root of the repository */
export async function growthBench(root) {
  const folder = mkdtempSync(join(tmpdir(), 'growth-'));
  const upstream = await startUpstream();
  const config = join(folder, 'sources.yaml');
  const configure = (sources) => {
    const limits = { tiers: { admin: NEVER, wide: NEVER } };
    writeFileSync(config, JSON.stringify({ rate_limits: limits, openapi_tools: sources }));
  };
  configure({ few: source(upstream.origin, 1) });
  const { NODE_OPTIONS: options = '' } = process.env;
  const addMany = () => configure({ few: source(upstream.origin, 1), many: source(upstream.origin, MANY) });
  const env = {
    TURNS: folder,
    NODE_OPTIONS: `${options} --import=${join(root, 'test/load/turn-hook.mjs')}`.trim(),
    EGRESS_ALLOWED_ENDPOINTS: upstream.origin,
  };
  try {
    const rows = await withFleet(root, (fleet) => growAll(fleet, addMany, folder), { env, config });
    return { name: 'growth', rows };
  } finally {
    upstream.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function growAll(fleet, addMany, folder) {
  const pool = new Pool(fleet.url, { connections: CONNECTIONS, pipelining: 1 });
  const processes = {
    ...Object.fromEntries(fleet.services.map(({ name, pid }) => [name, pid])),
    ...fleet.broker_pids,
  };
  const post = async (path, body, key = fleet.api_key) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
    const response = await pool.request({ method: 'POST', path, headers, body: JSON.stringify(body) });
    const text = await response.body.text();
    if (response.statusCode >= 300) throw new Error(`${path}: ${response.statusCode} ${text.slice(0, 300)}`);
    return text;
  };
  let n = 0;
  const measure = async ({
    keys = [fleet.api_key],
    tool = 'calculator',
    args,
    calls = CALLS,
    connections = CONNECTIONS,
  }) => {
    const send = () => {
      n += 1;
      const body = { arguments: args ?? { expression: `${n} * 2` } };
      return post(`/api/v1/tools/${tool}/execute`, body, keys[n % keys.length]);
    };
    const from = Date.now();
    const measured = await closedLoop(send, { connections, calls, processes });
    return {
      cpu_us: Math.round(totalCpuMicros(measured)),
      longest_turn_ms: await longestTurn(folder, from),
      by_process: measured.cpu_us_per_call,
    };
  };
  const keysOf = async (count, bodyOf) => {
    const keys = [];
    for (let index = 0; index < count; index += CONNECTIONS) {
      const few = Array.from({ length: Math.min(CONNECTIONS, count - index) }, (_, offset) => bodyOf(index + offset));
      const made = await Promise.all(few.map((body) => post('/api/v1/keys', body)));
      keys.push(...made.map((text) => JSON.parse(text).token));
    }
    return keys;
  };
  const rows = [];
  const compare = (what, size, few, many) => {
    const exponent = Math.log(many.cpu_us / few.cpu_us) / Math.log(size);
    rows.push({ what, times: size, exponent: Number(exponent.toFixed(3)), few, many });
  };
  await untilListed(fleet, 1);
  await measure({ calls: WARM_CALLS });
  const one = await measure({});

  const keys = await keysOf(KEYS, (index) => ({ client: `grown-${index}`, tier: 'wide' }));
  await measure({ keys });
  compare('keys of a tenant', KEYS, one, await measure({ keys }));

  const tenants = await keysOf(MANY, (index) => ({ client: 'app', tier: 'wide', tenant_id: `tenant-${index}` }));
  await measure({ keys: tenants });
  compare('tenants', MANY, one, await measure({ keys: tenants }));

  const before = await measure({});
  addMany();
  await untilListed(fleet, MANY);
  await measure({});
  compare('tools of the fleet', MANY, before, await measure({}));

  const small = { tool: 'few_bytes', args: { count: String(SMALL) } };
  const large = {
    tool: 'few_bytes',
    args: { count: String(LARGE) },
    calls: LARGE_CALLS,
    connections: LARGE_CONNECTIONS,
  };
  await measure(small);
  await measure(large);
  compare('bytes of a result', LARGE / SMALL, await measure(small), await measure(large));
  await pool.close();
  return rows;
}

/** Of all processes since `from`, in ms. */
async function longestTurn(folder, from) {
  await sleep(300);
  const turns = readdirSync(folder)
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    .map((line) => line.split(' ').map(Number))
    .filter(([at]) => at >= from);
  return Math.round(Math.max(0, ...turns.map(([, ms]) => ms)));
}

const source = (origin, count) => ({
  enabled: true,
  spec_url: `${origin}/openapi/${count}.json`,
  base_url: origin,
  category: 'bench',
  name_prefix: count === 1 ? 'few_' : 'many_',
  auth_type: 'none',
  rate_limit: 0,
});

/** Serves documents of so many operations, and answers of so many bytes. */
async function startUpstream() {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    const document = /^\/openapi\/(\d+)\.json$/.exec(pathname);
    const body = document ? documentOf(Number(document[1])) : { text: 'x'.repeat(Number(searchParams.get('count'))) };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

function documentOf(count) {
  const parameter = { name: 'count', in: 'query', required: true, schema: { type: 'string' } };
  const ok = { 200: { description: 'Bytes.', content: { 'application/json': { schema: { type: 'object' } } } } };
  const operation = (operationId) => ({ operationId, summary: 'Answers.', parameters: [parameter], responses: ok });
  const names = ['bytes', ...Array.from({ length: count - 1 }, (_, index) => `operation${index}`)];
  const paths = Object.fromEntries(names.map((name) => [`/${name}`, { get: operation(name) }]));
  return { openapi: '3.1.0', info: { title: 'growth', version: '1.0.0' }, paths };
}

async function untilListed({ url, api_key: key }, count) {
  const prefix = count === 1 ? 'few_' : 'many_';
  for (const until = Date.now() + LISTED_WITHIN_MS; ; await sleep(200)) {
    const listed = await (await fetch(`${url}/tools/list`, { headers: { authorization: `Bearer ${key}` } })).json();
    if (listed.filter((name) => name.startsWith(prefix)).length >= count) return;
    if (Date.now() > until) throw new Error(`${count} tools are not listed`);
  }
}
