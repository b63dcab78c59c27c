/** Streams of 2025 clients at two replicas. The whole way from a server to its clients is in test/e2e/mcp-endpoint.spec.ts. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { ResourceLease } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, FakeClock, startNats, startRedis, type NatsServer, type RedisServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { closeAll, closing, serveEndpoint, success, tool } from '../../spec/mcp-endpoint.fixture.js';
import { RedisSessionSubscriptions, ResourceSubscriptions, SessionStreams } from '@toolfleet/mcp';
import { EventStreams } from '../server/event-streams.js';
import { MemoryAccount } from '../server/memory-account.js';

const clock = new SystemClock();
const onFault = (error: unknown): never => {
  throw error;
};
const [NOTES, SECRET] = ['x://mcp-0123456789abcdef/notes', 'x://mcp-0123456789abcdef/secret'];
const listing = { subscribe: true, resources: [{ uri: 'x://notes' }], resourceTemplates: [] };
const binding = {
  kind: 'mcp',
  server: 'crm',
  transport: 'streamable-http',
  url: 'http://crm',
  remoteName: '',
} as const;
const CRM = tool('resource:crm', { listing, binding: { ...binding, authority: 'mcp-0123456789abcdef' } as never });

let nats: NatsServer;
let redis: RedisServer;
beforeAll(async () => void ([nats, redis] = await Promise.all([startNats(), startRedis()])));
afterAll(async () => {
  await nats?.stop();
  await redis?.stop();
});

/** Leases that reached the executors. */
let leases: ResourceLease[];
let executor: NatsClient;
beforeEach(async () => {
  leases = [];
  executor = await NatsClient.connect({ url: nats.url, name: 'mcp-executor' });
  closing(() => executor.close());
  executor.subscribe(SUBJECTS.execMcpWatch, ({ body }) => void leases.push(body as never));
  await executor.link.flush();
});
afterEach(closeAll);

/** A replica, what ends the streams of revoked credentials there, and what reports a change of the catalog. */
async function replica() {
  const connection = await NatsClient.connect({ url: nats.url, name: 'gateway' });
  closing(() => connection.close());
  const subscriptions = new ResourceSubscriptions(connection, clock, onFault);
  const stored = new RedisSessionSubscriptions(redis.client(), clock);
  const voids = new Set<() => void>();
  const watch = (_caller: Principal, onVoid: () => void) => (voids.add(onVoid), () => void voids.delete(onVoid));
  const memory = new MemoryAccount({ maxBodyBytes: 1, maxBytes: 1_000_000 });
  let change = (): void => undefined;
  const { url } = await serveEndpoint({
    subscriptions,
    sessions: new SessionStreams(stored, subscriptions, connection, clock, onFault),
    streams: new EventStreams({ maxStreams: 10, maxStreamsPerTenant: 4 }, memory, { watch }),
    listFeatures: async () => [CRM],
    onCatalogChanged: (changed) => ((change = changed), () => undefined),
    executeCall: async ({ input, mode }) => {
      if (input.rawArguments['uri'] === 'x://secret') throw new ToolError('POLICY_DENIED', { message: 'not for you' });
      return success(mode.kind);
    },
  });
  return { url, voids, change: () => change() };
}

/** A 2025 client with its stream at one replica and its requests at another one. */
async function connect(streamAt: string, requestsAt: string) {
  const client = new Client({ name: 'spec', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
  const heard: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri));
  for (const list of ['tools', 'prompts', 'resources'] as const)
    client.setNotificationHandler(`notifications/${list}/list_changed`, () => void heard.push(list));
  let isOpen = false;
  const transport = new StreamableHTTPClientTransport(new URL(requestsAt), {
    requestInit: { headers: { Authorization: 'Bearer alice' } },
    fetch: async (_url, init) => {
      const answer = await fetch(init?.method === 'GET' ? streamAt : requestsAt, init);
      isOpen ||= init?.method === 'GET' && answer.ok;
      return answer;
    },
  });
  await client.connect(transport);
  closing(() => client.close());
  await eventually('the stream is open', () => isOpen);
  return { client, heard, session: transport.sessionId! };
}

/** Opens a stream by hand. */
const open = (url: string, headers: Record<string, string>, who = 'alice') =>
  fetch(url, { headers: { authorization: `Bearer ${who}`, accept: 'text/event-stream', ...headers } });

/** The text of a stream so far. */
function follow({ body }: Response): { text: string; ended: Promise<void> } {
  const read = async (): Promise<void> => {
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) seen.text += chunk;
  };
  const seen = { text: '', ended: Promise.resolve() };
  seen.ended = read().catch(() => undefined);
  return seen;
}

it('tells a client of the resources that it subscribes to at any replica, until it unsubscribes', async () => {
  const [one, other] = [await replica(), await replica()];
  const { client, heard } = await connect(one.url, other.url);
  expect(client.getServerCapabilities()).toMatchObject({
    tools: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
  });
  await client.subscribeResource({ uri: NOTES });
  await eventually('leased', () => leases.some(({ uris }) => uris.includes('x://notes')));
  await eventually('told that it may have changed', () => heard.length > 0);
  expect(heard.splice(0)).toEqual([NOTES]);
  const { source } = leases.at(-1)!;
  executor.publish(SUBJECTS.mcpUpdated, { source, uri: 'x://notes' });
  await eventually('told', () => heard.length > 0);
  expect(heard.splice(0)).toEqual([NOTES]);
  other.change();
  one.change();
  await eventually('told of the lists', () => heard.length === 3);
  expect(heard.splice(0).toSorted()).toEqual(['prompts', 'resources', 'tools']);
  await client.unsubscribeResource({ uri: NOTES });
  await eventually('given up', () => leases.at(-1)?.uris.length === 0);
  await client.subscribeResource({ uri: NOTES });
  await eventually('leased again', () => leases.at(-1)?.uris.length === 1);
  await client.close();
  await eventually('given up with its stream', () => leases.at(-1)?.uris.length === 0);
});

it('tells a client of the SDK 1.x', async () => {
  const { url } = await replica();
  const client = new ClientV1({ name: 'spec', version: '1' });
  const heard: string[] = [];
  const errors: Error[] = [];
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.push(params.uri));
  client.onerror = (error) => errors.push(error);
  const requestInit = { headers: { Authorization: 'Bearer alice' } };
  await client.connect(new TransportV1(new URL(url), { requestInit }));
  await client.subscribeResource({ uri: NOTES });
  await eventually('leased', () => leases.some(({ uris }) => uris.includes('x://notes')));
  executor.publish(SUBJECTS.mcpUpdated, { source: leases.at(-1)!.source, uri: 'x://notes' });
  await eventually('told', () => heard.length > 0);
  await client.close();
  expect([new Set(heard), errors]).toEqual([new Set([NOTES]), []]);
});

it('takes a stream that opens again for the only one, and reports what may have changed', async () => {
  const [one, other] = [await replica(), await replica()];
  const { client, session } = await connect(one.url, one.url);
  await client.subscribeResource({ uri: NOTES });
  await client.close();
  const headers = { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' };
  const first = follow(await open(one.url, headers));
  const updated = `event: message\ndata: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"${NOTES}"}}\n\n`;
  await eventually('resumed', () => first.text.endsWith(updated));
  expect(first.text).toBe(`id: 0\nretry: 3000\ndata: \n\n${updated}`);
  // The session of another credential is another session.
  follow(await open(other.url, headers, 'bob'));
  const second = follow(await open(other.url, { ...headers, 'last-event-id': '0' }));
  await first.ended;
  const lists = ['tools', 'prompts', 'resources'].map((list) => `"method":"notifications/${list}/list_changed"`);
  await eventually('resumed', () => [updated, ...lists].every((part) => second.text.includes(part)));
});

it('refuses what its client may not read, too many resources, and requests without a session', async () => {
  const { url } = await replica();
  const { client } = await connect(url, url);
  await expect(client.subscribeResource({ uri: 'y://unknown' })).rejects.toMatchObject({
    data: { uri: 'y://unknown' },
  });
  await expect(client.subscribeResource({ uri: SECRET })).rejects.toMatchObject({ data: { code: 'POLICY_DENIED' } });
  const many = Array.from({ length: 100 }, (_, index) => `${NOTES}/${index}`);
  for (const uri of many) await client.subscribeResource({ uri });
  await client.subscribeResource({ uri: many[0]! });
  await expect(client.subscribeResource({ uri: NOTES })).rejects.toThrow('may subscribe to 100 resources');
  const long = `${NOTES}/${'x'.repeat(1_000)}`;
  await expect(client.subscribeResource({ uri: long })).rejects.toThrow('may have 1000 characters');
  const answer = await fetch(url, {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: NOTES } }),
    headers: {
      authorization: 'Bearer alice',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
  });
  expect(await answer.text()).toContain('Subscriptions need the Mcp-Session-Id of initialize');
  const others: Record<string, string>[] = [{}, { 'mcp-session-id': 'x' }, { 'mcp-protocol-version': '2026-07-28' }];
  for (const headers of others) expect((await open(url, headers)).status).toBe(405);
});

it('keeps the subscriptions of the 500 sessions of a tenant that were used last', async () => {
  const time = new FakeClock();
  const stored = new RedisSessionSubscriptions(redis.client(), time);
  const session = (index: number) => ({
    principal: { tenantId: 'many', userId: 'u' } as Principal,
    id: `session-${index}`,
  });
  for (let index = 0; index < 500; index += 1) {
    await stored.add(session(index), NOTES);
    await time.run(1);
  }
  expect(await stored.list(session(0))).toEqual([NOTES]);
  await time.run(1);
  await stored.add(session(500), NOTES);
  const kept = [0, 1, 2, 500].map((index) => stored.list(session(index)));
  expect(await Promise.all(kept)).toEqual([[NOTES], [], [NOTES], [NOTES]]);
});

it('leaves half of the streams of a tenant to others, and ends with its credential', async () => {
  const { url, voids } = await replica();
  const session = (id: number) => ({ 'mcp-session-id': `session-${id}` });
  const opened = [await open(url, session(1)), await open(url, session(2))];
  expect(opened.map(({ status }) => status)).toEqual([200, 200]);
  const refused = await open(url, session(3));
  expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: -32_000 } }]);
  for (const end of voids) end();
  expect(await Promise.all(opened.map((answer) => answer.text()))).toEqual([': open\n\n', ': open\n\n']);
  expect((await open(url, session(3))).status).toBe(200);
});
