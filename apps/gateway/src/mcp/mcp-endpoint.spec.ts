import { request as httpRequest } from 'node:http';
import { connect as connectTcp } from 'node:net';
import type { Client } from '@modelcontextprotocol/client';
import type { CallRequest, JsonObject, Principal } from '@toolfleet/contracts';
import { traceparent } from '@toolfleet/telemetry';
import { startRoundRobin } from '@toolfleet/testing';
import { afterEach, describe, expect, it } from 'vitest';
import {
  call,
  closeAll,
  closing,
  connect,
  serveEndpoint,
  holdCalls,
  success,
  tool,
  TOOLS,
} from '../../spec/mcp-endpoint.fixture.js';
import type { Task, TaskStore } from '@toolfleet/mcp';
import { MemoryAccount } from '../server/memory-account.js';

/** A tenant may have 16 MiB. */
const MEMORY = new MemoryAccount({ maxBodyBytes: 1, maxBytes: 64 * 1024 * 1024 });

afterEach(closeAll);

/** Opens a subscription in protocol revision 2026-07-28. */
const subscribe = (url: string, who: string): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${who}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'subscriptions/listen',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'subscriptions/listen',
      params: {
        notifications: { toolsListChanged: true },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
  });

describe.each(['auto', 'legacy'] as const)('the MCP endpoint (%s)', (mode) => {
  it('lists by name in byte order and calls', async () => {
    const { url, seen } = await serveEndpoint();
    const client = await connect(url, { mode });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['careful', 'echo', 'long', 'slow']);
    expect(tools[1]).toMatchObject({
      description: 'Tool echo',
      inputSchema: { type: 'object' },
      annotations: { idempotentHint: true },
    });
    const result = await call(
      client,
      'echo',
      { text: 'hi' },
      { request_id: 'r1', idempotency_key: 'k1', session_id: 's1', project_id: 'p' },
    );
    expect(result).toMatchObject({
      isError: false,
      structuredContent: { echoed: { text: 'hi' } },
      content: [{ type: 'text', text: '{"text":"hi"}' }],
    });
    expect(seen[0]).toMatchObject({
      entryPoint: 'mcp',
      origin: 'public',
      principal: { userId: 'alice' },
      requestId: 'r1',
      reuse: { idempotencyKey: 'k1' },
      context: { user_id: 'alice', session_id: 's1' },
    });
    expect(seen[0]?.context).not.toHaveProperty('project_id');
  });

  it('reads every call field in _meta and rejects an invalid one instead of running without it', async () => {
    const { url, seen } = await serveEndpoint();
    const client = await connect(url, { mode });
    await call(client, 'echo', {}, { dry_run: true, no_retry: true, timeout_ms: 50, 'example.com/own': 1 });
    expect(seen).toMatchObject([{ mode: { kind: 'dry' }, limits: { noRetry: true, timeoutMs: 50 } }]);
    const faults: JsonObject[] = [{ idempotency_key: 'k'.repeat(256) }, { dry_run: 'yes' }, { timeout_ms: 0 }];
    for (const wrong of faults) {
      await expect(call(client, 'echo', {}, wrong)).rejects.toMatchObject({
        code: -32_602,
        message: expect.stringContaining(`_meta: Invalid request: ${Object.keys(wrong)[0]} must be`),
      });
    }
    expect(seen).toHaveLength(1);
  });

  it('shows failures and refusals as results with a suggestion, and unknown tools as -32602', async () => {
    const client = await connect((await serveEndpoint()).url, { mode });
    expect(await call(client, 'fails')).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('HTTP 404: no such order') }],
      _meta: { code: 'UPSTREAM_ERROR', error_type: 'upstream_error' },
    });
    expect(await call(client, 'broke')).toMatchObject({
      isError: true,
      _meta: { code: 'BUDGET_EXCEEDED', suggestion: expect.any(String) },
    });
    expect(await call(client, 'wrong')).toMatchObject({
      isError: true,
      _meta: { code: 'ARGUMENTS_INVALID', details: { fields: ['text'] } },
    });
    await expect(call(client, 'nothing')).rejects.toMatchObject({ code: -32_602 });
  });

  it('lists tools that only pages of apps call to clients that show these pages', async () => {
    const shown = [...TOOLS, tool('refresh')];
    const { url } = await serveEndpoint({ listTools: async (_caller, forApps) => (forApps ? shown : TOOLS) });
    const listed = async (capabilities: object) =>
      (await (await connect(url, { mode, capabilities })).listTools()).tools;
    expect(await listed({})).toHaveLength(TOOLS.length);
    expect(await listed({ extensions: { 'io.modelcontextprotocol/ui': {} } })).toHaveLength(shown.length);
  });

  it('keeps rich content and renders null as an empty text', async () => {
    const client = await connect((await serveEndpoint()).url, { mode });
    expect((await call(client, 'rich')).content).toHaveLength(2);
    expect((await call(client, 'null')).content).toEqual([{ type: 'text', text: '' }]);
  });

  it('runs the call in the trace of the client', async () => {
    const seen: (string | undefined)[] = [];
    const executeCall = async () => {
      seen.push(traceparent());
      return success(null);
    };
    const client = await connect((await serveEndpoint({ executeCall })).url, { mode });
    const theirs = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await call(client, 'echo', {}, { traceparent: theirs });
    await client.callTool(
      { name: 'echo', arguments: {}, _meta: { traceparent: theirs } },
      { onprogress: () => undefined }, // served by the SDK
    );
    await call(client, 'echo');
    const own = expect.stringMatching(/^00-(?!0af765)[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/);
    expect(seen).toEqual([theirs, theirs, own]);
  });

  it('forwards progress and cancellation', async () => {
    const { url, seen } = await serveEndpoint();
    const client = await connect(url, { mode });
    const progress: unknown[] = [];
    await client.callTool({ name: 'slow', arguments: {} }, { onprogress: (one) => progress.push(one) });
    expect(progress).toEqual([1, 2, 3].map((step) => ({ progress: step, total: 3, message: `step ${step}` })));
    if (mode === 'legacy') return; // a stateless 2025 server cannot match a cancellation to its call, only a closed socket
    const stop = new AbortController();
    const running = client.callTool({ name: 'slow', arguments: {} }, { signal: stop.signal }).catch(() => undefined);
    await expect.poll(() => seen.length).toBe(2);
    stop.abort();
    await running;
    await expect.poll(() => seen[1]?.signal.aborted).toBe(true);
  });

  it('represents a large catalog by two tools', async () => {
    const { url, seen } = await serveEndpoint({}, { surface: 'auto', searchAbove: 2 });
    const client = await connect(url, { mode });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['call_tool', 'search_tools']);
    const found = await call(client, 'search_tools', { query: 'an echo please' });
    expect(found.structuredContent).toMatchObject({ tools: [{ name: 'echo', input_schema: { type: 'object' } }] });
    expect(await call(client, 'call_tool', { name: 'echo', arguments: { text: 'x' } })).toMatchObject({
      isError: false,
    });
    expect(seen[0]).toMatchObject({ target: { toolName: 'echo' }, input: { rawArguments: { text: 'x' } } });
    expect(await call(client, 'search_tools', { query: [] })).toMatchObject({ isError: true });
  });
});

describe('access', () => {
  it('answers 401 with the URL of the metadata, which names the issuer', async () => {
    const { url } = await serveEndpoint({}, { publicUrl: 'https://tools.example.com/' });
    const refused = await fetch(url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toContain(
      'resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"',
    );
    expect(await refused.json()).toMatchObject({ code: 'UNAUTHENTICATED' });
    const metadata = await fetch(url.replace('/mcp', '/.well-known/oauth-protected-resource/mcp'));
    expect(await metadata.json()).toMatchObject({
      resource: 'https://tools.example.com/mcp',
      authorization_servers: ['https://login.example'],
    });
    const inToolset = await fetch(`${url}/t/support@2`, { method: 'POST', body: '{}' });
    const path = '/.well-known/oauth-protected-resource/mcp/t/support@2';
    expect(inToolset.headers.get('www-authenticate')).toContain(`"https://tools.example.com${path}"`);
    expect(await (await fetch(url.replace('/mcp', path))).json()).toMatchObject({
      resource: 'https://tools.example.com/mcp/t/support@2',
    });
  });

  it('refuses foreign hosts and origins before anything else', async () => {
    const { port } = await serveEndpoint();
    const status = (headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve) => {
        const sent = httpRequest({ port, host: '127.0.0.1', path: '/mcp', method: 'POST', headers }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        sent.end('{}');
      });
    const bearer = { authorization: 'Bearer alice', 'content-type': 'application/json' };
    expect(await status({ ...bearer, host: 'evil.example' })).toBe(403);
    expect(await status({ ...bearer, origin: 'https://evil.example' })).toBe(403);
    expect(await status({ ...bearer, host: `localhost:${port}`, origin: `http://localhost:${port}` })).not.toBe(403);
  });

  it.each(['localhost:99999', 'localhost:', 'a b', '[::1', 'user@localhost'])(
    'ends every request with Host %j',
    async (host) => {
      const { port } = await serveEndpoint();
      for (const authorization of ['', 'Authorization: Bearer alice\r\n']) {
        const socket = connectTcp(port, '127.0.0.1');
        let text = '';
        socket.on('data', (chunk) => (text += String(chunk)));
        socket.write(`POST /mcp HTTP/1.1\r\nHost: ${host}\r\n${authorization}Content-Length: 2\r\n\r\n{}`);
        await expect.poll(() => text).toMatch(/^HTTP\/1.1 4\d\d /);
        socket.destroy();
      }
    },
  );

  it('ends a request whose handler throws', async () => {
    const faults: unknown[] = [];
    const onFault = (error: unknown): unknown => faults.push(error);
    const listTools = (): never => {
      throw new Error('a fault in the spec');
    };
    const { url } = await serveEndpoint({ listTools, onFault });
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const headers = {
      authorization: 'Bearer alice',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    const answer = await fetch(url, { method: 'POST', body, headers });
    expect([answer.status, await answer.json()]).toMatchObject([500, { code: 'INTERNAL' }]);
    expect(faults).toHaveLength(1);
  });

  it('never repeats a Host in the metadata, and serves none in production without a public URL', async () => {
    const { url, port } = await serveEndpoint({}, { development: true, allowedHosts: ['evil.example'] });
    const path = '/.well-known/oauth-protected-resource';
    const resource = async (host: string) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      httpRequest({ port, host: '127.0.0.1', path, headers: { host } }, (response) => {
        let text = '';
        response.on('data', (chunk) => (text += String(chunk))).on('end', () => resolve(text));
      }).end();
      return (JSON.parse(await promise) as { resource: string }).resource;
    };
    expect(await resource(`localhost:${port}`)).toBe(url.replace('127.0.0.1', 'localhost'));
    for (const host of ['evil.example', 'localhost.evil.example', 'localhost:99999', '127.0.0.1:1'])
      expect(await resource(host)).toMatch(new RegExp(`^http://(localhost|127\\.0\\.0\\.1):${port}/mcp$`));

    const { url: deployed } = await serveEndpoint();
    expect((await fetch(deployed.replace('/mcp', path))).status).toBe(404);
    const refused = await fetch(deployed, { method: 'POST', body: '{}' });
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="toolfleet"']);
  });

  it('ends only the subscriptions of a revoked credential, with a final chunk', async () => {
    const { EventStreams } = await import('../server/event-streams.js');
    const open = new Map<() => void, string>();
    const watch = ({ userId }: Principal, onVoid: () => void): (() => void) => {
      open.set(onVoid, userId);
      return () => void open.delete(onVoid);
    };
    const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 5 }, MEMORY, { watch });
    const { url } = await serveEndpoint({ streams });
    const [mine, theirs] = [await subscribe(url, 'alice'), await subscribe(url, 'bob')];
    for (const [onVoid, who] of open) if (who === 'alice') onVoid();
    expect(await mine.text()).toContain('notifications/subscriptions/acknowledged');
    await expect.poll(() => [...open.values()]).toEqual(['bob']);
    await theirs.body?.cancel();
  });

  it('limits the streams of each tenant', async () => {
    const { EventStreams } = await import('../server/event-streams.js');
    const streams = new EventStreams({ maxStreams: 2, maxStreamsPerTenant: 1 }, MEMORY);
    const { url } = await serveEndpoint({ streams });
    const listen = (who: string) => subscribe(url, who);
    const first = await listen('alice');
    expect([first.status, first.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const second = await listen('alice');
    expect([second.status, await second.json()]).toMatchObject([503, { id: 7, error: { code: -32_000 } }]);
    expect((await listen('bob')).status).toBe(200);
    await first.body?.cancel();
    await expect.poll(async () => (await listen('alice')).status).toBe(200);
  });

  it('treats null arguments as none and answers invalid JSON with a protocol error', async () => {
    const { url, seen } = await serveEndpoint();
    const send = (body: string) =>
      fetch(url, {
        method: 'POST',
        body,
        headers: {
          authorization: 'Bearer alice',
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
      });
    const called = await send(
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', arguments: null } }),
    );
    expect(called.status).toBe(200);
    await called.text();
    expect(seen[0]?.input.rawArguments).toEqual({});
    const garbage = await send('{"jsonrpc"');
    expect([garbage.status, await garbage.json()]).toMatchObject([400, { error: { code: -32_700 } }]);
  });
});

describe('a client that disconnects', () => {
  it.each([
    ['plain response', {}],
    ['stream', { progressToken: 'p' }],
  ])('cancels its call (2025, %s)', async (_what, meta) => {
    const { url, seen } = await serveEndpoint();
    const gone = new AbortController();
    const sent = fetch(url, {
      method: 'POST',
      signal: gone.signal,
      headers: {
        authorization: 'Bearer alice',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'long', arguments: {}, _meta: meta },
      }),
    })
      .then((response) => response.text())
      .catch(() => 'gone');
    await expect.poll(() => seen.length).toBe(1);
    gone.abort();
    expect(await sent).toBe('gone');
    await expect.poll(() => seen[0]?.signal.aborted).toBe(true);
  });
});

describe('the fast path', () => {
  /** The same request twice: plain, and with a progress token, served by the SDK only. */
  async function twice(url: string, modern: boolean, method: string, params: JsonObject): Promise<unknown[]> {
    const envelope: JsonObject = modern
      ? { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} }
      : {};
    const headers: Record<string, string> = modern
      ? {
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...(params['name'] ? { 'mcp-name': String(params['name']) } : {}),
        }
      : { 'mcp-protocol-version': '2025-11-25' };
    return Promise.all(
      [{}, { progressToken: 'p' }].map(async (more) => {
        const response = await fetch(url, {
          method: 'POST',
          headers: {
            authorization: 'Bearer alice',
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            ...headers,
          },
          body: JSON.stringify({
            jsonrpc: '2.0',
            id: 1,
            method,
            params: { ...params, _meta: { ...envelope, ...more } },
          }),
        });
        const text = await response.text();
        const data = /^data: (\{.*)$/m.exec(text)?.[1] ?? text;
        return JSON.parse(data.replaceAll(/"call_id":"[^"]+"/g, '"call_id":"x"'));
      }),
    );
  }

  it.each<[boolean, string, JsonObject]>([
    [true, 'tools/list', {}],
    [true, 'tools/call', { name: 'echo', arguments: { text: 'x' } }],
    [true, 'tools/call', { name: 'broke', arguments: {} }],
    [false, 'tools/call', { name: 'echo', arguments: { text: 'x' } }],
    [false, 'tools/call', { name: 'broke', arguments: {} }],
  ])('answers as the SDK does (2026: %s, %s %j)', async (modern, method, params) => {
    const tools = [...TOOLS, tool('broke')];
    const [plain, throughSdk] = await twice(
      (await serveEndpoint({ listTools: async () => tools })).url,
      modern,
      method,
      params,
    );
    expect(plain).toEqual(throughSdk);
  });
});

/** A store of one task. */
class OneTask implements TaskStore {
  readonly ttlMs = 60_000;
  task: Task | undefined;
  tenant = '';
  async start(request: CallRequest): Promise<Task> {
    this.tenant = request.principal.tenantId;
    const at = new Date(0).toISOString();
    return (this.task = {
      taskId: request.callId,
      tool: request.target.toolName,
      status: 'working',
      createdAt: at,
      lastUpdatedAt: at,
    });
  }
  async get(principal: Principal, taskId: string) {
    return principal.tenantId === this.tenant && this.task?.taskId === taskId ? this.task : undefined;
  }
  async cancel(principal: Principal, taskId: string) {
    const found = await this.get(principal, taskId);
    if (found) this.task = { ...found, status: 'cancelled' };
    return found !== undefined;
  }
  async update(principal: Principal, taskId: string) {
    return (await this.get(principal, taskId)) !== undefined;
  }
}

describe('tasks', () => {
  it('are created for clients that support them, and are unknown to other tenants', async () => {
    const tasks = new OneTask();
    const { url, seen } = await serveEndpoint({ tasks });
    const rpc = async (method: string, params: JsonObject, who = 'alice', takesTasks = true) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${who}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          'mcp-name': String(params['name'] ?? params['taskId']),
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method,
          params: {
            ...params,
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': takesTasks
                ? { extensions: { 'io.modelcontextprotocol/tasks': {} } }
                : {},
            },
          },
        }),
      });
      return (await response.json()) as { result?: Record<string, unknown>; error?: { code: number } };
    };
    const created = await rpc('tools/call', { name: 'slow', arguments: {} });
    expect(created.result).toMatchObject({
      resultType: 'task',
      status: 'working',
      ttlMs: 60_000,
      pollIntervalMs: expect.any(Number),
    });
    expect(seen).toHaveLength(0);
    const taskId = String(created.result?.['taskId']);
    expect((await rpc('tasks/get', { taskId })).result).toMatchObject({ resultType: 'complete', status: 'working' });
    expect((await rpc('tasks/get', { taskId }, 'bob')).error?.code).toBe(-32_602);
    expect((await rpc('tasks/get', { taskId: 'none' })).error?.code).toBe(-32_602);
    expect((await rpc('tasks/cancel', { taskId })).result).toMatchObject({ resultType: 'complete' });
    expect((await rpc('tasks/get', { taskId })).result).toMatchObject({ status: 'cancelled' });
    expect((await rpc('tasks/get', { taskId }, 'alice', false)).error?.code).toBe(-32_021);
    expect((await rpc('tools/call', { name: 'slow', arguments: {} }, 'alice', false)).result).toMatchObject({
      resultType: 'complete',
    });
  });
});

describe('replicas', () => {
  it('answer for each other; killing one fails only its calls in flight', async () => {
    const [killed, other] = [await serveEndpoint(), await serveEndpoint()];
    const robin = await startRoundRobin([killed.port, other.port]);
    closing(() => robin.stop());
    const clients = [await connect(`${robin.url}/mcp`), await connect(`${robin.url}/mcp`, { mode: 'legacy' })];
    const failed: { id: number; error: unknown }[] = [];
    const calls: Promise<unknown>[] = [];
    let lost: number[] = [];
    const release = holdCalls();
    for (let id = 0; id < 200; id += 1) {
      if (id === 100) {
        await expect.poll(() => robin.underWay(killed.port).length).toBeGreaterThan(0);
        robin.takeOut(killed.port);
        lost = robin.underWay(killed.port).map((body) => Number(/"id_of_call":(\d+)/.exec(body)?.[1]));
        await killed.stop();
        release();
      }
      const slow = id > 90 && id < 100;
      const sent = call(clients[id % 2] as Client, slow ? 'held' : 'echo', { id_of_call: id });
      calls.push(sent.catch((error: unknown) => failed.push({ id, error })));
      if (id % 10 === 0) await Promise.all(calls.splice(0));
    }
    await Promise.all(calls);
    expect(lost.length).toBeGreaterThan(0);
    expect(failed.filter(({ id }) => !lost.includes(id))).toEqual([]);
    for (const { error } of failed) expect(error).toBeInstanceOf(Error);
    expect((await clients[0]?.listTools())?.tools).toHaveLength(4);
  });
});
