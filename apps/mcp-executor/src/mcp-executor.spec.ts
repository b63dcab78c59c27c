import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills';
import type { PersonInput, JsonObject } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { RESULT_DIGEST, resultDigest } from '@toolfleet/contracts/pinned-result';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import { EgressClient } from '@toolfleet/egress';
import { BreakerMap, SystemClock, type Clock } from '@toolfleet/resilience';
import { VariableExpander } from '@toolfleet/service';
import { FakeClock } from '@toolfleet/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { McpExecutor } from './mcp-executor.js';
import { STREAM_CONNECTIONS } from './mcp-session.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function serve(
  listener: RequestListener,
  port = 0,
): Promise<{ url: string; port: number; stop: () => Promise<void> }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  closers.push(stop);
  const used = (server.address() as AddressInfo).port;
  return { url: `http://127.0.0.1:${used}/mcp`, port: used, stop };
}

const ANY_FORM = { type: 'object' as const, properties: { n: { type: 'integer' as const } } };
const PIXEL = 'iVBORw0KGgo=';

const SKILL = '---\nname: refunds\ndescription: Refunds an order\n---\nSee [rules](rules.md).\n';
const skills = await SkillsExtension.load(
  memorySkillFiles({ 'refunds/SKILL.md': SKILL, 'refunds/rules.md': '# Rules' }),
);
/** How often the prompt `counted` was read: its text differs from request to request. */
let counted = 0;

function toolServer(seen: string[] = []): McpServer {
  const server = new McpServer({ name: 'test', version: '1.0.0' });
  skills.attach(server);
  server.registerTool(
    'add',
    {
      description: 'Adds.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    ({ a, b }) => {
      seen.push('add');
      return { content: [{ type: 'text', text: `${a + b}` }], structuredContent: { sum: a + b } };
    },
  );
  server.registerTool('rich', { description: 'All blocks.', inputSchema: z.object({}) }, () => ({
    content: [
      { type: 'text', text: 'one' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      { type: 'audio', data: PIXEL, mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'x://l', name: 'l' },
      { type: 'resource', resource: { uri: 'x://r', text: 'r' } },
    ],
  }));
  server.registerPrompt('greet', { description: 'Greets.' }, () => ({
    messages: [{ role: 'user', content: { type: 'resource_link', uri: 'x://l', name: 'l' } }],
  }));
  server.registerPrompt('counted', { description: 'Counts.' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: `${(counted += 1)}` } }],
  }));
  server.registerResource('l', 'x://l', {}, ({ href }) => {
    seen.push(`read ${href}`);
    return { contents: [{ uri: href, text: 'l' }] };
  });
  server.registerTool('fails', { description: 'Fails.', inputSchema: z.object({}) }, () => ({
    isError: true,
    content: [{ type: 'text', text: 'no such order' }],
  }));
  server.registerTool(
    'slow',
    { description: 'Slow.', inputSchema: z.object({ ms: z.number() }) },
    async ({ ms }, context) => {
      seen.push('slow began');
      context.mcpReq.signal.addEventListener('abort', () => seen.push('slow aborted'), { once: true });
      const token = context.mcpReq._meta?.progressToken;
      for (let waited = 0; waited < ms; waited += 50) {
        await sleep(50, undefined, { signal: context.mcpReq.signal });
        if (token !== undefined) {
          await context.mcpReq.notify({
            method: 'notifications/progress',
            params: { progressToken: token, progress: waited },
          });
        }
      }
      return { content: [{ type: 'text', text: 'done' }] };
    },
  );
  return server;
}

/** Both protocol revisions, stateless. */
const bothRevisions = (seen?: string[]): RequestListener => {
  const handle = toNodeHandler(createMcpHandler(() => toolServer(seen)));
  return (request, response) => void handle(request, response);
};

/** 2026-07-28, in answers that lack these members of results. */
function omitting(members: readonly string[], methods?: readonly string[]): RequestListener {
  const served = createMcpHandler(() => toolServer(), { responseMode: 'json' });
  const handle = toNodeHandler({
    async fetch(request, options) {
      const response = await served.fetch(request, options);
      if (!response.headers.get('content-type')?.includes('json')) return response;
      const body = (await response.json()) as { result?: Record<string, unknown> };
      const isMeant = methods?.includes(String(request.headers.get('mcp-method'))) ?? true;
      for (const member of isMeant ? members : []) delete body.result?.[member];
      return Response.json(body, { status: response.status });
    },
  });
  return (request, response) => void handle(request, response);
}

/** 2026-07-28, with other results of some methods. */
function replacing(results: Readonly<Record<string, object>>): RequestListener {
  const served = createMcpHandler(() => toolServer());
  const handle = toNodeHandler({
    async fetch(request, options) {
      const response = await served.fetch(request, options);
      const result = results[String(request.headers.get('mcp-method'))];
      if (!result) return response;
      const { id } = (await response.json()) as { id: number };
      return Response.json({ jsonrpc: '2.0', id, ...result });
    },
  });
  return (request, response) => void handle(request, response);
}

/** 2025-11-25 with sessions kept in memory; `forget` drops them, as a restart would. */
function sessionful() {
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  const listener: RequestListener = (request, response) => {
    void (async () => {
      const id = request.headers['mcp-session-id'];
      let transport = typeof id === 'string' ? transports.get(id) : undefined;
      if (!transport && id !== undefined) return response.writeHead(404).end();
      const body = request.method === 'POST' ? JSON.parse(await bodyOf(request)) : undefined;
      if (!transport) {
        if (body?.method !== 'initialize') return response.writeHead(400).end('{}');
        const made = new NodeStreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (session) => void transports.set(session, made),
        });
        transport = made;
        await toolServer().connect(made);
      }
      return transport.handleRequest(request, response, body);
    })();
  };
  return { listener, forget: () => transports.clear(), sessions: () => transports.size };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function executor(
  options: {
    port?: number;
    ports?: number[];
    env?: Record<string, string>;
    recoveryMs?: number;
    maxBytes?: number;
    allowStdio?: boolean;
    clock?: Clock;
  } = {},
) {
  const { clock = new SystemClock() } = options;
  const ports = [options.port ?? 0, ...(options.ports ?? [])].filter((port) => port > 0);
  const allowed = { allowlist: [], allowedEndpoints: ports.map((one) => `http://127.0.0.1:${one}`) };
  const egress = new EgressClient(allowed);
  const streamEgress = new EgressClient({ ...allowed, limits: STREAM_CONNECTIONS });
  const expander = new VariableExpander([], options.env ?? {});
  const parts = {
    egress,
    streamEgress,
    clock,
    expand: (value: string) => expander.expand(value),
    maxResponseBytes: options.maxBytes ?? 3_000_000,
  };
  const changed: string[] = [];
  const pool = new SessionPool(
    { ...parts, allowStdio: options.allowStdio ?? false, version: '0' },
    (server) => changed.push(server),
    POOL_LIMITS,
  );
  const breakers = new BreakerMap({ consecutiveFailures: 5, recoveryMs: options.recoveryMs ?? 60_000 }, clock);
  closers.push(async () => {
    await pool.close();
    breakers.dispose();
    await Promise.all([egress.close(), streamEgress.close()]);
  });
  const made = new McpExecutor(pool, breakers, parts, clock, {});
  const call = (
    binding: Partial<McpBinding> & { url: string },
    name: string,
    args: JsonObject = {},
    limits: {
      remainingMs?: number;
      signal?: AbortSignal;
      onProgress?: (p: unknown) => void;
      deadlineShortened?: boolean;
      input?: PersonInput;
    } = {},
  ) => {
    const { deadlineShortened = false, input, ...attempt } = limits;
    return made.execute(
      { ...messageOf(binding, name, args), deadlineShortened, input },
      { remainingMs: 10_000, signal: new AbortController().signal, ...attempt },
    );
  };
  return {
    call,
    changed,
    pool,
    egress,
    discover: (message: JsonObject) =>
      made.discover(message as never, { timeoutMs: 30_000, signal: new AbortController().signal }),
  };
}

let revision = 0;
function messageOf(binding: Partial<McpBinding> & { url: string }, remoteName: string, args: JsonObject): ExecMessage {
  return {
    call_id: randomUUID(),
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: `t_${remoteName}`,
    revision: String((revision += 1)),
    binding: { kind: 'mcp', server: 'test', transport: 'streamable-http', remoteName, ...binding },
    arguments: args,
    context: { tenant_id: 't' },
  };
}

describe.each(['both revisions', '2025 with sessions'])('a server of %s', (kind) => {
  const start = () => serve(kind === 'both revisions' ? bothRevisions() : sessionful().listener);

  it('is discovered and called over one session', async () => {
    const { url, port } = await start();
    const { call, discover, pool } = executor({ port });
    const found = await discover({ server: 'test', url });
    expect(found.tools.map((tool) => tool.name)).toEqual(['add', 'rich', 'fails', 'slow']);
    expect(found.tools[0]).toMatchObject({
      description: 'Adds.',
      input_schema: { type: 'object', required: ['a', 'b'] },
    });
    expect(found.prior['kind']).toBe(kind === 'both revisions' ? 'modern' : 'legacy');
    expect(found.prompts).toEqual([
      { name: 'greet', description: 'Greets.', _meta: { [RESULT_DIGEST]: expect.stringMatching(/^[0-9a-f]{64}$/) } },
      { name: 'counted', description: 'Counts.' },
    ]);
    expect(found.resources).toMatchObject({ directoryRead: true });
    expect(found.resources?.resources).toContainEqual({ name: 'l', uri: 'x://l' });
    expect(found.skills).toMatchObject({ skills: [{ uri: 'skill://refunds/SKILL.md' }], refused: [] });
    const replies = await Promise.all(Array.from({ length: 20 }, (_, a) => call({ url }, 'add', { a, b: 1 })));
    expect(replies.map((reply) => reply.output)).toEqual(Array.from({ length: 20 }, (_, a) => ({ sum: a + 1 })));
    expect(replies[0]).toMatchObject({ ok: true, text: '1', metadata: {} });
    expect(pool.size).toBe(1);
  });

  it('is discovered as many sources, which all keep a notification stream', async () => {
    const { url, port } = await start();
    const { discover, pool } = executor({ port });
    const sources = Array.from({ length: 12 }, (_, number) => discover({ server: `s${number}`, url }));
    expect((await Promise.all(sources)).map(({ tools }) => tools.length)).toEqual(sources.map(() => 4));
    expect(pool.size).toBe(12);
  });

  it('gets prompts and reads resources, with addresses of the fleet', async () => {
    const { url, port } = await start();
    const { call } = executor({ port });
    const authority = 'mcp-0123456789abcdef';
    const link = { type: 'resource_link', uri: `x://${authority}/l`, name: 'l' };
    const prompt = await call({ url, authority, method: 'prompts/get' }, 'greet');
    expect(prompt).toMatchObject({ ok: true, output: { messages: [{ role: 'user', content: link }] } });
    const read = (uri: string) => call({ url, authority, method: 'resources/read' }, 'test', { uri });
    for (const uri of ['x://l', link.uri])
      expect(await read(uri)).toMatchObject({ ok: true, output: { contents: [{ uri: link.uri, text: 'l' }] } });
    const missing = { code: 'UPSTREAM_ERROR', facts: { rpcCode: -32_002 } };
    expect(await read('x://other')).toMatchObject({ ok: false, failure: missing });
    expect(await call({ url, method: 'prompts/get' }, 'nobody')).toMatchObject({
      ok: false,
      failure: { code: 'UPSTREAM_ERROR', facts: { rpcCode: -32_602 } },
    });
    const completion = { uri: 'x://l', argument: { name: 'a', value: '' } };
    const none = { ok: true, output: { completion: { values: [] } } };
    expect(await call({ url, method: 'resources/read' }, 'test', completion)).toMatchObject(none);
  });

  it('gets skills and the children of directories, with addresses of the fleet', async () => {
    const { url, port } = await start();
    const { call, discover } = executor({ port });
    const authority = 'mcp-0123456789abcdef';
    const address = `skill://${authority}/refunds`;
    const skill = await call({ url, authority, method: 'skills/get' }, 'skill://refunds/SKILL.md');
    const files = [{ uri: `${address}/SKILL.md`, size: SKILL.length }, { uri: `${address}/rules.md` }];
    expect(skill).toMatchObject({ ok: true, output: { skill: { uri: `${address}/SKILL.md`, resources: files } } });
    const read = (uri: string) => call({ url, authority, method: 'resources/read' }, 'test', { uri, directory: true });
    const { output } = await read(address);
    expect((output as JsonObject)['resources']).toMatchObject(files.map(({ uri }) => ({ uri })));
    const none = { ok: false, failure: { facts: { rpcCode: -32_602 } } };
    expect(await read('x://l')).toMatchObject(none);
    expect(await call({ url, method: 'skills/get' }, 'skill://nothing/SKILL.md')).toMatchObject(none);
    const found = await discover({ server: 'test', url });
    const digest = resultDigest(found.skills!.skills[0]!);
    const get = (approved: string) =>
      call({ url, authority, method: 'skills/get', digest: approved }, 'skill://refunds/SKILL.md');
    expect(await get(digest)).toMatchObject({ ok: true });
    expect(await get('0'.repeat(64))).toMatchObject({ ok: false, failure: { code: 'TOOL_QUARANTINED' } });
  });

  it('refuses the text of a prompt that is not as it was approved', async () => {
    const { url, port } = await start();
    const { call, discover } = executor({ port });
    const [greet] = (await discover({ server: 'test', url })).prompts!;
    const digest = String((greet!['_meta'] as JsonObject)[RESULT_DIGEST]);
    const get = (name: string) => call({ url, authority: 'mcp-0123456789abcdef', method: 'prompts/get', digest }, name);
    expect(await get('greet')).toMatchObject({ ok: true });
    expect(await get('counted')).toMatchObject({
      ok: false,
      failure: { code: 'TOOL_QUARANTINED', message: expect.stringContaining('has changed and awaits approval') },
    });
  });

  it('keeps every content block', async () => {
    const { url, port } = await start();
    const reply = await executor({ port }).call({ url }, 'rich');
    expect(reply.content?.map((block) => block['type'])).toEqual([
      'text',
      'image',
      'audio',
      'resource_link',
      'resource',
    ]);
    expect(reply.content?.[1]).toEqual({ type: 'image', data: PIXEL, mimeType: 'image/png' });
  });

  it('reports tool errors, unknown tools and wrong arguments in-band', async () => {
    const { url, port } = await start();
    const { call } = executor({ port });
    expect(await call({ url }, 'fails')).toMatchObject({
      ok: false,
      text: 'no such order',
      failure: { code: 'TOOL_ERROR', message: 'no such order' },
    });
    expect(await call({ url }, 'add', { a: 'x' })).toMatchObject({ ok: false, failure: { code: 'TOOL_ERROR' } });
    expect(await call({ url }, 'missing')).toMatchObject({
      ok: false,
      failure: { code: 'UPSTREAM_ERROR', details: { rpc_code: -32602 } },
    });
  });

  it('forwards progress, which extends a call beyond its idle limit', async () => {
    const { url, port } = await start();
    const seen: unknown[] = [];
    const { call } = executor({ port });
    const reply = await call(
      { url, options: { timeout_seconds: 1 } },
      'slow',
      { ms: 1_500 },
      { onProgress: (p) => seen.push(p) },
    );
    expect(reply).toMatchObject({ ok: true, text: 'done' });
    expect(seen.length).toBeGreaterThan(5);
  });

  it('requests progress itself where calls may exceed the idle limit', async () => {
    const { url, port } = await start();
    const { call } = executor({ port });
    const patient = { timeout_seconds: 1, max_seconds: 20 };
    expect(await call({ url, options: patient }, 'slow', { ms: 1_500 })).toMatchObject({ ok: true });
    expect(await call({ url, options: { timeout_seconds: 0.3 } }, 'slow', { ms: 5_000 })).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT', details: { phase: 'idle' } },
    });
  });

  it('ends a silent call at its idle limit or the deadline, and serves the next call', async () => {
    const { url, port } = await start();
    const { call } = executor({ port });
    expect(await call({ url, options: { timeout_seconds: 0.2 } }, 'slow', { ms: 5_000 })).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT', details: { phase: 'idle' } },
    });
    expect(await call({ url }, 'slow', { ms: 5_000 }, { remainingMs: 200 })).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT', details: { phase: 'total' } },
    });
    expect(await call({ url }, 'add', { a: 1, b: 1 })).toMatchObject({ ok: true });
  });
});

describe('McpExecutor', () => {
  it('stops the remote work when the call is cancelled', async () => {
    const seen: string[] = [];
    const { url, port } = await serve(bothRevisions(seen));
    const { call } = executor({ port });
    const stop = new AbortController();
    const running = call({ url }, 'slow', { ms: 5_000 }, { signal: stop.signal });
    await expect.poll(() => seen).toContain('slow began');
    stop.abort();
    expect(await running).toMatchObject({ failure: { code: 'CANCELLED' } });
    await expect.poll(() => seen).toContain('slow aborted');
  });

  it('renews a lost 2025 session once and repeats the refused call', async () => {
    const server = sessionful();
    const { url, port } = await serve(server.listener);
    const { call } = executor({ port });
    await call({ url }, 'add', { a: 1, b: 1 });
    server.forget();
    expect(await call({ url }, 'add', { a: 2, b: 2 })).toMatchObject({ ok: true, output: { sum: 4 } });
  });

  it('survives a restart of the server on the same port', async () => {
    const first = await serve(bothRevisions());
    const { call } = executor({ port: first.port });
    await call({ url: first.url }, 'add', { a: 1, b: 1 });
    await first.stop();
    expect(await call({ url: first.url }, 'add', { a: 1, b: 1 })).toMatchObject({ failure: { code: 'NETWORK_ERROR' } });
    await serve(sessionful().listener, first.port); // now with another protocol revision
    expect(await call({ url: first.url }, 'add', { a: 3, b: 1 })).toMatchObject({ ok: true, output: { sum: 4 } });
  });

  it('connects without a probe when the protocol revision is known', async () => {
    const requests: string[] = [];
    const listener = bothRevisions();
    const { url, port } = await serve((request, response) => {
      requests.push(String(request.headers['mcp-method']));
      listener(request, response);
    });
    const { prior } = await executor({ port }).discover({ server: 'test', url });
    requests.length = 0;
    await executor({ port }).call({ url, options: { prior } }, 'add', { a: 1, b: 1 });
    expect(requests.filter((method) => method !== 'subscriptions/listen')).toEqual(['tools/call']);
  });

  it('follows a server that no longer speaks the stored revision, and reports it', async () => {
    const first = await serve(bothRevisions());
    const { prior } = await executor({ port: first.port }).discover({ server: 'test', url: first.url });
    await first.stop();
    const { url, port } = await serve(sessionful().listener, first.port);
    const { call, changed } = executor({ port });
    expect(prior['kind']).toBe('modern');
    expect(await call({ url, options: { prior } }, 'add', { a: 3, b: 1 })).toMatchObject({ ok: true });
    expect(changed).toEqual(['test']);
  });

  it.each([
    ['2025-06-18', bothRevisions(), ['initialize', 'notifications/initialized', 'tools/list']],
    ['2026-07-28', bothRevisions(), ['server/discover', 'tools/list']],
    ['2026-07-28', sessionful().listener, undefined],
  ])('uses only the revision %s where it is pinned', async (pinned, listener, expected) => {
    const methods: string[] = [];
    const { url, port } = await serve((request, response) => {
      request.once('data', (data: Buffer) => methods.push(JSON.parse(data.toString()).method));
      listener(request, response);
    });
    const { discover } = executor({ port });
    const found = discover({ server: 'test', url, protocol_version: pinned, prior: { kind: 'legacy' } });
    if (!expected) return expect(found).rejects.toMatchObject({ code: 'UPSTREAM_ERROR' });
    expect(await found).toMatchObject({ protocol_version: pinned });
    return expect(methods.filter((method) => !/^(?:prompts|resources|skills|subscriptions)\//.test(method))).toEqual(
      expected,
    );
  });

  it.each([
    ['resultType', 'calls', ['resultType'], ['tools/call']],
    ['resultType', 'all results', ['resultType'], undefined],
    ['resultType, ttlMs and cacheScope', 'all results', ['resultType', 'ttlMs', 'cacheScope'], undefined],
  ])('takes results of 2026-07-28 without %s in %s as complete', async (_members, _where, members, methods) => {
    const { url, port } = await serve(omitting(members, methods));
    const { call, discover } = executor({ port });
    const found = await discover({ server: 'test', url });
    expect([found.protocol_version, found.tools.length]).toEqual(['2026-07-28', 4]);
    expect(await call({ url }, 'add', { a: 2, b: 2 })).toMatchObject({ ok: true, output: { sum: 4 } });
  });

  it('lets a server ask only for what the caller declared, and says what a caller would have to declare', async () => {
    const handle = toNodeHandler(
      createMcpHandler(() => {
        const server = new McpServer({ name: 'asking', version: '1' });
        server.registerTool('ask', { inputSchema: z.object({}) }, () =>
          inputRequired({ inputRequests: { n: inputRequired.elicit({ message: 'N?', requestedSchema: ANY_FORM }) } }),
        );
        return server;
      }),
    );
    const { url, port } = await serve((request, response) => void handle(request, response));
    const { call } = executor({ port });
    const declaring = (elicitation?: JsonObject) =>
      call({ url }, 'ask', {}, elicitation && { input: { capabilities: { elicitation } } });
    expect(await declaring({ form: {} })).toMatchObject({
      failure: { code: 'INPUT_REQUIRED', facts: { input: { server: 'test', requests: { n: { params: {} } } } } },
    });
    for (const reply of [await declaring(), await declaring({ url: {} })])
      expect(reply.failure).toMatchObject({
        code: 'INPUT_REQUIRED',
        facts: { rpcCode: -32_021 },
        details: { server: 'test', required_capabilities: { elicitation: {} } },
      });
  });

  it('asks a server nothing about a task of an earlier definition: its server may be another', async () => {
    let requests = 0;
    const { url, port } = await serve((request, response) => {
      requests += 1;
      response.writeHead(500).end();
    });
    const { call } = executor({ port });
    for (const tasks of ['follow', 'answer'] as const) {
      const given = { responses: {}, revision: 'another', task: 'task-1' };
      expect(await call({ url }, 'ask', {}, { input: { capabilities: {}, tasks, given } })).toMatchObject({
        ok: false,
        failure: {
          code: 'OUTCOME_UNKNOWN',
          message: 'The definition of the tool changed while the MCP server test ran its task',
          details: { server: 'test' },
        },
      });
    }
    expect(requests).toBe(0);
  });

  it('passes on no question that the caller cannot answer', async () => {
    const asking = (inputRequests: JsonObject): RequestListener => {
      const served = createMcpHandler(() => toolServer(), { responseMode: 'json' });
      const handle = toNodeHandler({
        async fetch(request, options) {
          if (request.headers.get('mcp-method') !== 'tools/call') return served.fetch(request, options);
          const { id } = (await request.json()) as { id: number };
          return Response.json({ jsonrpc: '2.0', id, result: { resultType: 'input_required', inputRequests } });
        },
      });
      return (request, response) => void handle(request, response);
    };
    const input = { capabilities: { elicitation: { form: {} } } };
    const questions: [string, JsonObject][] = [
      ['sampling/createMessage', { messages: [], maxTokens: 1 }],
      ['elicitation/create', { mode: 'url', url: 'https://x.example', message: 'go' }],
    ];
    for (const [method, params] of questions) {
      const { url, port } = await serve(asking({ one: { method, params } }));
      const reply = await executor({ port }).call({ url }, 'add', {}, { input });
      expect(reply.failure).toMatchObject({ code: 'UPSTREAM_ERROR', message: expect.stringContaining(method) });
    }
  });

  const initialized = (body: { id?: number; method?: string }, response: ServerResponse): boolean => {
    if (body.method === 'server/discover') response.writeHead(404).end();
    else if (body.method === 'initialize') {
      const result = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' },
      };
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
    } else if (body.method === 'tools/call') return false;
    else response.writeHead(body.id === undefined ? 202 : 405).end();
    return true;
  };
  const misbehaving =
    (onCall: (id: number, response: ServerResponse) => void): RequestListener =>
    (request, response) => {
      void bodyOf(request).then((text) => {
        if (request.method !== 'POST') return response.writeHead(405).end();
        const body = JSON.parse(text);
        return initialized(body, response) || onCall(body.id, response);
      });
    };

  it('keeps the tools of a server with other lists that are invalid', async () => {
    const wrong = { result: { resultType: 'complete', prompts: 'none' } };
    const refused = { error: { code: -32_601, message: 'Method not found' } };
    const { url, port } = await serve(replacing({ 'prompts/list': wrong, 'resources/templates/list': refused }));
    const found = await executor({ port }).discover({ server: 'test', url });
    expect(found.tools).toHaveLength(4);
    expect(found).toMatchObject({ prompts: [], resources: { resourceTemplates: [] } });
    expect(found.resources?.resources).toContainEqual({ name: 'l', uri: 'x://l' });
  });

  it.each<[string, string, (id: number, response: ServerResponse) => void]>([
    ['drops the connection before an answer', 'NETWORK_ERROR', (_, response) => response.destroy()],
    [
      'drops an event stream in the middle',
      'NETWORK_ERROR',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(
          'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n',
        );
        setImmediate(() => response.destroy());
      },
    ],
    [
      'ends an event stream without an answer',
      'NETWORK_ERROR',
      (_, response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
    ],
    [
      'answers garbage',
      'UPSTREAM_ERROR',
      (_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"jsonrpc":"2.0"'),
    ],
    [
      'answers HTML',
      'UPSTREAM_ERROR',
      (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>login</p>'),
    ],
    ['answers 500', 'NETWORK_ERROR', (_, response) => void response.writeHead(500).end('boom')],
    ['answers 429', 'UPSTREAM_ERROR', (_, response) => void response.writeHead(429).end('slow down')],
    [
      'answers 100 MB of JSON',
      'RESULT_TOO_LARGE',
      (id, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"`);
        const chunk = 'x'.repeat(1024 * 1024);
        const pump = (left: number): void => {
          if (left === 0 || response.destroyed) return void response.end();
          if (response.write(chunk)) setImmediate(pump, left - 1);
          else response.once('drain', () => pump(left - 1));
        };
        pump(100);
      },
    ],
    [
      'answers 100 MB of events',
      'RESULT_TOO_LARGE',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const chunk = `data: ${'x'.repeat(1024 * 1024)}`;
        const pump = (left: number): void => {
          if (left === 0 || response.destroyed) return void response.end();
          if (response.write(chunk)) setImmediate(pump, left - 1);
          else response.once('drain', () => pump(left - 1));
        };
        pump(100);
      },
    ],
  ])('a server that %s gives %s at once', async (_name, code, onCall) => {
    const { url, port } = await serve(misbehaving(onCall));
    // No time passes, so none of its limits ends the call.
    const { call } = executor({ port, clock: new FakeClock() });
    expect(await call({ url }, 'x')).toMatchObject({ ok: false, failure: { code } });
  });

  it.each<[string, string, object]>([
    [
      'nested 10,000 deep',
      `{"structuredContent":{"x":${'['.repeat(10_000)}${']'.repeat(10_000)}},"content":[]}`,
      { ok: false, failure: { code: 'RESULT_TOO_LARGE', message: 'The result is nested deeper than 256 levels' } },
    ],
    [
      'with text that is JSON nested 10,000 deep',
      JSON.stringify({ content: [{ type: 'text', text: '['.repeat(10_000) + ']'.repeat(10_000) }] }),
      { ok: true, output: '['.repeat(10_000) + ']'.repeat(10_000) },
    ],
    [
      'with 100,000 siblings',
      JSON.stringify({ structuredContent: { x: Array.from({ length: 100_000 }, () => ({ k: 1 })) }, content: [] }),
      { ok: true, output: { x: { length: 100_000 } } },
    ],
  ])('a result %s is passed on or refused in plain words', async (_name, result, expected) => {
    const { url, port } = await serve(
      misbehaving((id, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      }),
    );
    expect(await executor({ port }).call({ url }, 'x')).toMatchObject(expected);
  });

  const json = (response: ServerResponse, body: string): void =>
    void response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(body);
  const say = (id: number, more: object = {}): string =>
    JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'hi' }], ...more } });

  it.each<[string, (id: number, response: ServerResponse) => void, object]>([
    ['as plain JSON', (id, response) => json(response, say(id)), { ok: true, text: 'hi' }],
    [
      'as an event stream',
      (id, response) =>
        void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${say(id)}\n\n`),
      { ok: true, text: 'hi' },
    ],
    ['as a batch', (id, response) => json(response, `[${say(id)}]`), { ok: true, text: 'hi' }],
    [
      'with metadata',
      (id, response) => json(response, say(id, { _meta: { k: 1 } })),
      { ok: true, metadata: { mcp_meta: { k: 1 } } },
    ],
    [
      'with a member that JSON-RPC does not have',
      (id, response) => json(response, say(id).replace('{', '{"other":1,"error":null,')),
      { ok: true, text: 'hi' },
    ],
    [
      'with an error',
      (id, response) => json(response, `{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"no"}}`),
      { failure: { code: 'UPSTREAM_ERROR', message: 'no' } },
    ],
    [
      'with a text that has more members',
      (id, response) => json(response, say(id, { content: [{ type: 'text', text: 'hi', _meta: { k: 1 } }] })),
      { ok: true, text: 'hi', content: [{ type: 'text', text: 'hi', _meta: { k: 1 } }] },
    ],
    ['with 503', (_, response) => void response.writeHead(503).end('busy'), { failure: { code: 'NETWORK_ERROR' } }],
    [
      'from elsewhere on another origin',
      (_, response) => void response.writeHead(307, { location: 'http://example.com/' }).end(),
      { failure: { code: 'UPSTREAM_ERROR' } },
    ],
  ])('a call that is answered %s is sent once', async (_name, answer, expected) => {
    const calls: number[] = [];
    const { url, port } = await serve(misbehaving((id, response) => (calls.push(id), answer(id, response))));
    expect(await executor({ port }).call({ url }, 'x')).toMatchObject(expected);
    expect(calls).toHaveLength(1);
  });

  /** Answers the calls of a server of either revision. */
  const answering = (of: '2025' | '2026', onCall: (id: number, response: ServerResponse) => void) => {
    if (of === '2025') return misbehaving(onCall);
    const listener = bothRevisions();
    return (request: IncomingMessage, response: ServerResponse): void => {
      if (request.headers['mcp-method'] !== 'tools/call') return listener(request, response);
      return void bodyOf(request).then((text) => onCall(JSON.parse(text).id, response));
    };
  };
  /** The answer to a call: JSON or an event stream. */
  const FORMS = { json: (body: string) => body, 'event-stream': (body: string) => `event: message\ndata: ${body}\n\n` };

  describe.each(['2025', '2026'] as const)('an answer of a server of %s', (of) => {
    const answered = async (onCall: (id: number, response: ServerResponse) => void) => {
      const calls: number[] = [];
      const requests: string[] = [];
      const listener = answering(of, (id, response) => (calls.push(id), onCall(id, response)));
      const { url, port } = await serve((request, response) => {
        requests.push(String(request.method));
        listener(request, response);
      });
      const { call } = executor({ port });
      const reply = await call({ url }, 'x');
      return {
        reply,
        calls,
        posts: () => requests.filter((method) => method === 'POST').length,
        call: () => call({ url }, 'x'),
      };
    };

    it.each([202, 203, 299, 400, 403, 404, 405, 409, 410, 422, 429, 500, 502, 503])(
      'ends the call with HTTP status %i, as JSON and as an event stream',
      async (status) => {
        for (const [form, write] of Object.entries(FORMS)) {
          const type = form === 'json' ? 'application/json' : 'text/event-stream';
          const refused = await answered((id, response) => {
            const error = { code: -32_602, message: 'q must be a word' };
            response
              .writeHead(status, { 'content-type': type })
              .end(write(JSON.stringify({ jsonrpc: '2.0', id, error })));
          });
          expect(refused.calls, form).toHaveLength(1);
          expect(refused.reply, form).toMatchObject({
            ok: false,
            failure: { code: 'UPSTREAM_ERROR', message: 'q must be a word', retryable: false },
          });
          const posts = refused.posts();
          await refused.call();
          expect(refused.posts(), form).toBe(posts + 1);
          const given = await answered((id, response) => {
            response.writeHead(status, { 'content-type': type }).end(write(say(id)));
          });
          expect([given.calls.length, given.reply.ok, given.reply.text], form).toEqual([1, true, 'hi']);
        }
      },
    );

    it.each([
      [-32_022, 'Unsupported protocol version'],
      [-32_020, 'Mismatched header'],
      [-32_001, 'Session not found'],
    ])('ends the call with the code %i too, and the next call has a new session', async (code, message) => {
      let isRefused = true;
      const { reply, calls, call } = await answered((id, response) => {
        if (!isRefused) return json(response, say(id));
        isRefused = false;
        response.writeHead(400, { 'content-type': 'application/json' });
        return response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }));
      });
      expect(reply).toMatchObject({ failure: { code: 'UPSTREAM_ERROR', message } });
      expect(calls).toHaveLength(1);
      expect(await call()).toMatchObject({ ok: true });
      expect(calls).toHaveLength(2);
    });

    it('is found whatever its media type says', async () => {
      const { reply, calls } = await answered((id, response) => {
        response.writeHead(200, { 'content-type': 'text/plain' }).end(say(id));
      });
      expect([reply.ok, reply.text, calls.length]).toEqual([true, 'hi', 1]);
    });

    it('without the id of the call is none', async () => {
      const { reply } = await answered((id, response) => {
        const error = { code: -32_602, message: 'of another' };
        response.writeHead(500).end(JSON.stringify({ jsonrpc: '2.0', id: id + 1, error }));
      });
      expect(reply.failure).toMatchObject({ code: 'NETWORK_ERROR', message: expect.stringContaining('HTTP 500') });
    });

    const hi = { type: 'text', text: 'hi' };
    const unread = (what: string) => `[The result has parts that cannot be read: ${what}]`;
    const named = (what: string) => ({ ok: true, output: 'hi', text: `hi\n${unread(what)}` });
    it.each<[string, unknown, object]>([
      [
        'annotations of a block are null',
        { content: [{ ...hi, annotations: null, _meta: null }] },
        { ok: true, text: 'hi' },
      ],
      [
        'annotations of a block are of a new kind',
        { content: [{ ...hi, annotations: { audience: ['agent'] }, _meta: { k: null } }] },
        { ok: true, content: [{ ...hi, _meta: { k: null } }] },
      ],
      ['isError is null', { content: [hi], isError: null }, { ok: true, text: 'hi' }],
      [
        'isError is a text',
        { content: [hi], isError: 'true' },
        { ok: false, failure: { code: 'TOOL_ERROR', message: 'hi' } },
      ],
      ['structuredContent is null', { content: [hi], structuredContent: null }, { ok: true, output: 'hi' }],
      ['structuredContent is a list', { content: [hi], structuredContent: [1] }, { ok: true, output: [1] }],
      ['_meta is null', { content: [hi], _meta: null }, { ok: true, text: 'hi' }],
      ['_meta is a text', { content: [hi], _meta: 'x' }, { ok: true, text: 'hi' }],
      ['a member is new', { content: [hi], cost: null, resultType: null }, { ok: true, text: 'hi' }],
      ['content is null', { content: null }, { ok: true, output: null, text: '' }],
      [
        'content is null, next to an output',
        { content: null, structuredContent: { a: 1 } },
        { ok: true, output: { a: 1 } },
      ],
      ['content is missing', {}, { ok: true, output: null }],
      ['content is one block', { content: hi }, { ok: true, text: 'hi' }],
      ['content is a text', { content: 'hi' }, { ok: true, text: 'hi' }],
      ['a block is a text', { content: ['hi'] }, { ok: true, text: 'hi' }],
      ['a block is null', { content: [null, hi] }, named('a block that is null')],
      [
        'a block is of a new type',
        { content: [{ type: 'video', data: 'AAAA', mimeType: 'video/mp4' }, hi] },
        named('a block of type video'),
      ],
      [
        'an image has no type',
        { content: [hi, { type: 'image', data: PIXEL }] },
        {
          ...named('a block of type image (mimeType)'),
          content: [hi, { text: unread('a block of type image (mimeType)') }],
        },
      ],
      [
        'a resource has null members',
        { content: [{ type: 'resource', resource: { uri: 'x://r', text: 'r', mimeType: null } }] },
        { ok: true, content: [{ type: 'resource', resource: { uri: 'x://r', text: 'r' } }] },
      ],
      [
        'nothing is readable',
        {
          content: [
            { type: 'video', data: 'AAAA' },
            { type: 'text', text: null },
          ],
        },
        {
          ok: false,
          failure: {
            code: 'RESULT_UNREADABLE',
            message: 'The tool ran; its result cannot be read: a block of type video; a block of type text (text)',
            retryable: false,
          },
        },
      ],
      ['content is a number', { content: 7 }, { ok: false, failure: { code: 'RESULT_UNREADABLE' } }],
      [
        'an error is of a new type',
        { content: [{ type: 'fault' }], isError: true },
        { ok: false, failure: { code: 'TOOL_ERROR', message: unread('a block of type fault') } },
      ],
    ])('is read as far as possible where %s', async (_name, result, expected) => {
      for (const [form, write] of Object.entries(FORMS)) {
        const { reply, calls } = await answered((id, response) => {
          response.writeHead(200, { 'content-type': form === 'json' ? 'application/json' : 'text/event-stream' });
          response.end(write(JSON.stringify({ jsonrpc: '2.0', id, result })));
        });
        expect(reply, form).toMatchObject(expected);
        expect(calls, form).toHaveLength(1);
      }
    });

    it('that cannot be read opens no breaker', async () => {
      const { call, calls } = await answered((id, response) =>
        json(response, say(id, { content: [{ type: 'video' }] })),
      );
      for (let i = 0; i < 8; i += 1) expect(await call()).toMatchObject({ failure: { code: 'RESULT_UNREADABLE' } });
      expect(calls).toHaveLength(9);
    });
  });

  it.each<[string, object, object]>([
    ['_meta is null', { result: { content: [{ type: 'text', text: 'hi' }], _meta: null } }, { ok: true, text: 'hi' }],
    ['a result has a null error', { result: { content: [{ type: 'text', text: 'hi' }] }, error: null }, { ok: true }],
    [
      'a block is of a new type',
      { result: { content: [{ type: 'video' }] } },
      { failure: { code: 'RESULT_UNREADABLE' } },
    ],
    [
      'an error names a session',
      { error: { code: -32_001, message: 'No such session' } },
      { failure: { code: 'UPSTREAM_ERROR', message: 'No such session' } },
    ],
  ])('an answer of a local process ends its call where %s', async (_name, answer, expected) => {
    const folder = await mkdtemp(join(tmpdir(), 'toolfleet-stdio-'));
    closers.push(() => rm(folder, { recursive: true }));
    const log = join(folder, 'calls');
    const script = `
      const { appendFileSync } = require('node:fs');
      const [log, answer] = process.argv.slice(1);
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        if (id === undefined) return;
        const say = (body) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...body }) + '\\n');
        if (method === 'tools/call') {
          appendFileSync(log, 'call ');
          say(JSON.parse(answer));
        } else if (method === 'initialize')
          say({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } } });
        else say({ error: { code: -32601, message: 'Method not found' } });
      });`;
    const options = {
      command: process.execPath,
      args: ['-e', script, log, JSON.stringify(answer)],
      timeout_seconds: 50,
    };
    const { call } = executor({ allowStdio: true });
    expect(await call({ url: '', transport: 'stdio', options }, 'x', {}, { remainingMs: 50_000 })).toMatchObject(
      expected,
    );
    expect(await readFile(log, 'utf8')).toBe('call ');
  });

  it('waits for the first answer of a local process as long as its source says', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolfleet-stdio-'));
    closers.push(() => rm(folder, { recursive: true }));
    // As a package that is downloaded at the first start. The download begins again when it is ended.
    const script = `
      const { existsSync, writeFileSync } = require('node:fs');
      const [marker] = process.argv.slice(1);
      const serve = () => {
        writeFileSync(marker, '');
        require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
          const { id, method } = JSON.parse(line);
          if (id === undefined) return;
          const capabilities = { tools: {} };
          const results = {
            initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'x', version: '1' } },
            'tools/list': { tools: [] },
          };
          const error = { code: -32601, message: 'Method not found' };
          const answer = results[method] ? { result: results[method] } : { error };
          process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\\n');
        });
      };
      existsSync(marker) ? serve() : setTimeout(serve, 4_000);`;
    const { discover } = executor({ allowStdio: true });
    const listed = (seconds: number) =>
      discover({
        server: 's',
        transport: 'stdio',
        command: process.execPath,
        args: ['-e', script, join(folder, 'downloaded')],
        start_seconds: seconds,
      });
    await expect(listed(1)).rejects.toMatchObject({
      code: 'ATTEMPT_TIMED_OUT',
      message: expect.stringContaining('within 1 s of its start; raise start_seconds'),
    });
    expect(await listed(25)).toMatchObject({ tools: [], protocol_version: '2025-11-25' });
  });

  it('ends its calls when it closes, with their sockets', async () => {
    const held: ServerResponse[] = [];
    const { url, port } = await serve(misbehaving((_, response) => void held.push(response)));
    const { call, pool } = executor({ port });
    const running = call({ url }, 'x');
    await expect.poll(() => held).toHaveLength(1);
    await pool.close();
    expect(await running).toMatchObject({ failure: { code: 'NETWORK_ERROR', facts: { delivered: true } } });
    await expect.poll(() => held[0]?.destroyed).toBe(true);
  });

  it('leaves out and names a tool with a schema that is nested too deeply', async () => {
    const schema = `{"type":"object","properties":${'{"a":{"properties":'.repeat(20_000)}{}${'}}'.repeat(20_000)}}`;
    const { url, port } = await serve((request, response) => {
      void bodyOf(request).then((text) => {
        if (request.method !== 'POST') return response.writeHead(405).end();
        const body = JSON.parse(text);
        if (body.method !== 'tools/list') return initialized(body, response);
        response.writeHead(200, { 'content-type': 'application/json' });
        const result = `{"tools":[{"name":"deep","inputSchema":${schema}},{"name":"good","inputSchema":{"type":"object"}}]}`;
        return response.end(`{"jsonrpc":"2.0","id":${body.id},"result":${result}}`);
      });
    });
    expect(await executor({ port }).discover({ server: 's', url })).toMatchObject({
      tools: [{ name: 'good' }],
      notes: ['deep: nested deeper than 256 levels'],
    });
  });

  it('opens the breaker after five failures in a row, not after refusals by the server', async () => {
    let status = 400;
    const { url, port } = await serve(misbehaving((_, response) => void response.writeHead(status).end('no')));
    const { call } = executor({ port });
    for (let i = 0; i < 6; i += 1)
      expect(await call({ url }, 'x')).toMatchObject({ failure: { code: 'UPSTREAM_ERROR' } });
    status = 503;
    for (let i = 0; i < 5; i += 1)
      expect(await call({ url }, 'x')).toMatchObject({ failure: { code: 'NETWORK_ERROR' } });
    await expect(call({ url }, 'x')).rejects.toMatchObject({
      code: 'BREAKER_OPEN',
      message: `Circuit breaker open for http://127.0.0.1:${port} (too many failures)`,
    });
  });

  it('counts 429, and timeouts only when the server had the full time of its tool', async () => {
    let answers = false;
    const { url, port } = await serve(
      misbehaving((_, response) => (answers ? void response.writeHead(429).end('slow down') : undefined)),
    );
    const { call } = executor({ port });
    for (let i = 0; i < 6; i += 1)
      expect(await call({ url }, 'x', {}, { remainingMs: 300, deadlineShortened: true })).toMatchObject({
        failure: { code: 'ATTEMPT_TIMED_OUT' },
      });
    for (let i = 0; i < 3; i += 1) await call({ url }, 'x', {}, { remainingMs: 300 });
    answers = true;
    for (let i = 0; i < 2; i += 1)
      expect(await call({ url }, 'x')).toMatchObject({ failure: { code: 'UPSTREAM_ERROR' } });
    await expect(call({ url }, 'x')).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
  });

  it('sends no call past the egress guard', async () => {
    let hits = 0;
    const { port } = await serve((_, response) => {
      hits += 1;
      response.end('{}');
    });
    const { call, discover } = executor();
    for (const url of [
      `http://127.0.0.1:${port}/mcp`,
      `http://localhost:${port}/`,
      'https://example.com/mcp',
      'file:///etc/passwd',
    ]) {
      expect(await call({ url }, 'x')).toMatchObject({ failure: { code: 'EGRESS_REFUSED' } });
      expect(await call({ url, transport: 'function-args' }, 'x')).toMatchObject({
        failure: { code: 'EGRESS_REFUSED' },
      });
      await expect(discover({ server: 's', url })).rejects.toMatchObject({ code: 'EGRESS_REFUSED' });
    }
    expect(hits).toBe(0);
  });

  it('sends headers with expanded variables and names a missing one', async () => {
    const keys: unknown[] = [];
    const listener = bothRevisions();
    const { url, port } = await serve((request, response) => {
      keys.push(request.headers['x-key']);
      listener(request, response);
    });
    const { call } = executor({ port, env: { KEY: 's3cr3t-1' } });
    expect(await call({ url, options: { headers: { 'X-Key': 'v ${KEY}' } } }, 'add', { a: 1, b: 1 })).toMatchObject({
      ok: true,
    });
    expect(new Set(keys)).toEqual(new Set(['v s3cr3t-1']));
    expect(await call({ url, options: { headers: { 'X-Key': '${NONE}' } } }, 'add', { a: 1, b: 1 })).toMatchObject({
      failure: { code: 'AUTH_NOT_CONFIGURED', details: { variable: 'NONE' } },
    });
  });
});

describe('function endpoints', () => {
  it('receive function and args and may answer any JSON', async () => {
    const keys: unknown[] = [];
    const { url, port } = await serve((request, response) => {
      void bodyOf(request).then((text) => {
        const body = JSON.parse(text);
        if (body.function === 'bad') return response.writeHead(422).end('no such city');
        if (body.function === 'big') return response.end('{"id":9007199254740993}');
        keys.push(request.headers['x-api-key']);
        return response.end(JSON.stringify({ got: body }));
      });
    });
    const { call } = executor({ port, env: { K: 'kkkkkk' } });
    const binding = { url, transport: 'function-args' as const, options: { headers: { 'X-API-Key': '$K' } } };
    expect(await call(binding, 'geocode', { city: 'Rom' })).toMatchObject({
      ok: true,
      output: { got: { function: 'geocode', args: { city: 'Rom' } } },
    });
    expect(keys).toEqual(['kkkkkk']);
    expect(await call({ url, transport: 'function-args' }, 'big')).toMatchObject({
      ok: true,
      output: { id: 9007199254740993n },
    });
    expect(await call(binding, 'bad')).toMatchObject({
      ok: false,
      failure: { code: 'UPSTREAM_ERROR', message: 'HTTP 422: no such city' },
    });
    const whole = { ...binding, options: { ...binding.options, whole_args: true } };
    expect(await call(whole, 'f', { args: { a: 1 } })).toMatchObject({
      output: { got: { function: 'f', args: { a: 1 } } },
    });
  });
});

describe('credentials', () => {
  it('are redacted from results, errors and discoveries of a server that echoes them', async () => {
    const secret = 'canary-4f9d2c7b1e';
    const { url, port } = await serve((request, response) => {
      void bodyOf(request).then(() => {
        const echoed = `${String(request.headers['x-key'])} ${Buffer.from(String(request.headers['x-key'])).toString('base64')}`;
        if (request.url === '/mcp') return response.writeHead(500).end(echoed);
        return response.end(JSON.stringify({ seen: echoed, nested: [{ again: echoed }] }));
      });
    });
    const { call, discover } = executor({ port, env: { CANARY: secret } });
    const options = { headers: { 'X-Key': '${CANARY}' } };
    const said = [
      await call({ url: url.replace('/mcp', '/echo'), transport: 'function-args', options }, 'f'),
      await call({ url, transport: 'function-args', options }, 'f'),
      await call({ url, options }, 'f'),
      await discover({ server: 's', url, ...options }).catch((error: Error) => ({ ...error, message: error.message })),
    ];
    expect(said[0]).toMatchObject({
      ok: true,
      output: { seen: expect.stringMatching(/^\[redacted\] \[redacted\]=*$/) },
    });
    const all = JSON.stringify(said);
    expect(all).not.toContain(secret);
    expect(all).not.toContain(Buffer.from(secret).toString('base64').slice(0, 16));
  });
});

describe('OAuth client credentials', () => {
  async function protectedServer() {
    const valid = new Set<string>();
    const grants: string[] = [];
    const listener = bothRevisions();
    const { url, port } = await serve((request, response) => {
      if (request.url === '/token') {
        return void bodyOf(request).then((text) => {
          grants.push(`${request.headers.authorization} ${text}`);
          const token = `token-${grants.length}`;
          valid.add(token);
          response.writeHead(200, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3_600 }));
        });
      }
      if (!valid.has(String(request.headers.authorization).replace('Bearer ', ''))) {
        return void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      }
      return listener(request, response);
    });
    const oauth = {
      client_id: 'id',
      client_secret: '${SECRET}',
      token_url: url.replace('/mcp', '/token'),
      scope: 'tools',
    };
    return { url, port, valid, grants, options: { oauth } };
  }

  it('fetches one token for concurrent calls and another when it is revoked', async () => {
    const { url, port, valid, grants, options } = await protectedServer();
    const { call } = executor({ port, env: { SECRET: 'hush-hush' } });
    const replies = await Promise.all(Array.from({ length: 5 }, () => call({ url, options }, 'add', { a: 1, b: 1 })));
    expect(replies.every((reply) => reply.ok)).toBe(true);
    expect(grants).toEqual([
      `Basic ${Buffer.from('id:hush-hush').toString('base64')} grant_type=client_credentials&scope=tools`,
    ]);
    valid.clear();
    expect(await call({ url, options }, 'add', { a: 1, b: 1 })).toMatchObject({ ok: true });
    expect(grants).toHaveLength(2);
  });

  it('marks a refused credential as auth_failed', async () => {
    const { url, port } = await serve((request, response) => {
      if (request.url === '/token') return void response.writeHead(400).end('{"error":"invalid_client"}');
      return void response.writeHead(401).end();
    });
    const { call, discover } = executor({ port, env: { SECRET: 'wrong-one' } });
    const options = { oauth: { client_id: 'id', client_secret: '$SECRET', token_url: url.replace('/mcp', '/token') } };
    expect(await call({ url, options }, 'add')).toMatchObject({
      failure: {
        code: 'AUTH_NOT_CONFIGURED',
        details: { state: 'auth_failed' },
        message: expect.stringContaining('invalid_client'),
      },
    });
    await expect(discover({ server: 's', url, ...options })).rejects.toMatchObject({
      details: { state: 'auth_failed' },
    });
  });
});
