/** Data of every kind that a fleet leaves in its stores, and what callers see of it later, on the same release or another one. */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { SampleServices } from '../fleet/sample-services.js';
import { SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';

/** Tools that `leaveData` needs. */
export const TOOLS_OF_DATA = [
  'calculator',
  'execute_python',
  'file_read',
  'multi_agent',
  'parcels_getParcel',
  'sample_save_note',
  'text_process',
] as const;

/** Settings of a fleet with left data: results above 4 KB are files. */
const DATA_SETTINGS = {
  BUILTIN_TOOLSETS: 'compute,web,files,agent',
  BUILTIN_COSTS_MICRO_USD: 'calculator=1000',
  RESULT_STORE: 'directory',
  RESULT_STORE_THRESHOLD_KB: '4',
} as const;

/** A fleet that leaves data or has it. */
export interface DataHost {
  fleet: TestFleet;
  nats: NatsClient;
  samples: SampleServices;
}

/** What is needed to find the data again. */
export interface LeftData {
  /** Prefix of everything that has a name. */
  name: string;
  key: string;
  revokedKey: string;
  noteId: string;
  largeId: string;
  /** Accepted while no worker was there; runs when one is. */
  queuedId: string;
}

const DOCUMENT = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Orders', version: '1' },
  servers: [{ url: 'https://orders.example.com' }],
  paths: { '/orders': { get: { operationId: 'listOrders', responses: { 200: { description: 'All' } } } } },
});

const note = ({ fleet }: DataHost, { name, key }: Pick<LeftData, 'name' | 'key'>) =>
  fleet.call('sample_save_note', { text: name }, { headers: { 'idempotency-key': `${name}-note` }, key });

/** A call as the fleet's own services make it; public callers have no tool that writes files. */
const ofSession = ({ nats, fleet }: DataHost, name: string, tool: string, args: object) =>
  nats.request<{ success: boolean; output: Record<string, unknown> }>(
    'tool.call',
    { name: tool, arguments: args, session_id: `${name}-session` },
    { timeoutMs: 60_000, headers: { Authorization: `Bearer ${fleet.adminKey}` } },
  );

async function accept(fleet: TestFleet, tool: string, args: object): Promise<string> {
  const { status, text, body } = await fleet.call(tool, args, { fields: { mode: 'async' } });
  expect(status, text).toBe(202);
  return body.call_id as string;
}

async function untilEnded(
  fleet: TestFleet,
  callId: string,
  key = fleet.adminKey,
): Promise<{ status: string; result: { output: unknown } }> {
  let call = { status: '', result: { output: undefined as unknown } };
  await eventually(
    `call ${callId} has ended`,
    async () => {
      call = (await fleet.ask({ path: `/api/v1/calls/${callId}`, key })).body;
      return !['accepted', 'claimed'].includes(call.status);
    },
    { everyMs: 100 },
  );
  return call;
}

/** Starts every service of a build that is not running. */
export async function launchAll(fleet: TestFleet, build?: string): Promise<void> {
  // identity keeps no data of these kinds, and the first releases do not have it.
  const missing = SERVICE_NAMES.filter((name) => name !== 'identity' && !fleet.running.get(name)?.length);
  await Promise.all(missing.map((name) => launchOnData(fleet, name, build)));
}

export const launchOnData = (fleet: TestFleet, name: ServiceName, build?: string) =>
  fleet.launch(name, { RESULT_STORE_DIR: join(fleet.folder, 'results') }, build);

/** A fleet without services, so that data can be put into its stores first. */
export async function startOnData(samples: SampleServices, config: object = samples.config): Promise<DataHost> {
  const env = { ...samples.env, ...DATA_SETTINGS };
  const fleet = await TestFleet.start({ services: {}, tools: [], config, env });
  await mkdir(join(fleet.folder, 'results'));
  return { fleet, nats: await NatsClient.connect({ name: 'spec', url: fleet.nats.url }), samples };
}

export async function stopOnData({ fleet, nats }: DataHost): Promise<void> {
  await nats.close();
  await fleet.stop();
}

/** Leaves data of every kind. Ends without a sandbox: a Python program waits in its queue. */
export async function leaveData(host: DataHost, name: string): Promise<LeftData> {
  const { fleet, samples } = host;
  const admin = async (path: string, body: object, method = 'POST') => {
    const answer = await fleet.ask({ path: `/api/v1/${path}`, method, body });
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer.body;
  };
  const issue = async (client: string) => {
    const body = { tenant_id: 'acme', client, roles: [], tier: 'wide' };
    return (await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey })).body;
  };
  const key = (await issue(`${name}-app`)).token as string;
  const revoked = await issue(`${name}-revoked`);
  await fleet.ask({ path: `/api/v1/keys/${revoked.id}`, method: 'DELETE' });
  await admin('sources/openapi', {
    ...{ name: `${name}-orders`, spec_inline: DOCUMENT, auth_type: 'none', name_prefix: `${name}_` },
    base_url: samples.api,
  });
  await admin('sources/mcp', { name: `${name}-mcp`, url: `${samples.mcp}/mcp` });
  await admin(
    `toolsets/${name}`,
    { include: { tools: ['calculator'] }, overrides: { calculator: { name: `${name}_sum` } } },
    'PUT',
  );
  await fleet.untilListed([`${name}_listOrders`]);
  const saved = await note(host, { name, key });
  expect(saved.body, saved.text).toMatchObject({ success: true });
  const text = `${name} `.repeat(1_000);
  const largeId = await accept(fleet, 'text_process', { text, operation: 'case', to: 'upper' });
  expect(await untilEnded(fleet, largeId)).toMatchObject({ status: 'succeeded' });
  for (const [tool, args] of [
    ['execute_python', { code: `x = '${name}'` }],
    ['file_write', { path: 'plan.txt', content: name }],
    ['multi_agent', { tasks: [{ name: 'sum', instruction: 'CALL calculator {"expression":"6*7"}\nSAY {results}' }] }],
  ] as const)
    expect(await ofSession(host, name, tool, args), tool).toMatchObject({ success: true });
  for (const [tool, args] of [
    ['calculator', { expression: `${Date.now()}+1` }],
    ['parcels_getParcel', { parcel_id: 'P-1001' }],
  ] as const)
    expect((await fleet.call(tool, args, { key })).body, tool).toMatchObject({ success: true });
  await fleet.terminate('python-sandbox');
  const queuedId = await accept(fleet, 'execute_python', { code: `result = '${name} ${randomUUID()}'` });
  const redis = fleet.redis.client();
  const isQueued = async () => (await redis.zcard('{fleet}:python-runs:prioritized')) > 0;
  await eventually('the program is queued', isQueued);
  return { name, key, revokedKey: revoked.token, noteId: saved.body.call_id, largeId, queuedId };
}

/** What `seenData` has to be. */
export const expectedData = ({ name }: LeftData): Awaited<ReturnType<typeof seenData>> => ({
  keys: [`${name}-app`, `${name}-revoked`].map((client) => ({ client, tier: 'wide' })),
  revoked: 401,
  sources: [`${name}-orders`, `${name}-mcp`],
  toolset: [1, 42],
  note: [true, true],
  large: true,
  queued: 'succeeded',
  session: name,
  file: name,
});

/** What callers and administrators see of the data, on any release. */
export async function seenData(host: DataHost, left: LeftData) {
  const { fleet } = host;
  const { name } = left;
  const bodyOf = async (path: string) => (await fleet.ask({ path: `/api/v1/${path}` })).body;
  // The key that made the calls may be another fleet's, so their results are read with the right to read those of others.
  const auditor = { client: randomUUID(), tenant_id: 'acme', roles: ['auditor'] };
  const reader = (await fleet.ask({ path: '/api/v1/keys', body: auditor, key: fleet.operatorKey })).body
    .token as string;
  const again = await note(host, left);
  const keys = (await bodyOf('keys')) as { client: string; revoked_at: string | null; tier: string }[];
  const sources = JSON.stringify(await bodyOf('sources'));
  const toolset = await bodyOf(`toolsets/${name}`);
  const sum = await fleet.call(`${name}_sum`, { expression: '6*7' }, { headers: { 'x-toolset': name } });
  return {
    keys: keys.filter(({ client }) => client.startsWith(`${name}-`)).map(({ client, tier }) => ({ client, tier })),
    revoked: (await fleet.call('calculator', { expression: '1+1' }, { key: left.revokedKey })).status,
    sources: [`${name}-orders`, `${name}-mcp`].filter((source) => sources.includes(source)),
    toolset: [toolset.version, sum.body.output?.result],
    note: [again.body.call_id === left.noteId, again.body.metadata?.idempotent_replay],
    large: JSON.stringify((await untilEnded(fleet, left.largeId, reader)).result?.output).length > 4_096,
    queued: (await untilEnded(fleet, left.queuedId)).status,
    session: (await ofSession(host, name, 'execute_python', { code: 'result = x' })).output['value'],
    file: (await ofSession(host, name, 'file_read', { path: 'plan.txt' })).output['content'],
  };
}

/** Call ids of the embedded ledger. */
export function ledgerCalls(fleet: TestFleet): Set<string> {
  const database = new Database(join(fleet.folder, 'budget.db'), { readonly: true });
  try {
    return new Set(database.prepare('select call_id from token_usage').pluck().all() as string[]);
  } finally {
    database.close();
  }
}
