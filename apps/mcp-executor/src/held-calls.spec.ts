/** Servers of 2025-11-25 that ask while they run a call. From client to server it is tested in test/e2e/mcp-endpoint.spec.ts. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer, type ServerContext } from '@modelcontextprotocol/server';
import type { PersonInput, JsonObject } from '@toolfleet/contracts';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { EgressClient } from '@toolfleet/egress';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { eventually, FakeClock } from '@toolfleet/testing';
import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { HELD_CONNECTIONS, HeldCalls, OpenCall } from './held-calls.js';
import { McpExecutor } from './mcp-executor.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const FORM = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
const [FORMS, URLS, BOTH] = [{ form: {} }, { url: {} }, { form: {}, url: {} }];

/** A server with tools that ask with the low-level SDK, and what its clients declared. */
async function startServer() {
  const declared = new Set<string>();
  const aborted: string[] = [];
  const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });
  const ask = (server: McpServer, { mcpReq }: ServerContext, message: string) => {
    mcpReq.signal.addEventListener('abort', () => aborted.push(message), { once: true });
    // With a related request, the question travels on the stream of the call.
    return server.server.elicitInput({ message, requestedSchema: FORM }, { relatedRequestId: mcpReq.id });
  };
  const make = (): McpServer => {
    const server = new McpServer({ name: 'asking', version: '1' });
    server.registerTool('greet', { inputSchema: z.object({ who: z.string() }) }, async ({ who }, context) => {
      const { action, content } = await ask(server, context, `Name of ${who}?`);
      return said(`${who}: ${action} ${String(content?.['name'])}`);
    });
    server.registerTool('twice', { inputSchema: z.object({}) }, async (_args, context) => {
      const answers = [await ask(server, context, 'First?'), await ask(server, context, 'Second?')];
      return said(answers.map(({ content }) => content?.['name']).join(' '));
    });
    server.registerTool('open_page', { inputSchema: z.object({}) }, async (_args, { mcpReq }) => {
      const params = { mode: 'url' as const, message: 'Sign in', url: 'https://x.example/', elicitationId: 'e1' };
      return said((await server.server.elicitInput(params, { relatedRequestId: mcpReq.id })).action);
    });
    // As servers do that do not look at what the client declared.
    server.registerTool('blindly', { inputSchema: z.object({}) }, async (_args, { mcpReq }) => {
      const params = { message: 'Blind?', requestedSchema: FORM };
      return mcpReq.send({ method: 'elicitation/create', params }, z.looseObject({ action: z.string() })).then(
        ({ action }) => said(action),
        (error: Error) => ({ ...said(error.message), isError: true }),
      );
    });
    server.registerTool('impatient', { inputSchema: z.object({}) }, async (_args, context) => {
      void ask(server, context, 'Still there?').catch(() => undefined);
      await sleep(100);
      return said('went on');
    });
    server.registerPrompt('personal', {}, async (context) => {
      const { content } = await ask(server, context, 'Who reads?');
      return { messages: [{ role: 'user', content: { type: 'text', text: `For ${String(content?.['name'])}` } }] };
    });
    server.server.oninitialized = () => declared.add(JSON.stringify(server.server.getClientCapabilities()));
    return server;
  };
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  const http = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'POST' ? JSON.parse(await readText(request)) : undefined;
      let transport = transports.get(String(request.headers['mcp-session-id']));
      if (!transport) {
        if (body?.method !== 'initialize') return response.writeHead(400).end('{}');
        const made = new NodeStreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (session) => void transports.set(session, made),
        });
        await make().connect((transport = made));
      }
      return transport.handleRequest(request, response, body);
    })();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const stop = async () => {
    http.closeAllConnections();
    await new Promise<void>((resolve) => http.close(() => resolve()));
  };
  closers.push(stop);
  return { origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, declared, aborted, stop };
}

function startExecutor(origin: string) {
  const clock = new SystemClock();
  const egress = new EgressClient({ allowlist: [], allowedEndpoints: [origin], limits: HELD_CONNECTIONS });
  const parts = { egress, clock, expand: (value: string) => value, maxResponseBytes: 1_000_000 };
  const pool = new SessionPool({ ...parts, allowStdio: true, version: '0' }, undefined, POOL_LIMITS);
  const breakers = new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock);
  const executor = new McpExecutor(pool, breakers, parts, clock, {});
  closers.push(async () => {
    executor.held.close();
    await pool.close();
    breakers.dispose();
    await egress.close();
  });
  const begun: string[] = [];
  const execute = (message: ExecMessage) =>
    executor.execute(message, {
      remainingMs: 60_000,
      signal: new AbortController().signal,
      beforeEffect: async () => void begun.push(message.call_id),
    });
  return { executor, execute, begun };
}

function messageOf(origin: string, remoteName: string, more: Partial<ExecMessage> = {}): ExecMessage {
  return {
    call_id: randomUUID(),
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: `t_${remoteName}`,
    revision: 'r',
    binding: { kind: 'mcp', server: 'crm', transport: 'streamable-http', remoteName, url: `${origin}/mcp` },
    arguments: {},
    context: { tenant_id: 't' },
    ...more,
  };
}

const asking = (elicitation: JsonObject): { input: PersonInput } => ({ input: { capabilities: { elicitation } } });

/** The attempt that goes on with a call, with one answer to all of its questions. */
function answering(message: ExecMessage, { failure }: ExecResponse, answer: JsonObject): ExecMessage {
  const { requests, executor, revision } = failure!.facts!.input!;
  const responses = Object.fromEntries(Object.keys(requests).map((key) => [key, answer]));
  const given = { responses, revision, ...(executor !== undefined && { executor }) };
  return { ...message, fence: message.fence + 1, input: { ...message.input!, given } };
}

const accept = (name: string): JsonObject => ({ action: 'accept', content: { name } });

it('passes each question and each answer to its own call, on one session', async () => {
  const { origin, declared } = await startServer();
  const { execute, begun, executor } = startExecutor(origin);
  const who = Array.from({ length: 20 }, (_, index) => `user-${index}`);
  const messages = who.map((name) => messageOf(origin, 'greet', { arguments: { who: name }, ...asking(FORMS) }));
  const asked = await Promise.all(messages.map(execute));
  expect(asked.map(({ failure }) => failure?.facts?.input)).toEqual(
    who.map((name) => ({
      server: 'crm',
      revision: 'r',
      executor: executor.held.executor,
      requests: {
        'question-1': {
          method: 'elicitation/create',
          params: { mode: 'form', message: `Name of ${name}?`, requestedSchema: FORM },
        },
      },
    })),
  );
  const answers = messages.map((message, index) => answering(message, asked[index]!, accept(`Ann ${index}`)));
  const done = await Promise.all(answers.toReversed().map(execute));
  expect(done.map(({ text }) => text)).toEqual(who.map((name, index) => `${name}: accept Ann ${index}`).toReversed());
  expect(begun).toHaveLength(40);
  expect([...declared]).toEqual([JSON.stringify({ elicitation: FORMS })]);
});

it('passes the questions of a local server to their calls, each on a process that runs no other, while there are four', async () => {
  const { execute } = startExecutor('http://127.0.0.1:1');
  const program = fileURLToPath(new URL('../spec/asking-process.fixture.ts', import.meta.url));
  const options = { command: process.execPath, args: [program], protocol_version: '2025-11-25', timeout_seconds: 60 };
  const binding = { kind: 'mcp' as const, server: 'local', transport: 'stdio' as const, remoteName: 'greet', url: '' };
  const call = (who: string) =>
    messageOf('', 'greet', { binding: { ...binding, options }, arguments: { who }, ...asking(FORMS) });
  const messages = ['a', 'b', 'c', 'd'].map(call);
  const asked = await Promise.all(messages.map(execute));
  expect(asked.map(({ failure }) => failure?.facts?.input?.requests)).toMatchObject(
    ['a', 'b', 'c', 'd'].map((who) => ({ 'question-1': { params: { message: `Name of ${who}?` } } })),
  );
  expect((await execute(call('e'))).failure).toMatchObject({ code: 'INPUT_REQUIRED' });
  const answers = messages.map((message, index) => answering(message, asked[index]!, accept(`Ann ${index}`)));
  const done = await Promise.all(answers.toReversed().map(execute));
  expect(done.map(({ text }) => text)).toEqual(
    ['a', 'b', 'c', 'd'].map((who, index) => `1 ${who}: accept Ann ${index}`).toReversed(),
  );
  const again = call('f');
  expect(await execute(answering(again, await execute(again), accept('Ann')))).toMatchObject({
    text: '2 f: accept Ann',
  });
  // What the fleet has for no server.
  const sampling = messageOf('', 'summarize', {
    binding: { ...binding, remoteName: 'summarize', options },
    ...asking(FORMS),
  });
  expect((await execute(sampling)).text).toContain('asked for sampling/createMessage, which the fleet does not do');
});

it('goes on over several questions, for prompts as well, and takes a no for an answer', async () => {
  const { origin } = await startServer();
  const { execute } = startExecutor(origin);
  const twice = messageOf(origin, 'twice', asking(FORMS));
  const second = await execute(answering(twice, await execute(twice), accept('one')));
  expect(second.failure?.facts?.input?.requests).toMatchObject({ 'question-2': { params: { message: 'Second?' } } });
  expect(await execute(answering(twice, second, accept('two')))).toMatchObject({ ok: true, text: 'one two' });

  const prompt = messageOf(origin, 'personal', asking(FORMS));
  prompt.binding = { ...prompt.binding, method: 'prompts/get' } as never;
  const read = await execute(answering(prompt, await execute(prompt), accept('Ann')));
  expect(read.output).toMatchObject({ messages: [{ content: { text: 'For Ann' } }] });

  const page = messageOf(origin, 'open_page', asking(BOTH));
  const asked = await execute(page);
  expect(asked.failure?.facts?.input?.requests).toMatchObject({
    'question-1': { params: { mode: 'url', url: 'https://x.example/', elicitationId: 'e1' } },
  });
  expect(await execute(answering(page, asked, { action: 'decline' }))).toMatchObject({ text: 'decline' });
});

it('declares what the caller declared, and says that others cannot be asked', async () => {
  const { origin, declared } = await startServer();
  const { execute } = startExecutor(origin);
  const refusal = { code: 'INPUT_REQUIRED', details: { server: 'crm', required_capabilities: { elicitation: {} } } };
  const calls: [string, Partial<ExecMessage>][] = [
    ['greet', { arguments: { who: 'x' } }],
    ['greet', { arguments: { who: 'x' }, ...asking(URLS) }],
    ['open_page', asking(FORMS)],
    ['blindly', {}],
    ['blindly', asking(URLS)],
  ];
  for (const [name, more] of calls)
    expect((await execute(messageOf(origin, name, more))).failure).toMatchObject(refusal);
  expect([...declared].toSorted()).toEqual(
    [{}, { elicitation: URLS }, { elicitation: FORMS }].map((one) => JSON.stringify(one)).toSorted(),
  );
});

it('fails clearly where the open call is gone, or is that of another caller', async () => {
  const { origin, stop } = await startServer();
  const { execute } = startExecutor(origin);
  const other = startExecutor(origin);
  const message = messageOf(origin, 'greet', { arguments: { who: 'x' }, ...asking(FORMS) });
  const next = answering(message, await execute(message), accept('Ann'));
  const gone = { code: 'NETWORK_ERROR', facts: { delivered: true }, message: expect.stringContaining('is gone') };
  expect((await other.execute(next)).failure).toMatchObject(gone);
  // Claimed, so that the journal knows that the outcome is unknown.
  expect(other.begun).toEqual([message.call_id]);
  for (const foreign of [{ context: { tenant_id: 'evil' } }, { tool: 'other' }, { call_id: 'x' }])
    expect((await execute({ ...next, ...foreign })).failure).toMatchObject(gone);
  await stop();
  const lost = await execute(next);
  expect(lost.failure).toMatchObject({ code: 'NETWORK_ERROR', facts: { delivered: true } });
});

it('ends a call at its server when its caller is gone, and keeps the result of one that went on', async () => {
  const { origin, aborted } = await startServer();
  const { execute, executor } = startExecutor(origin);
  const message = messageOf(origin, 'greet', { arguments: { who: 'Bob' }, ...asking(FORMS) });
  await execute(message);
  executor.held.cancelled({ call_id: message.call_id });
  await eventually('ended', () => aborted.includes('Name of Bob?'));
  const impatient = messageOf(origin, 'impatient', asking(FORMS));
  const asked = await execute(impatient);
  expect(await execute(answering(impatient, asked, accept('late')))).toMatchObject({ ok: true, text: 'went on' });
});

it('holds a bounded number of calls for a bounded time', async () => {
  const clock = new FakeClock();
  const held = new HeldCalls(clock);
  const hold = (tenant: string) => {
    const [call, message] = [new OpenCall(), messageOf('http://x', 'greet', { context: { tenant_id: tenant } })];
    held.hold(message, call);
    return { call, message };
  };
  const calls = Array.from({ length: 25 }, () => hold('t'));
  expect(() => hold('t')).toThrow('Too many calls');
  hold('other');
  expect(held.take(calls[0]!.message)).toBe(calls[0]!.call);
  hold('t');
  await clock.run(11 * 60_000);
  expect(calls.map(({ call }) => call.exchange.signal.aborted)).toEqual([false, ...Array(24).fill(true)]);
  expect(held.take(calls[1]!.message)).toBeUndefined();
});
