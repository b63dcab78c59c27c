import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { connect, headers, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ToolCallError } from './tool-call-error.js';
import { EventParser } from './server-events.js';
import { ToolfleetClient } from './toolfleet-client.js';
import { ToolfleetNatsClient } from './toolfleet-nats-client.js';

interface Seen {
  line: string;
  prefer?: string;
  lastId?: string;
  authorization: string | undefined;
  body: unknown;
}

const seen: Seen[] = [];
let answer: { status: number; body: string; headers?: Record<string, string> };
let polls = 0;
/** Responses of the next requests, before `answer`'s. */
let next: (typeof answer | 'disconnect')[] = [];
let server: Server;
let client: ToolfleetClient;

beforeAll(async () => {
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      seen.push({
        line: `${request.method} ${request.url}`,
        authorization: request.headers.authorization,
        ...(typeof request.headers.prefer === 'string' ? { prefer: request.headers.prefer } : {}),
        ...(typeof request.headers['last-event-id'] === 'string' ? { lastId: request.headers['last-event-id'] } : {}),
        body: text ? JSON.parse(text) : undefined,
      });
      if (request.url === '/api/v1/calls/c9') {
        const status = ++polls < 3 ? 'claimed' : 'succeeded';
        response.end(JSON.stringify({ call_id: 'c9', tool: 't', status, result: { success: true } }));
        return;
      }
      if (request.url === '/api/v1/tools/hang/execute') return;
      const now = next.shift() ?? answer;
      if (now === 'disconnect') return request.socket.destroy();
      response.writeHead(now.status, { 'content-type': 'application/json', ...now.headers });
      response.end(now.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  client = new ToolfleetClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, apiKey: 'key' });
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

describe('the HTTP client', () => {
  it('sends a call with its facts and the key', async () => {
    answer = { status: 200, body: '{"success":true,"output":4}' };
    expect(await client.call('calc/ä', { expression: '2+2' }, { session_id: 's', timeout_ms: 100 })).toMatchObject({
      output: 4,
    });
    expect(seen.at(-1)).toEqual({
      line: 'POST /api/v1/tools/calc%2F%C3%A4/execute',
      authorization: 'Bearer key',
      body: { arguments: { expression: '2+2' }, session_id: 's', timeout_ms: 100 },
    });
  });

  it('lists, filters and pages', async () => {
    answer = { status: 200, body: '[]', headers: { link: '</api/v1/tools?limit=2&cursor=abc>; rel="next"' } };
    await client.list({ category: 'data & co' });
    expect(seen.at(-1)?.line).toBe('GET /api/v1/tools?category=data+%26+co');
    expect(await client.page({ limit: 2 })).toEqual({ tools: [], next: 'abc' });
  });

  it('lists and calls in its toolset, or in that of a request', async () => {
    answer = { status: 200, body: '[]' };
    const { port } = server.address() as AddressInfo;
    const support = new ToolfleetClient({ url: `http://127.0.0.1:${port}`, toolset: 'support' });
    const from = seen.length;
    await support.list({ category: 'data' });
    await support.page({ limit: 2, toolset: 'support@3' });
    await support.describe('find');
    await support.call('find', { name: 'Ann' }, { toolset: 'a&b', session_id: 's' });
    await support.callAsync('find', {});
    await support.batch([]);
    await support.status('c1');
    await client.describe('find', { toolset: 'support' });
    expect(seen.slice(from).map(({ line }) => line)).toEqual([
      'GET /api/v1/tools?category=data&toolset=support',
      'GET /api/v1/tools?limit=2&toolset=support%403',
      'GET /api/v1/tools/find?toolset=support',
      'POST /api/v1/tools/find/execute?toolset=a%26b',
      'POST /api/v1/tools/find/execute?toolset=support',
      'POST /api/v1/tools/batch-execute?toolset=support',
      'GET /api/v1/calls/c1',
      'GET /api/v1/tools/find?toolset=support',
    ]);
    expect(seen[from + 3]?.body).toEqual({ arguments: { name: 'Ann' }, session_id: 's' });
  });

  it('rebuilds refusals with code, status, hint and retry time', async () => {
    answer = {
      status: 429,
      body: '{"error":"slow down","code":"RATE_LIMITED","hint":"wait","details":{"tool":"t"},"call_id":"c1"}',
      headers: { 'retry-after': '2' },
    };
    const error = await client.call('t', {}).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ToolCallError);
    expect(error).toMatchObject({
      code: 'RATE_LIMITED',
      status: 429,
      message: 'slow down',
      hint: 'wait',
      callId: 'c1',
      retryAfterMs: 2_000,
    });
    answer = { status: 502, body: '<html>proxy</html>' };
    await expect(client.list()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 502 });
    answer = { status: 200, body: 'not json' };
    await expect(client.list()).rejects.toMatchObject({ code: 'BAD_ANSWER' });
  });

  it('calls with what models send, and takes what they take back', async () => {
    const message = { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 't', arguments: '{}' } }] };
    answer = { status: 200, body: '[{"role":"tool","tool_call_id":"a","content":"4"}]' };
    const [result] = await client.batch(message, { format: 'openai', session_id: 's' });
    expect(result!.tool_call_id).toBe('a');
    expect(seen.at(-1)).toMatchObject({
      line: 'POST /api/v1/tools/batch-execute?format=openai',
      body: { calls: [message], session_id: 's' },
    });
    answer = { status: 200, body: '[{"type":"tool_result","tool_use_id":"b","content":[]}]' };
    const [block] = await client.batch([{ type: 'tool_use', id: 'b', name: 't', input: {} }]);
    expect(block!.tool_use_id).toBe('b');
    answer = { status: 200, body: '[]' };
    await client.list({ format: 'anthropic' });
    expect(seen.at(-1)?.line).toBe('GET /api/v1/tools?format=anthropic');
  });

  describe('with retries', () => {
    const busy = { status: 503, body: '{"code":"QUEUE_FULL","retry_after_ms":1}' };
    const retrying = (retries: number) => {
      const { port } = server.address() as AddressInfo;
      return new ToolfleetClient({ url: `http://127.0.0.1:${port}`, retries });
    };

    it('repeats a call with the same idempotency key, and waits for the first one', async () => {
      answer = { status: 200, body: '{"success":true,"output":4}' };
      next = [busy, 'disconnect'];
      const from = seen.length;
      expect(await retrying(2).call('t', {})).toMatchObject({ output: 4 });
      const sent = seen.slice(from);
      expect(sent.map(({ prefer }) => prefer?.replace(/\d+$/, ''))).toEqual([undefined, 'wait=', 'wait=']);
      const keys = sent.map(({ body }) => (body as { idempotency_key: string }).idempotency_key);
      expect(keys[0]).toMatch(/^[\da-f]{32}$/);
      expect(new Set(keys).size).toBe(1);
      await retrying(1).call('t', {}, { idempotency_key: 'mine' });
      expect(seen.at(-1)?.body).toMatchObject({ idempotency_key: 'mine' });
    });

    it('gives up after so many, and at once on a refusal that is final', async () => {
      next = [busy, busy];
      await expect(retrying(1).call('t', {})).rejects.toMatchObject({ code: 'QUEUE_FULL' });
      expect(next).toEqual([]);
      next = [{ status: 403, body: '{"code":"POLICY_DENIED"}' }];
      await expect(retrying(5).call('t', {})).rejects.toMatchObject({ code: 'POLICY_DENIED' });
      next = [busy];
      await expect(client.call('t', {})).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    });

    it('repeats reads, and no request that changes something without a key', async () => {
      answer = { status: 200, body: '[]' };
      next = ['disconnect'];
      expect(await retrying(1).list()).toEqual([]);
      next = [busy];
      await expect(retrying(1).cancel('c1')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    });
  });

  describe('events of a call', () => {
    const stream = (...events: [string, string, object][]) => ({
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      body: events.map(([id, type, data]) => `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join(''),
    });
    const running = { status: 200, body: '{"status":"claimed"}' };
    const result = { success: true, output: 4 };

    it('are followed through lost streams up to the result', async () => {
      next = [
        stream(['1', 'accepted', {}], ['2', 'progress', { progress: 1, total: 2 }]),
        running,
        'disconnect',
        stream(['3', 'done', { state: 'succeeded', result }]),
      ];
      const from = seen.length;
      const events = [];
      for await (const event of client.follow('c1')) events.push(event);
      expect(events).toEqual([
        { id: '1', type: 'accepted' },
        { id: '2', type: 'progress', progress: 1, total: 2 },
        { id: '3', type: 'done', state: 'succeeded', result },
      ]);
      expect(seen.slice(from).flatMap(({ lastId }) => lastId ?? [])).toEqual(['2', '2']);
      next = [{ status: 404, body: '{"code":"NOT_FOUND"}' }];
      await expect(client.follow('c1').next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    });

    it('bring the progress of a call, and its result', async () => {
      const accepted = { status: 202, body: '{"call_id":"c1","status":"accepted"}' };
      next = [accepted, stream(['1', 'progress', { message: 'half' }], ['2', 'done', { state: 'succeeded', result }])];
      const reports: object[] = [];
      expect(await client.call('t', {}, { onProgress: (report) => reports.push(report) })).toEqual(result);
      expect(reports).toEqual([{ message: 'half' }]);
      next = [accepted, stream(['1', 'done', { state: 'expired' }])];
      await expect(client.call('t', {}, { onProgress: () => {} })).rejects.toMatchObject({ callId: 'c1' });
    });
  });

  it('waits for an asynchronous call', async () => {
    expect(await client.wait('c9')).toMatchObject({ status: 'succeeded', result: { success: true } });
    expect(polls).toBe(3);
  });

  it('ends a wait by signal and by time', async () => {
    answer = { status: 200, body: JSON.stringify({ call_id: 'c8', tool: 't', status: 'claimed' }) };
    const stop = new AbortController();
    const waiting = client.wait('c8', { signal: stop.signal });
    setTimeout(() => stop.abort(), 20);
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    await expect(client.wait('c8', { waitMs: 10 })).rejects.toMatchObject({
      ...{ code: 'DEADLINE_EXCEEDED', callId: 'c8', message: 'Call c8 is still claimed' },
    });
  });

  it('reports usage by days and groups', async () => {
    const rows = [{ day: '2026-01-31', tool: 'find', calls: 2 }];
    answer = { status: 200, body: JSON.stringify({ rows }) };
    expect(await client.usage({ from: '2026-01-01', to: '2026-01-31', group_by: ['day', 'tool'] })).toEqual(rows);
    expect(seen.at(-1)!.line).toBe('GET /api/v1/usage?from=2026-01-01&to=2026-01-31&group_by=day%2Ctool');
  });

  it('gives up by signal and by timeout, and reports an unreachable gateway', async () => {
    await expect(client.call('hang', {}, { waitMs: 50 })).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await expect(client.call('hang', {}, { signal: AbortSignal.timeout(30) })).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    const nobody = new ToolfleetClient({ url: 'http://127.0.0.1:1' });
    await expect(nobody.list()).rejects.toMatchObject({ code: 'CONNECTION_FAILED', status: 0 });
  });
});

describe('the NATS client', () => {
  let nats: NatsServer;
  let fleet: NatsConnection;
  beforeAll(async () => {
    nats = await startNats({ tenants: ['acme'] });
    fleet = await connect({ servers: `127.0.0.1:${nats.port}`, user: 'fleet', pass: 'pw-fleet' });
    fleet.subscribe('tool.>', {
      callback: (_error, message) => {
        const body = message.json<{ name?: string }>();
        if (body.name === 'refused') {
          const head = headers();
          head.set('Nats-Service-Error-Code', '402');
          message.respond('{"error":"no money","code":"BUDGET_EXCEEDED"}', { headers: head });
        } else {
          message.respond(
            JSON.stringify({
              subject: message.subject,
              body,
              key: message.headers?.get('Authorization'),
              toolset: message.headers?.get('X-Toolset'),
            }),
          );
        }
      },
    });
    await fleet.flush();
  });
  afterAll(async () => {
    await fleet?.close();
    await nats?.stop();
  });

  it('calls on the tenant subject, rebuilds refusals', async () => {
    const caller = await ToolfleetNatsClient.connect({
      url: `127.0.0.1:${nats.port}`,
      user: 'acme',
      password: 'pw-acme',
      tenant: 'acme',
      apiKey: 'k',
    });
    expect(await caller.call('t', { a: 1 }, { task_id: 'x' })).toMatchObject({
      subject: 'tool.call.acme',
      body: { name: 't', arguments: { a: 1 }, task_id: 'x' },
      key: 'Bearer k',
    });
    expect(await caller.cancel('c1')).toMatchObject({ subject: 'tool.cancel.acme' });
    const inToolset = await caller.call('t', {}, { toolset: 'support@3' });
    expect(inToolset).toMatchObject({ body: { name: 't', arguments: {} }, toolset: 'support@3' });
    await expect(caller.call('refused', {})).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED', status: 402 });
    await caller.close();
  });

  it('lists and calls in its toolset', async () => {
    const url = `127.0.0.1:${nats.port}`;
    const login = { user: 'acme', password: 'pw-acme', tenant: 'acme' };
    const caller = await ToolfleetNatsClient.connect({ ...login, url, toolset: 'support' });
    const answers = [
      caller.list({ category: 'data' }),
      caller.call('t', {}),
      caller.callAsync('t', {}),
      caller.batch([]),
    ];
    for (const sent of await Promise.all(answers)) expect(sent).toMatchObject({ toolset: 'support' });
    expect(await caller.list({ toolset: 'sums' })).toMatchObject({ toolset: 'sums', body: {} });
    expect(await caller.cancel('c1')).toMatchObject({ toolset: '' });
    await caller.close();
  });

  it('reports missing services and an unreachable server', async () => {
    const quiet = await startNats();
    const caller = await ToolfleetNatsClient.connect({ url: quiet.url });
    await expect(caller.call('t', {})).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 503 });
    await caller.close();
    await quiet.stop();
    await expect(ToolfleetNatsClient.connect({ url: '127.0.0.1:1' })).rejects.toMatchObject({
      code: 'CONNECTION_FAILED',
    });
  });
});

it('parses server-sent events from chunks of any size and ignores comments', () => {
  const text = ': hello\n\nid: 1-0\nevent: call\ndata: {"a":1}\n\nevent: done\r\ndata: x\r\ndata: y\r\n\r\nid: 9\n\n';
  for (const size of [1, 3, 7, text.length]) {
    const parser = new EventParser();
    const found = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
      parser.push(text.slice(index * size, (index + 1) * size)),
    ).flat();
    expect(found, `chunks of ${size}`).toEqual([
      { id: '1-0', type: 'call', data: '{"a":1}' },
      { id: undefined, type: 'done', data: 'x\ny' },
    ]);
  }
});
