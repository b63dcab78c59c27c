/**
 * What MCP servers may answer, through a fleet and both of its entry points: an answer ends its call, and is read as far as it can be. The
 * project's own example server is a source, too.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEverythingServer, type EverythingServer } from '../fleet/everything-server.js';
import { startScriptedMcpServer, type ScriptedAnswer, type ScriptedMcpServer } from '../fleet/scripted-mcp-server.js';
import { TestFleet } from '../fleet/test-fleet.js';

const refusal = { error: { code: -32_602, message: 'q must be a word' } };
const EVENTS = 'text/event-stream';
const REPEATABLE = { readOnlyHint: true, idempotentHint: true };
const hi = { type: 'text', text: 'hi' };
const video = { type: 'video', data: 'AAAA', mimeType: 'video/mp4' };
const unread = '[The result has parts that cannot be read: a block of type video]';

/** Tools with calls that are refused by an answer with the id of the call. */
const REFUSED: Record<string, ScriptedAnswer> = {
  by_400: { status: 400, body: refusal },
  by_404: { status: 404, body: refusal },
  by_410: { status: 410, body: refusal },
  by_500: { status: 500, body: refusal },
  by_503: { status: 503, body: refusal },
  by_503_repeatable: { status: 503, body: refusal, annotations: REPEATABLE },
  by_400_events: { status: 400, type: EVENTS, body: refusal },
  by_session: { status: 400, body: { error: { code: -32_602, message: 'q must be a word of this session' } } },
};

/** Tools that ran, with what is read of their results. */
const READ: [string, ScriptedAnswer, string][] = [
  ['null_annotations', { body: { result: { content: [{ ...hi, annotations: null, _meta: null }] } } }, 'hi'],
  ['null_is_error', { body: { result: { content: [hi], isError: null, structuredContent: null } } }, 'hi'],
  ['null_meta', { body: { result: { content: [hi], _meta: null } } }, 'hi'],
  ['null_meta_events', { type: EVENTS, body: { result: { content: [hi], _meta: null } } }, 'hi'],
  ['new_block', { body: { result: { content: [video, hi] } } }, `hi\n${unread}`],
  ['null_content', { body: { result: { content: null } } }, ''],
];

let scripted: ScriptedMcpServer;
let everything: EverythingServer;
let fleet: TestFleet;

beforeAll(async () => {
  scripted = await startScriptedMcpServer({
    '/mcp': {
      ...REFUSED,
      ...Object.fromEntries(READ.map(([name, answer]) => [name, answer])),
      unreadable: { body: { result: { content: [video] } }, annotations: REPEATABLE },
    },
    '/other': { plain: { body: { result: { content: [hi] } } } },
  });
  everything = await startEverythingServer();
  fleet = await TestFleet.start({
    together: true,
    services: { budget: 1, registry: 1, 'mcp-executor': 1, gateway: 1 },
    config: {
      mcp_servers: {
        raw: { url: `${scripted.origin}/mcp`, trusted: true },
        other: { url: `${scripted.origin}/other`, trusted: true },
        every: { url: `${everything.origin}/mcp`, protocol_version: '2025-11-25' },
      },
    },
    env: { EGRESS_ALLOWED_ENDPOINTS: `${scripted.origin},${everything.origin}` },
    tools: ['raw_by_400', 'raw_unreadable', 'other_plain', 'every_echo'],
  });
});
afterAll(async () => {
  await fleet?.stop();
  await Promise.all([scripted?.stop(), everything?.stop()]);
});

const overHttp = async (name: string, args: object = {}) => (await fleet.call(name, args)).body;

async function overMcp(name: string, args: object = {}) {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
  const headers = { accept: 'application/json, text/event-stream' };
  const { text } = await fleet.ask({ path: '/mcp', body, headers });
  const { result } = JSON.parse(/\{.*\}/s.exec(text)![0]) as {
    result: { isError: boolean; content: { text: string }[]; _meta: { code?: string; retryable?: boolean } };
  };
  return { ...result, text: result.content.map((block) => block.text).join('\n') };
}

const callsOf = (tool: string) => scripted.seen.get(`/mcp ${tool}`) ?? 0;
/** Requests of all methods, at all servers. */
const requests = () =>
  [...scripted.seen].reduce((sum, [key, count]) => (/ (?:initialize|\w+\/\w+)$/.test(key) ? sum + count : sum), 0);

it.each(Object.keys(REFUSED))('a call that is refused %s is sent once, and its message is shown', async (tool) => {
  const before = callsOf(tool);
  const body = await overHttp(`raw_${tool}`);
  expect(body).toMatchObject({ success: false, metadata: { code: 'UPSTREAM_ERROR', retryable: false } });
  expect(body.error).toContain('q must be a word');
  expect(callsOf(tool) - before).toBe(1);
  const result = await overMcp(`raw_${tool}`);
  expect(result).toMatchObject({ isError: true, _meta: { code: 'UPSTREAM_ERROR', retryable: false } });
  expect(result.text).toContain('q must be a word');
  expect(callsOf(tool) - before).toBe(2);
});

it('a refusal with HTTP 400 costs no new session', async () => {
  await overHttp('other_plain');
  await overHttp('raw_by_400');
  const before = requests();
  await overHttp('raw_by_400');
  await overMcp('raw_by_400');
  expect(requests() - before).toBe(2);
});

it.each(READ)('the result of %s is read', async (tool, _answer, text) => {
  expect(await overHttp(`raw_${tool}`)).toMatchObject({ success: true, text });
  expect(await overMcp(`raw_${tool}`)).toMatchObject({ isError: false, text });
  expect(callsOf(tool)).toBe(2);
});

it('a tool that ran is not called again where nothing of its result can be read, and opens no breaker', async () => {
  const message = 'The tool ran; its result cannot be read: a block of type video';
  for (let i = 0; i < 6; i += 1) {
    const body = await overHttp('raw_unreadable', { i });
    expect(body).toMatchObject({
      success: false,
      error: message,
      metadata: { code: 'RESULT_UNREADABLE', retryable: false },
    });
    expect(body.text).not.toMatch(/retry|correct|again later/i);
  }
  const result = await overMcp('raw_unreadable');
  expect(result).toMatchObject({ isError: true, _meta: { code: 'RESULT_UNREADABLE', retryable: false } });
  expect(result.text).toContain(message);
  expect(callsOf('unreadable')).toBe(7);
  expect(await overHttp('other_plain')).toMatchObject({ success: true, text: 'hi' });
});

describe.each([
  ['HTTP', overHttp],
  ['MCP', overMcp],
])('over %s', (_entry, call) => {
  it('a session is opened inside a call without anything optional', async () => {
    scripted.forget();
    const before = scripted.seen.get('/other initialize') ?? 0;
    expect((await call('other_plain', { entry: _entry })).text).toBe('hi');
    expect(scripted.seen.get('/other initialize')).toBe(before + 1);
  });

  it('tools of the example server are called', async () => {
    expect((await call('every_echo', { message: 'hello' })).text).toContain('hello');
    expect((await call('every_get-sum', { a: 2, b: 3 })).text).toContain('5');
  });
});
