/**
 * One example of everything the fleet does that touches NATS or Redis: each kind of call on each entry point, keys, accounts,
 * registrations. Specs run it on stores that might refuse a part of it: users with few rights, a cluster of slots.
 */
import type { NatsClient } from '@toolfleet/transport';
import { eventually } from '@toolfleet/testing';
import { expect } from 'vitest';
import type { SampleServices } from './sample-services.js';
import type { TestFleet } from './test-fleet.js';

/** Tools that `EVERY_KIND` needs. */
export const TOOLS_OF_EVERY_KIND = [
  'calculator',
  'echo_function',
  'execute_python',
  'file_read',
  'multi_agent',
  'parcels_getParcel',
  'run_program',
  'sample_add',
  'sample_save_note',
] as const;

/** Where a kind runs. */
export interface KindHost {
  fleet: Pick<TestFleet, 'adminKey' | 'ask' | 'call' | 'operatorKey' | 'untilListed'>;
  /** A caller of tenant acme, by a key or by its user. */
  nats: NatsClient;
  /** The subject it may use: `tool.call`, or `tool.call.acme`. */
  subjectOf(verb: 'call' | 'batch' | 'list'): string;
  /** Origins of the samples, as the fleet reaches them. */
  samples: Pick<SampleServices, 'api' | 'mcp'>;
}

type Kind = readonly [what: string, run: (host: KindHost) => Promise<void>];

let texts = 0;
/** A text no other call used. */
const fresh = (): string => `${process.pid}-${(texts += 1)}`;

const ok = (body: object) => ({ status: 200, body: { success: true, ...body } });
const overNats = (
  { nats, subjectOf, fleet }: KindHost,
  verb: 'call' | 'batch' | 'list',
  body: object,
): Promise<unknown> =>
  nats.request(subjectOf(verb), body, { timeoutMs: 30_000, headers: { Authorization: `Bearer ${fleet.adminKey}` } });

async function untilEnded({ fleet }: KindHost, callId: string): Promise<{ status: string; result: unknown }> {
  let call = { status: '', result: undefined as unknown };
  await eventually(
    `call ${callId} has ended`,
    async () => {
      call = (await fleet.ask({ path: `/api/v1/calls/${callId}` })).body;
      return !['accepted', 'claimed'].includes(call.status);
    },
    { everyMs: 100 },
  );
  return call;
}

const CALLS: readonly Kind[] = [
  [
    'a builtin tool',
    async ({ fleet }) => {
      const answer = await fleet.call('calculator', { expression: '6*7' });
      expect(answer).toMatchObject(ok({ output: { result: 42 } }));
    },
  ],
  [
    'a builtin tool over NATS, with its list and a batch',
    async (host) => {
      const call = { name: 'calculator', arguments: { expression: '40+2' } };
      expect(await overNats(host, 'call', call)).toMatchObject({ success: true, output: { result: 42 } });
      expect(await overNats(host, 'list', {})).toEqual(
        expect.arrayContaining([expect.objectContaining({ name: 'calculator' })]),
      );
      expect(await overNats(host, 'batch', { calls: [call, call] })).toMatchObject([
        { success: true },
        { success: true },
      ]);
    },
  ],
  [
    'a tool of an MCP server and a function endpoint',
    async ({ fleet }) => {
      expect(await fleet.call('sample_add', { a: 2, b: 40 })).toMatchObject(ok({ output: { sum: 42 } }));
      expect(await fleet.call('echo_function', { text: 'hello' })).toMatchObject(ok({}));
    },
  ],
  [
    'an operation of an OpenAPI service',
    async ({ fleet }) => {
      expect(await fleet.call('parcels_getParcel', { parcel_id: 'P-1001' })).toMatchObject(ok({}));
    },
  ],
  [
    'a call with an effect and an idempotency key, repeated',
    async ({ fleet }) => {
      const headers = { 'idempotency-key': fresh() };
      const save = () => fleet.call('sample_save_note', { text: 'kept' }, { headers });
      const first = await save();
      expect(first).toMatchObject(ok({}));
      const again = await save();
      expect(again.body.call_id).toBe(first.body.call_id);
      expect(await fleet.ask({ path: `/api/v1/calls/${first.body.call_id}` })).toMatchObject({
        body: { status: 'succeeded' },
      });
    },
  ],
  [
    'Python, with variables of a session',
    async ({ fleet }) => {
      const session_id = fresh();
      const run = (code: string) => fleet.call('execute_python', { code, session_id });
      expect(await run('x = 20\nresult = x')).toMatchObject(ok({ output: { value: 20 } }));
      expect(await run('result = x + 22')).toMatchObject(ok({ output: { value: 42 } }));
    },
  ],
  [
    'a program that calls tools',
    async ({ fleet }) => {
      const code = 'gather(tools.calculator(expression="40+2"), tools.execute_python(code="6 * 7"))[0]["result"]';
      expect(await fleet.call('run_program', { code })).toMatchObject(ok({ output: { value: 42 } }));
    },
  ],
  [
    'asynchronous calls and their events',
    async (host) => {
      const { fleet } = host;
      for (const [tool, args] of [
        ['calculator', { expression: '20+22' }],
        ['execute_python', { code: 'result = 42' }],
        ['sample_save_note', { text: fresh() }],
      ] as const) {
        const accepted = await fleet.call(tool, args, { fields: { mode: 'async' } });
        expect(accepted.status, accepted.text).toBe(202);
        const id = String(accepted.body.call_id);
        expect(await untilEnded(host, id), tool).toMatchObject({ status: 'succeeded' });
        expect((await fleet.ask({ path: `/api/v1/calls/${id}/events` })).text).toContain('event: done');
      }
    },
  ],
  [
    'the progress of a remote tool, in the events of its call',
    async ({ fleet }) => {
      const accepted = await fleet.call('sample_count_slowly', { steps: 5 }, { fields: { mode: 'async' } });
      const { text } = await fleet.ask({ path: `/api/v1/calls/${String(accepted.body.call_id)}/events` });
      expect(text).toMatch(/event: progress\ndata: .*"total":5/);
    },
  ],
  [
    'the end of an asynchronous call, published to its tenant',
    async (host) => {
      const results = new Map<string, unknown>();
      const subscription = host.nats.subscribe('tool.result.acme.*', ({ subject, body }) =>
        results.set(subject.split('.').at(-1)!, body),
      );
      const call = { name: 'calculator', arguments: { expression: '6*7' }, mode: 'async' };
      const { call_id: id } = (await overNats(host, 'call', call)) as { call_id: string };
      await eventually('the end has come', () => results.has(id));
      expect(results.get(id)).toMatchObject({ call_id: id, success: true });
      subscription.unsubscribe();
    },
  ],
  [
    'the cancelling of a running call',
    async (host) => {
      const { fleet } = host;
      const code = 'while True: pass';
      const accepted = await fleet.call('execute_python', { code }, { fields: { mode: 'async' } });
      const path = `/api/v1/calls/${String(accepted.body.call_id)}`;
      await eventually('it runs', async () => (await fleet.ask({ path })).body.status === 'claimed');
      expect((await fleet.ask({ path, method: 'DELETE' })).status).toBe(200);
      expect(['cancelled', 'failed']).toContain((await untilEnded(host, path.split('/').at(-1)!)).status);
    },
  ],
  [
    'files of a workspace, for internal callers',
    async (host) => {
      const session_id = `files-${process.pid}`;
      const file = (name: string, args: object) => overNats(host, 'call', { name, arguments: args, session_id });
      expect(await file('file_write', { path: 'a.txt', content: 'kept' })).toMatchObject({ success: true });
      expect(JSON.stringify(await file('file_read', { path: 'a.txt' }))).toContain('kept');
    },
  ],
  [
    'sub-agents that call tools',
    async ({ fleet }) => {
      const instruction = 'CALL calculator {"expression":"6*7"}\nSAY it is {results}';
      const tasks = [{ name: 'sum', instruction, tools: ['calculator'] }];
      const answer = await fleet.call('multi_agent', { tasks });
      expect(answer).toMatchObject(ok({}));
      expect(answer.text).toContain('42');
    },
  ],
  [
    'a tool over MCP',
    async ({ fleet }) => {
      const message = {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'calculator', arguments: { expression: '6*7' } },
      };
      const headers = { accept: 'application/json, text/event-stream' };
      const { text } = await fleet.ask({ path: '/mcp', body: message, headers });
      expect(text).toContain('42');
    },
  ],
];

const ACCOUNTS: readonly Kind[] = [
  [
    'API keys, made, used and revoked',
    async ({ fleet }) => {
      const made = await fleet.ask({
        path: '/api/v1/keys',
        body: { client: fresh(), tenant_id: 'globex' },
        key: fleet.operatorKey,
      });
      expect(made.status, made.text).toBe(201);
      const key = String(made.body.token);
      expect((await fleet.call('calculator', { expression: '1+1' }, { key })).status).toBe(200);
      expect((await fleet.ask({ path: '/api/v1/keys', key: fleet.operatorKey })).text).toContain(made.body.id);
      const revoke = { path: `/api/v1/keys/${made.body.id}`, method: 'DELETE' };
      expect((await fleet.ask(revoke)).status).toBe(404);
      expect((await fleet.ask({ ...revoke, key: fleet.operatorKey })).status).toBe(204);
      const refused = async () => (await fleet.call('calculator', { expression: '1+1' }, { key })).status === 401;
      await eventually('the key is refused', refused, { everyMs: 100 });
    },
  ],
  [
    'usage and budgets',
    async ({ fleet }) => {
      await fleet.call('sample_add', { a: 1, b: 1 });
      await eventually(
        'usage is in the ledger',
        async () => (await fleet.ask({ path: '/api/v1/usage' })).text.includes('sample_add'),
        { everyMs: 200 },
      );
      const { body } = await fleet.ask({ path: '/api/v1/budgets' });
      expect(body.budgets).toEqual(expect.arrayContaining([expect.objectContaining({ scope: 'tenant' })]));
    },
  ],
  [
    'sources, registered, called and retired',
    async ({ fleet, samples }) => {
      const registered = await fleet.ask({
        path: '/api/v1/sources/openapi',
        body: {
          name: 'again',
          spec_url: `${samples.api}/openapi.json`,
          base_url: samples.api,
          name_prefix: 'again_',
          auth_type: 'none',
        },
      });
      expect(registered.status, registered.text).toBeLessThan(300);
      await fleet.untilListed(['again_getParcel']);
      expect(await fleet.call('again_getParcel', { parcel_id: 'P-1001' })).toMatchObject(ok({}));
      const retired = await fleet.ask({ path: '/api/v1/sources/openapi/again', method: 'DELETE' });
      expect(retired.body.removed).toContain('again_getParcel');
      expect((await fleet.ask({ path: '/api/v1/sources/openapi/again', method: 'DELETE' })).status).toBe(404);
      for (const [spec, reason] of [
        ['no document', 'SPEC_PARSE_ERROR'],
        ['swagger: "1.2"', 'SPEC_VERSION_UNSUPPORTED'],
      ]) {
        const refused = await fleet.ask({ path: '/api/v1/sources/openapi', body: { name: 'bad', spec_inline: spec } });
        expect(refused, refused.text).toMatchObject({
          status: 422,
          body: { code: 'SPEC_INVALID', details: { reason } },
        });
      }
      const away = await fleet.ask({
        path: '/api/v1/sources/mcp',
        body: { name: 'away', url: 'https://away.example/mcp' },
      });
      expect(away, away.text).toMatchObject({ status: 422, body: { code: 'SOURCE_REFUSED' } });
      const mcp = { name: 'second', url: `${samples.mcp}/mcp` };
      const discovered = await fleet.ask({ path: '/api/v1/sources/mcp', body: mcp });
      expect(discovered.status, discovered.text).toBeLessThan(300);
      expect((await fleet.ask({ path: '/api/v1/quarantine' })).status).toBe(200);
    },
  ],
];

/** Everything, as rows of `it.each`. */
export const EVERY_KIND: readonly Kind[] = [...CALLS, ...ACCOUNTS];
