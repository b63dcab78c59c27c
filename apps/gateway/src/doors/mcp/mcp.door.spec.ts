import { createServer, request as proxyRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  ToolError,
  type CallRequest,
  type CallResult,
  type JsonObject,
  type Principal,
  type RegisteredTool,
} from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import Fastify from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { openRequestState, sealRequestState } from '../../auth/request-state.js';
import { SignedTokens } from '../../auth/signed-token.js';
import type { McpDoorDeps, McpDoorOptions } from './mcp-ports.js';
import { mountMcpDoor } from './mcp.door.js';
import { TaskStore, type Task } from './task-store.js';

const clock = new SystemClock();
const tokens = new SignedTokens('0123456789abcdef0123456789abcdef', clock);
const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const principals: Record<string, Principal> = {
  alice: { tenantId: 'acme', userId: 'alice', roles: [], tools: ['*'], via: 'api_key' },
  bob: { tenantId: 'other', userId: 'bob', roles: [], tools: ['echo'], via: 'api_key' },
};

function tool(name: string, more: Partial<RegisteredTool> = {}): RegisteredTool {
  return {
    name,
    version: '1.0.0',
    description: `Tool ${name}`,
    category: 'test',
    input_schema: { type: 'object', properties: { text: { type: 'string' } } },
    binding: { kind: 'builtin', toolset: 'compute', handler: name },
    source: { kind: 'builtin', name: 'builtin' },
    revision: '1',
    available: true,
    ...more,
  };
}
const TOOLS = [
  tool('echo', { idempotent: true, output_schema: { type: 'object' } }),
  tool('slow', { task_support: 'optional' }),
  tool('careful'),
  tool('long'),
];

const success = (output: CallResult['output'], text = ''): CallResult => ({
  ok: true,
  output,
  text,
  provenance: 'live',
  usage: { tokens: 0, microUsd: 0 },
  metadata: {},
  timing: { queue_ms: 0, wait_ms: 0, execute_ms: 1 },
  attempts: 1,
});

/** What the engine would do, by tool name. */
async function engine(request: CallRequest): Promise<CallResult> {
  switch (request.toolName) {
    case 'echo':
      return success({ echoed: request.rawArguments }, JSON.stringify(request.rawArguments));
    case 'null':
      return success(null);
    case 'rich':
      return {
        ...success('words', 'words'),
        content: [
          { type: 'text', text: 'words' },
          { type: 'image', data: 'AA==', mimeType: 'image/png' },
        ],
      };
    case 'fails':
      return {
        ...success(null),
        ok: false,
        failure: {
          code: 'UPSTREAM_ERROR',
          errorType: 'network_error',
          message: 'HTTP 404: no such order',
          retryable: false,
        },
      };
    case 'broke':
      throw new ToolError('BUDGET_EXCEEDED', { message: 'Budget exceeded' });
    case 'wrong':
      throw new ToolError('ARGUMENTS_INVALID', { message: 'text must be a string', details: { fields: ['text'] } });
    case 'slow':
      for (let step = 1; step <= 3; step += 1) {
        await clock.sleep(20, request.signal);
        request.onProgress?.({ progress: step, total: 3, message: `step ${step}` });
      }
      return success('done', 'done');
    case 'long':
      await clock.sleep(5_000, request.signal);
      return success('late', 'late');
    case 'careful':
      return success('deleted', 'deleted');
    default:
      throw new ToolError('TOOL_NOT_FOUND', { message: `Tool '${request.toolName}' not found` });
  }
}

interface Door {
  url: string;
  port: number;
  seen: CallRequest[];
  stop: () => Promise<void>;
}

async function door(deps: Partial<McpDoorDeps> = {}, options: Partial<McpDoorOptions> = {}): Promise<Door> {
  const fastify = Fastify({ forceCloseConnections: true });
  const seen: CallRequest[] = [];
  const mounted = await mountMcpDoor(
    fastify,
    {
      authenticate: async (rawHeaders) => {
        const at = rawHeaders.findIndex((name) => name.toLowerCase() === 'authorization');
        const principal = principals[String(rawHeaders[at + 1]).replace('Bearer ', '')];
        if (at < 0 || !principal) throw new ToolError('UNAUTHENTICATED');
        return principal;
      },
      listTools: async () => TOOLS,
      executeCall: (request) => {
        seen.push(request);
        return engine(request);
      },
      searchTools: async (_principal, query, limit) => TOOLS.filter(({ name }) => query.includes(name)).slice(0, limit),
      requestState: {
        seal: (binding, state, ttlMs) => sealRequestState(tokens, binding, state, clock.now() + ttlMs),
        open: (binding, token) => openRequestState(tokens, binding, token),
      },
      clock,
      ...deps,
    },
    {
      version: '1.2.3',
      maxCallMs: 10_000,
      listTtlMs: 300_000,
      maxBodyBytes: 1_000_000,
      issuer: 'https://login.example',
      ...options,
    },
  );
  await fastify.listen({ port: 0, host: '127.0.0.1' });
  const { port } = fastify.server.address() as AddressInfo;
  const stop = async () => {
    await mounted.close();
    fastify.server.closeAllConnections();
    await fastify.close();
  };
  closers.push(stop);
  return { url: `http://127.0.0.1:${port}/mcp`, port, seen, stop };
}

async function connect(
  url: string,
  { who = 'alice', mode = 'auto' as 'auto' | 'legacy', capabilities = {} } = {},
): Promise<Client> {
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode }, capabilities, inputRequired: { autoFulfill: true } },
  );
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${who}` } } }),
  );
  closers.push(() => client.close());
  return client;
}

const call = (client: Client, name: string, args: JsonObject = {}, meta?: JsonObject) =>
  client.callTool({ name, arguments: args, ...(meta ? { _meta: meta } : {}) });

describe.each(['auto', 'legacy'] as const)('the MCP door (%s)', (mode) => {
  it('lists by name in byte order and calls', async () => {
    const { url, seen } = await door();
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
      door: 'mcp',
      origin: 'public',
      principal: { userId: 'alice' },
      requestId: 'r1',
      idempotencyKey: 'k1',
      context: { user_id: 'alice', session_id: 's1' },
    });
    expect(seen[0]?.context).not.toHaveProperty('project_id');
  });

  it('shows failures and refusals as results with a suggestion, and unknown tools as -32602', async () => {
    const client = await connect((await door()).url, { mode });
    expect(await call(client, 'fails')).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('HTTP 404: no such order') }],
      _meta: { code: 'UPSTREAM_ERROR', error_type: 'network_error' },
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

  it('keeps rich content, and answers null with an empty text (A34)', async () => {
    const client = await connect((await door()).url, { mode });
    expect((await call(client, 'rich')).content).toHaveLength(2);
    expect((await call(client, 'null')).content).toEqual([{ type: 'text', text: '' }]);
  });

  it('passes progress on, and a cancelled call reaches the engine as cancelled', async () => {
    const { url, seen } = await door();
    const client = await connect(url, { mode });
    const progress: unknown[] = [];
    await client.callTool({ name: 'slow', arguments: {} }, { onprogress: (one) => progress.push(one) });
    expect(progress).toEqual([1, 2, 3].map((step) => ({ progress: step, total: 3, message: `step ${step}` })));
    if (mode === 'legacy') return; // a stateless 2025 server cannot match a cancellation to its call; a closed socket it can
    const stop = new AbortController();
    const running = client.callTool({ name: 'slow', arguments: {} }, { signal: stop.signal }).catch(() => undefined);
    await expect.poll(() => seen.length).toBe(2);
    stop.abort();
    await running;
    await expect.poll(() => seen[1]?.signal.aborted).toBe(true);
  });

  it('stands for a large catalogue with two tools', async () => {
    const { url, seen } = await door({}, { surface: 'auto', searchAbove: 2 });
    const client = await connect(url, { mode });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['call_tool', 'search_tools']);
    const found = await call(client, 'search_tools', { query: 'an echo please' });
    expect(found.structuredContent).toMatchObject({ tools: [{ name: 'echo', input_schema: { type: 'object' } }] });
    expect(await call(client, 'call_tool', { name: 'echo', arguments: { text: 'x' } })).toMatchObject({
      isError: false,
    });
    expect(seen[0]).toMatchObject({ toolName: 'echo', rawArguments: { text: 'x' } });
    expect(await call(client, 'search_tools', {})).toMatchObject({ isError: true });
  });
});

describe('access', () => {
  it('answers 401 with the way to the metadata, which names the issuer', async () => {
    const { url } = await door({}, { publicUrl: 'https://tools.example.com/' });
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
  });

  it('refuses foreign hosts and origins before anything else', async () => {
    const { port } = await door();
    const status = (headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve) => {
        const sent = proxyRequest({ port, host: '127.0.0.1', path: '/mcp', method: 'POST', headers }, (response) => {
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

  it('takes null arguments for none (A33), and answers what is not JSON in the protocol`s terms', async () => {
    const { url, seen } = await door();
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
    expect(seen[0]?.rawArguments).toEqual({});
    const garbage = await send('{"jsonrpc"');
    expect([garbage.status, await garbage.json()]).toMatchObject([400, { error: { code: -32_700 } }]);
  });
});

describe('a client that goes away', () => {
  it.each([
    ['the plain answer', {}],
    ['a stream', { progressToken: 'p' }],
  ])('cancels its call (2025, %s)', async (_what, meta) => {
    const { url, seen } = await door();
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
  /** The same request twice: plain, and with a progress token, which only the SDK serves. */
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
    const [plain, throughSdk] = await twice((await door({ listTools: async () => tools })).url, modern, method, params);
    expect(plain).toEqual(throughSdk);
  });
});

describe('approval of dangerous calls', () => {
  const asks: Partial<McpDoorDeps> = {
    approvalFor: async (_principal, { name }) => (name === 'careful' ? 'Really delete everything?' : undefined),
  };
  it.each([
    [true, false],
    [false, true],
  ])('the person answers %s', async (approve, refused) => {
    const { url, seen } = await door(asks);
    const client = await connect(url, { capabilities: { elicitation: {} } });
    const questions: unknown[] = [];
    client.setRequestHandler('elicitation/create', ({ params }) => {
      questions.push(params.message);
      return { action: 'accept', content: { approve } };
    });
    const result = await call(client, 'careful', { text: 'x' });
    expect(questions).toEqual(['Really delete everything?']);
    expect(result.isError).toBe(refused);
    expect(seen).toHaveLength(approve ? 1 : 0);
  });

  it('an approval of one call is worth nothing for another', async () => {
    const { url, seen } = await door(asks);
    const ask = (args: JsonObject, more: JsonObject = {}) =>
      fetch(url, {
        method: 'POST',
        headers: {
          authorization: 'Bearer alice',
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/call',
          'mcp-name': 'careful',
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: {
            name: 'careful',
            arguments: args,
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
            },
            ...more,
          },
        }),
      }).then((response) => response.json() as Promise<{ result: Record<string, unknown> }>);
    const { result } = await ask({ text: 'one' });
    expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
    const answer = {
      inputResponses: { approval: { action: 'accept', content: { approve: true } } },
      requestState: result['requestState'] as string,
    };
    expect((await ask({ text: 'two' }, answer)).result).toMatchObject({
      isError: true,
      _meta: { code: 'PERMISSION_DENIED' },
    });
    expect(seen).toHaveLength(0);
    expect((await ask({ text: 'one' }, answer)).result).toMatchObject({ isError: false });
  });
});

/** One task that ends when it is told to. */
class OneTask extends TaskStore {
  override readonly ttlMs = 60_000;
  task: Task | undefined;
  tenant = '';
  override async start(request: CallRequest): Promise<Task> {
    this.tenant = request.principal.tenantId;
    const at = new Date(0).toISOString();
    return (this.task = {
      taskId: request.callId,
      tool: request.toolName,
      status: 'working',
      createdAt: at,
      lastUpdatedAt: at,
    });
  }
  override async get(principal: Principal, taskId: string) {
    return principal.tenantId === this.tenant && this.task?.taskId === taskId ? this.task : undefined;
  }
  override async cancel(principal: Principal, taskId: string) {
    const found = await this.get(principal, taskId);
    if (found) this.task = { ...found, status: 'cancelled' };
    return found !== undefined;
  }
  override async update(principal: Principal, taskId: string) {
    return (await this.get(principal, taskId)) !== undefined;
  }
}

describe('tasks', () => {
  it('are created for clients that take them, and are unknown to other tenants', async () => {
    const tasks = new OneTask();
    const { url, seen } = await door({ tasks });
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
  it('answer for each other; a killed one fails only what was in flight on it', async () => {
    const replicas = [await door(), await door()];
    const alive = new Set(replicas);
    let turn = 0;
    const proxy = createServer((incoming, outgoing) => {
      const up = [...alive];
      const { port } = up[(turn += 1) % up.length] as Door;
      const onward = proxyRequest(
        {
          port,
          host: '127.0.0.1',
          path: incoming.url,
          method: incoming.method,
          headers: { ...incoming.headers, host: `127.0.0.1:${port}` },
        },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
          answer.on('error', () => outgoing.destroy());
        },
      );
      onward.on('error', () => outgoing.destroy());
      outgoing.on('close', () => onward.destroy());
      incoming.pipe(onward);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    closers.push(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`;
    const clients = [await connect(url), await connect(url, { mode: 'legacy' })];
    const outcomes = { good: 0, failed: 0 };
    const calls: Promise<unknown>[] = [];
    for (let index = 0; index < 200; index += 1) {
      if (index === 100) {
        const [first] = replicas;
        if (first) {
          alive.delete(first);
          await first.stop();
        }
      }
      const client = clients[index % 2] as Client;
      calls.push(
        call(client, 'echo', { index }).then(
          () => (outcomes.good += 1),
          () => (outcomes.failed += 1),
        ),
      );
      if (index % 10 === 0) await Promise.all(calls.splice(0));
    }
    await Promise.all(calls);
    expect(outcomes.good + outcomes.failed).toBe(200);
    expect(outcomes.failed).toBeLessThanOrEqual(10); // at most what was in flight when it died
    expect((await clients[0]?.listTools())?.tools).toHaveLength(4);
  });
});
