/**
 * The cost of a call through openapi-executor compared with bare undici: both send the same GET to the same loopback upstream, in
 * alternating rounds of one process. Prints median and p99 in ms and their ratio. Times of shared machines say nothing;
 * the ratio of one run does.
 */
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const load = (path) => import(new URL(path, `file://${ROOT}/`).href);
const [{ convertDocument, parseSpec, planJson }, { EgressClient }, { BreakerMap, SystemClock }] = await Promise.all([
  load('libs/kits/openapi/dist/index.js'),
  load('libs/kits/egress/dist/index.js'),
  load('libs/resilience/dist/index.js'),
]);
const [{ OpenApiExecutor }, { Credentials }, { OAuthTokens }, { IdempotentOnlyGuard }, { VendorAdapters }] =
  await Promise.all([
    load('apps/openapi-executor/dist/openapi-executor.js'),
    load('apps/openapi-executor/dist/credentials.js'),
    load('apps/openapi-executor/dist/oauth-tokens.js'),
    load('libs/journal/dist/index.js'),
    load('apps/openapi-executor/dist/vendor-adapters/find-adapter.js'),
  ]);

const ROUNDS = 20;
const CALLS = 100;
const body = JSON.stringify({ items: Array.from({ length: 20 }, (_, id) => ({ id, name: `item ${id}` })) });
const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(body));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

const parameters = [
  { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
  { name: 'tags', in: 'query', explode: false, schema: { type: 'array', items: { type: 'string' } } },
];
const document = { openapi: '3.1.0', paths: { '/items/{id}': { get: { operationId: 'get', parameters } } } };
const tool = convertDocument(parseSpec(JSON.stringify(document)), { baseUrl: origin }).tools[0];
const message = {
  call_id: 'bench',
  attempt: 1,
  fence: 1,
  journalled: false,
  tool: 'get',
  revision: '1',
  binding: {
    kind: 'openapi',
    collection: 'bench',
    baseUrl: origin,
    operationId: 'get',
    method: 'GET',
    path: '/items/{id}',
    plan: planJson(tool.plan()),
    options: { auth_type: 'bearer', auth_config: { token: 'a-token-of-the-bench' } },
  },
  arguments: { id: 'a b', tags: ['x', 'y'] },
  context: { tenant_id: 't' },
};
const clock = new SystemClock();
const egress = new EgressClient({ allowlist: [], allowedEndpoints: [origin], clock });
const executor = new OpenApiExecutor(
  {
    egress,
    credentials: new Credentials({ expander: { expand: (value) => value } }, new OAuthTokens(egress, clock)),
    gate: new IdempotentOnlyGuard(),
    clock,
  },
  new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock),
  new VendorAdapters({ warn: () => undefined }),
);
const pool = new Pool(origin, { connections: 10 });
const signal = new AbortController().signal;

const ways = {
  undici: async () => {
    const response = await pool.request({ path: '/items/a%20b?tags=x,y', method: 'GET' });
    await response.body.json();
  },
  executor: async () => {
    const reply = await executor.execute(message, { remainingMs: 30_000, signal });
    if (!reply.ok) throw new Error(reply.failure.message);
  },
};
const times = { undici: [], executor: [] };
for (let round = -2; round < ROUNDS; round += 1) {
  for (const [name, call] of Object.entries(ways)) {
    for (let index = 0; index < CALLS; index += 1) {
      const startedAt = performance.now();
      await call();
      if (round >= 0) times[name].push(performance.now() - startedAt);
    }
  }
}
const figure = (values, share) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] * 1_000) / 1_000;
const row = (values) => ({ p50_ms: figure(values, 0.5), p99_ms: figure(values, 0.99) });
const [bare, ours] = [row(times.undici), row(times.executor)];
process.stdout.write(
  `${JSON.stringify({ calls: times.undici.length, undici: bare, executor: ours, added_p50_ms: Math.round((ours.p50_ms - bare.p50_ms) * 1_000) / 1_000, ratio_p50: Math.round((ours.p50_ms / bare.p50_ms) * 100) / 100 })}\n`,
);
await pool.close();
await egress.close();
server.closeAllConnections();
server.close();
