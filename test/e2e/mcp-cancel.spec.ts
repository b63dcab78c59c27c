/**
 * Clients of the 2025 revisions cancel calls by `notifications/cancelled`: the MCP SDK 1.x, the SDK 2.x in its 2025 mode, and plain
 * HTTP, on two gateways, where the notification reaches the one that does not run the call.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { TestFleet } from '../fleet/test-fleet.js';

const TOOL = 'sample_count_slowly';
/** Steps of 50 ms: far longer than any step of this spec. */
const STEPS = 1_000;
/** Calls that may end before they could be cancelled: long enough for two of them to be in work at once. */
const FEW_STEPS = 60;

let server: CountingMcpServer;
let fleet: TestFleet;

beforeAll(async () => {
  server = await startCountingMcpServer();
  fleet = await TestFleet.start({
    together: true,
    services: { budget: 1, records: 1, registry: 1, 'mcp-executor': 1, gateway: 2 },
    // Trusted, so that a cancelled call has a known outcome: the tool has no effect.
    config: { mcp_servers: { sample: { url: `${server.origin}/mcp`, trusted: true } } },
    env: { EGRESS_ALLOWED_ENDPOINTS: server.origin },
    tools: [TOOL],
  });
});
afterAll(async () => {
  await fleet?.stop();
  await server?.stop();
});

/** Sends cancellations to the gateway `cancelAt`, everything else to the first one. */
function sender(cancelAt: number): typeof fetch {
  return (_url, init) => {
    const cancels = typeof init?.body === 'string' && init.body.includes('notifications/cancelled');
    return fetch(`${fleet.url(cancels ? cancelAt : 0)}/mcp`, init);
  };
}

type CallSlowly = (signal: AbortSignal) => Promise<unknown>;

async function connectV1(cancelAt: number): Promise<{ call: CallSlowly; errors: Error[]; close(): Promise<void> }> {
  const client = new ClientV1({ name: 'sdk-1', version: '1' });
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
  await client.connect(new TransportV1(new URL(`${fleet.url()}/mcp`), { requestInit, fetch: sender(cancelAt) }));
  const call: CallSlowly = (signal) =>
    client.callTool({ name: TOOL, arguments: { steps: STEPS } }, undefined, { signal });
  return { call, errors, close: () => client.close() };
}

async function connectV2(cancelAt: number): Promise<{ call: CallSlowly; errors: Error[]; close(): Promise<void> }> {
  const client = new Client({ name: 'sdk-2', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit, fetch: sender(cancelAt) }),
  );
  // With progress the call is answered by an event stream, without by JSON.
  const call: CallSlowly = (signal) =>
    client.callTool({ name: TOOL, arguments: { steps: STEPS } }, { signal, onprogress: () => undefined });
  return { call, errors, close: () => client.close() };
}

interface SeenCall {
  call_id: string;
  status: string;
  code?: string;
}

const finishedCalls = async (): Promise<SeenCall[]> => {
  const { body } = await fleet.ask({ path: '/api/v1/calls?limit=100' });
  return (body.calls as (SeenCall & { tool: string })[]).filter(({ tool }) => tool === TOOL);
};

/** Waits for one more finished call than `before`. */
async function nextFinished(before: number): Promise<SeenCall> {
  let calls: SeenCall[] = [];
  await eventually('the call has ended', async () => (calls = await finishedCalls()).length > before, {
    everyMs: 100,
  });
  return calls.at(-1)!;
}

const isCounting = (calls: number) => eventually('the calls are in work', () => server.counting() === calls);
/** Waits until one more call than `before` was stopped at its server, alone. */
async function isStopped(before: number): Promise<void> {
  await eventually('the server is notified', () => server.counting() === 0);
  expect(server.cancelled()).toBe(before + 1);
}

describe.each([
  ['SDK 1.x', connectV1],
  ['SDK 2.x in its 2025 mode', connectV2],
] as const)('an aborted call of the %s', (_name, connect) => {
  it.each([
    ['the gateway that runs the call', 0],
    ['another gateway', 1],
  ])('stops the work when %s receives the cancellation', async (_where, cancelAt) => {
    const { call, errors, close } = await connect(cancelAt);
    const [before, stopped] = [(await finishedCalls()).length, server.cancelled()];
    const controller = new AbortController();
    const pending = call(controller.signal);
    await isCounting(1);
    controller.abort(new Error('enough'));
    await expect(pending).rejects.toThrow();
    const ended = await nextFinished(before);
    expect(ended).toMatchObject({ code: 'CANCELLED', status: 'cancelled' });
    await isStopped(stopped);
    // A response after the cancellation would be reported as one to an unknown request.
    expect(errors.filter(({ message }) => /unknown message|Received a response/i.test(message))).toEqual([]);
    await close();
  });
});

describe('a cancellation over plain HTTP', () => {
  const post = (body: object, { key = fleet.adminKey, session = '', gateway = 0 } = {}) =>
    fetch(`${fleet.url(gateway)}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        ...(session === '' ? {} : { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...body }),
    });
  const call = (id: number | string, from = {}, steps = STEPS) =>
    post({ id, method: 'tools/call', params: { name: TOOL, arguments: { steps } } }, from);
  const cancel = async (id: unknown, from = {}) =>
    (await post({ method: 'notifications/cancelled', params: { requestId: id } }, from)).status;

  it('reaches only the request of the same credential, session and id', async () => {
    const session = 'session-11111111-1111-4111-8111-111111111111';
    const [before, stopped] = [(await finishedCalls()).length, server.cancelled()];
    const pending = call(7, { session });
    await isCounting(1);
    const others = [
      cancel(7, { session, key: fleet.keys['acme'] }), // another user of the tenant
      cancel(7, { session, key: fleet.keys['globex'], gateway: 1 }),
      cancel(7, { session: session.replaceAll('1', '2'), gateway: 1 }),
      cancel(7, { gateway: 1 }),
      cancel('7', { session }),
      cancel(8, { session, gateway: 1 }),
      cancel(undefined, { session }),
    ];
    expect(await Promise.all(others)).toEqual(others.map(() => 202));
    // Another gateway passes a cancellation on after its answer.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(server.counting()).toBe(1);
    expect(await finishedCalls()).toHaveLength(before);
    expect(await cancel(7, { session, gateway: 1 })).toBe(202);
    const response = await pending;
    expect([response.status, await response.text()]).toEqual([200, '']);
    expect(await nextFinished(before)).toMatchObject({ code: 'CANCELLED' });
    await isStopped(stopped);
  });

  it('of a client without a session cancels its call unless two requests have the same id', async () => {
    const before = (await finishedCalls()).length;
    // Like calls would share one run.
    const [one, two] = [call('same', {}, FEW_STEPS), call('same', {}, FEW_STEPS + 1)];
    await isCounting(2);
    expect(await cancel('same')).toBe(202);
    expect(await (await one).text()).toContain(`counted to ${FEW_STEPS}`);
    expect(await (await two).text()).toContain(`counted to ${FEW_STEPS + 1}`);

    const alone = call('alone');
    await isCounting(1);
    expect(await cancel('alone', { gateway: 1 })).toBe(202);
    expect(await (await alone).text()).toBe('');
    expect((await nextFinished(before + 2)).code).toBe('CANCELLED');
  });

  it('does not cancel a later call that reuses the id of a finished one', async () => {
    const session = 'session-33333333-3333-4333-8333-333333333333';
    expect(await (await call(1, { session }, 1)).text()).toContain('counted to 1');
    expect(await (await call(2, { session }, 1)).text()).toContain('counted to 1');
  });
});
