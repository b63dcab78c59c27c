/** What plugins receive of a call, on every entry point of a running fleet, and what they can answer. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../../fleet/test-fleet.js';

/** Tools that answer with all they receive: one declares nothing, one is session-aware, one declares the tenant. */
const MIRRORS = `const mirror = ({ defineTool, ok }, name, declared) => defineTool({
  name, description: 'Returns its context', category: 'data', rateLimit: 0, idempotent: true, ...declared,
  inputSchema: { type: 'object', properties: {} },
  handler: (args, run) => ok({ args, context: run.context, visible: JSON.stringify(run) }, 'context'),
});
const rejecting = ({ defineTool, ok, fail }) => defineTool({
  name: 'order', description: 'Orders a number of items', category: 'data', rateLimit: 0,
  inputSchema: { type: 'object', properties: { items: { type: 'integer' } }, required: ['items'] },
  handler: ({ items }) =>
    items > 2 ? fail('Only 24 items are left', { hint: 'Order at most 2 dozen.', output: { left: 24 } })
    : ok({ ordered: items * 12 }, items + ' dozen ordered'),
});
const looping = ({ defineTool }) => defineTool({
  name: 'loop', description: 'Never ends', category: 'data', rateLimit: 0, timeoutSeconds: 2,
  inputSchema: { type: 'object', properties: {} },
  handler: () => { for (;;); },
});
const environment = ({ defineTool, ok }) => defineTool({
  name: 'environment', description: 'Returns the names of its environment', category: 'data', rateLimit: 0,
  inputSchema: { type: 'object', properties: {} },
  handler: () => ok(Object.keys(process.env), ''),
});
export default (api) => [
  rejecting(api),
  looping(api),
  environment(api),
  mirror(api, 'mirror_nothing', {}),
  mirror(api, 'mirror_session', { sessionAware: true }),
  mirror(api, 'mirror_tenant', { contextKeys: ['tenant_id'] }),
];`;

let plugins: string;
let fleet: TestFleet;
let nats: NatsConnection;
beforeAll(async () => {
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'mirrors.tool.mjs'), MIRRORS);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['mirror_nothing', 'mirror_session', 'mirror_tenant'],
    env: { BUILTIN_PLUGINS_DIR: plugins },
  });
  nats = await connect({ servers: fleet.nats.url.replace('nats://', '') });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  if (plugins) await rm(plugins, { recursive: true, force: true });
});

const SESSION = { session_id: 's1' };

async function overHttp(tool: string, tenant = 'acme') {
  const { body, status, text } = await fleet.call(tool, {}, { fields: SESSION, key: fleet.keys[tenant]! });
  expect(status, text).toBe(200);
  return body.output;
}

async function overNats(tool: string, tenant = 'acme') {
  const headers = natsHeaders();
  headers.set('Authorization', `Bearer ${fleet.keys[tenant]!}`);
  const message = { name: tool, arguments: {}, ...SESSION, user_id: 'ann', project_id: 'p', model: 'm' };
  const reply = await nats.request('tool.call', JSON.stringify(message), { timeout: 20_000, headers });
  return reply.json<{ output: any }>().output;
}

describe.each([
  ['HTTP', overHttp],
  ['NATS', overNats],
])('a plugin called over %s', (_entry, call) => {
  it('receives no context that it does not declare, and no tenant', async () => {
    const { args, context, visible } = await call('mirror_nothing');
    expect({ args, context }).toEqual({ args: {}, context: {} });
    expect(visible).not.toContain('acme');
  });

  it('receives session and user, and no tenant, if it is session-aware', async () => {
    const { context } = await call('mirror_session');
    expect(Object.keys(context).toSorted()).toEqual(['session_id', 'user_id']);
  });

  it('receives the tenant of the credential if it declares it, and never that of another', async () => {
    expect((await call('mirror_tenant')).context).toEqual({ tenant_id: 'acme' });
    expect((await call('mirror_tenant', 'globex')).context).toEqual({ tenant_id: 'globex' });
  });
});

describe('a plugin', () => {
  const order = async (items: unknown) => (await fleet.call('order', { items })).body;

  it('fails with a code, a hint and partial output that it returns', async () => {
    const body = await order(3);
    expect(body).toMatchObject({
      success: false,
      output: { left: 24 },
      error: 'Only 24 items are left',
      metadata: { code: 'TOOL_ERROR', details: { hint: 'Order at most 2 dozen.' } },
    });
    expect(body.text).toContain('Order at most 2 dozen.');
  });

  it('runs its handler after the arguments were checked', async () => {
    expect(await order(2)).toMatchObject({ output: { ordered: 24 } });
    expect(await order('many')).toMatchObject({ code: 'ARGUMENTS_INVALID' });
  });

  it('that never ends is ended at its time limit, while the process of all services goes on', async () => {
    let ended = false;
    const loop = fleet.call('loop', {}, { key: fleet.keys['globex']! }).finally(() => (ended = true));
    let served = 0;
    while (!ended) {
      const { body } = await fleet.call('calculator', { expression: `1+${served}` });
      expect(body).toMatchObject({ success: true, output: { result: 1 + served } });
      expect((await order(1)).success).toBe(true);
      served += 1;
    }
    expect((await loop).body).toMatchObject({ success: false, metadata: { code: 'OUTCOME_UNKNOWN' } });
    expect(served).toBeGreaterThan(1);
  });

  it('holds no setting of the fleet', async () => {
    const { output } = (await fleet.call('environment', {})).body as { output: string[] };
    expect(output).toContain('PATH');
    expect(output.filter((name) => /^(NATS|REDIS|DATABASE|GATEWAY|BUILTIN|API_KEY)_/.test(name))).toEqual([]);
  });
});
