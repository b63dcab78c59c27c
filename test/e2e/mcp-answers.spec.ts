/**
 * What MCP servers may answer, through a fleet and both of its entry points: an answer ends its call, and is read as far as it can be. The
 * project's own example server is a source, too.
 */
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { changedMembers, concerns } from '../fleet/changed-members.js';
import { startEverythingServer, type EverythingServer } from '../fleet/everything-server.js';
import { startExampleServer, type ExampleServer } from '../fleet/example-server.js';
import {
  startScriptedMcpServer,
  type ScriptedAnswer,
  type ScriptedMcpServer,
  type ScriptedReplies,
  type ScriptedReply,
} from '../fleet/scripted-mcp-server.js';
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

/** Tools that ran, with the readable parts of their results. */
const READ: [string, ScriptedAnswer, string][] = [
  ['null_annotations', { body: { result: { content: [{ ...hi, annotations: null, _meta: null }] } } }, 'hi'],
  ['null_is_error', { body: { result: { content: [hi], isError: null, structuredContent: null } } }, 'hi'],
  ['null_meta', { body: { result: { content: [hi], _meta: null } } }, 'hi'],
  ['null_meta_events', { type: EVENTS, body: { result: { content: [hi], _meta: null } } }, 'hi'],
  ['new_block', { body: { result: { content: [video, hi] } } }, `hi\n${unread}`],
  ['null_content', { body: { result: { content: null } } }, ''],
];

const plain = { plain: { body: { result: { content: [hi] } } } };
const ANY = { type: 'object' };
const good = { name: 'good', description: 'Is good.', inputSchema: ANY };

/** A list of one good tool and of others that no SDK would send. */
const listed = {
  tools: [
    good,
    { name: 'bad', description: 'x', inputSchema: null },
    { name: 'loose', description: 'x', inputSchema: ANY, outputSchema: { $id: 'x.v1', description: 'd' }, title: null },
    { name: 'bare', description: 'x', inputSchema: {}, annotations: null, _meta: null },
    7,
  ],
  nextCursor: null,
};

/** Names that are not legal in a fleet, with a pattern of their registered names. */
const NAMES: [string, RegExp][] = [
  ['a.b', /^names_a_b_/],
  ['a_b', /^names_a_b$/],
  ['get weather', /^names_get_weather_/],
  ['файл', /^names_fail_/],
  ['天气', /^names_returns_the_weather_/],
  ['x/y:z', /^names_x_y_z_/],
  ['long'.repeat(23), /^names_(?:long)+l?o?n?g?_/],
];

const probe =
  (reply: ScriptedReply): ScriptedReplies =>
  ({ method }) =>
    method === 'server/discover' ? reply : undefined;
/** Replies of servers of 2025 to `server/discover`. */
const PROBES: Record<string, ScriptedReplies> = {
  html: probe({ type: 'text/html', text: '<p>Welcome</p>' }),
  empty: probe({ text: '' }),
  no_id: probe({ body: { id: null, error: { code: -32_601, message: 'Method not found' } } }),
  failing: probe({ status: 500, type: 'text/plain', text: 'Internal Server Error' }),
  silent: probe({ silent: true }),
};

/** Replies to requests of unknown sessions. */
const LOST: Record<string, ScriptedReply> = {
  '/lost_410': { status: 410, type: 'text/plain', text: 'Gone' },
  '/lost_500': { status: 500, type: 'text/plain', text: 'Internal Server Error' },
  '/lost_503': { status: 503, type: 'text/plain', text: 'Service Unavailable' },
  '/lost_503_said': {
    status: 503,
    body: { id: null, error: { code: -32_000, message: 'Bad Request: No valid session ID provided' } },
  },
};

/** Answers of ten kinds of servers by other authors: of SDKs, of FastMCP, of a proxy, of both revisions. */
const RECORDED = [
  { result: { content: [hi] } },
  { result: { content: [hi], structuredContent: { result: 'hi' }, isError: false } },
  { result: { _meta: {}, content: [{ ...hi, annotations: { audience: ['user'], priority: 1 } }], isError: false } },
  {
    result: {
      content: [
        { ...hi, _meta: { 'x/y': 1 } },
        { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      ],
    },
  },
  {
    result: {
      content: [
        hi,
        { type: 'resource_link', uri: 'x://l', name: 'l', size: 3, icons: [{ src: 'https://x.example/i' }] },
      ],
    },
  },
  { result: { content: [hi, { type: 'resource', resource: { uri: 'x://r', mimeType: 'text/plain', text: 'r' } }] } },
  { result: { content: [hi, { type: 'resource', resource: { uri: 'x://b', mimeType: 'a/b', blob: 'AAAA' } }] } },
  { result: { content: [hi, { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' }], _meta: { cost: 0.5 } } },
  { result: { content: [hi], structuredContent: { items: [{ id: 1, tags: [] }], next: null } } },
  { result: { content: [hi, { ...hi, text: 'on line 1' }], isError: true } },
].map((body) => ({ jsonrpc: '2.0', id: 1, ...body }));
/** A shipped list of two tools, and the answer to `initialize` of a server with all capabilities. */
const OPENING = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: { listChanged: false }, logging: {}, experimental: {} },
    serverInfo: { name: 'changed', version: '1.2.3', title: 'Changed' },
    instructions: 'Call the tools.',
  },
  'tools/list': {
    tools: [
      {
        ...good,
        name: 'changed',
        title: 'Changed',
        inputSchema: { type: 'object', properties: { q: { type: 'string', default: null } }, required: ['q'] },
        outputSchema: { type: 'object', properties: { result: { type: 'string' } } },
        annotations: { readOnlyHint: true },
        execution: { taskSupport: 'forbidden' },
      },
      good,
    ],
  },
};
/** `all` tries every change; otherwise one in a hundred, others each day of the month. */
const STRIDE = process.env['CHANGED_ANSWERS'] === 'all' ? 1 : 100;
const sampled = <T>(all: readonly T[], stride: number): T[] =>
  all.filter((_, at) => (at + new Date().getUTCDate()) % stride === 0);
const ANSWERS = RECORDED.flatMap((answer) => changedMembers(answer));
const OPENINGS = Object.entries(OPENING).flatMap(([method, result]) =>
  changedMembers({ jsonrpc: '2.0', id: 1, result }).map((change) => ({ ...change, method })),
);
const opened = sampled(OPENINGS, Math.min(STRIDE, 12)).filter(
  // Nothing is left of a list that is not one, and no session without its version.
  (change) =>
    !['result.tools', 'result.protocolVersion', 'result.capabilities.tools'].some((path) => concerns(change, path)),
);
/** Every second one of the changes that leave the id, by which answers over stdio find their requests. */
const openedOverStdio = opened.flatMap((change, at) => (at % 2 === 1 && !concerns(change, 'id') ? [at] : []));
const BRIDGE = fileURLToPath(new URL('../fleet/stdio-bridge.mjs', import.meta.url));
/** The server of a path as a local one. */
const overStdio = (path: string) => ({
  command: process.execPath,
  args: [BRIDGE, `${scripted.origin}${path}`],
  trusted: true,
});
/** A call that takes longer waited for something. */
const LONG_MS = 5_000;
/** The answer with a change that calls get now. */
let current: (id: unknown) => ScriptedReply;

let scripted: ScriptedMcpServer;
let everything: EverythingServer;
let asking: ExampleServer;
let fleet: TestFleet;

const REPLIES: Record<string, ScriptedReplies> = {
  '/lists': ({ method }) => (method === 'tools/list' ? { body: { result: listed } } : undefined),
  '/names': ({ method }) => {
    const tools = NAMES.map(([name]) => ({ name, description: 'Returns the weather of a city.', inputSchema: ANY }));
    if (method === 'tools/call') return { body: { result: { content: [hi] } } };
    return method === 'tools/list' ? { body: { result: { tools } } } : undefined;
  },
  '/envelopes': ({ method }) => {
    const more = { error: null, debug: { took: 1 } };
    const serverInfo = { name: 'x' };
    if (method === 'initialize')
      return { body: { result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }, ...more } };
    if (method === 'tools/list') return { body: { result: { tools: [good] }, ...more } };
    if (method === 'tools/call') return { body: { error: { code: 'E_WORD', message: 'q must be a word' } } };
    return undefined;
  },
  '/features': ({ method }) => {
    const capabilities = { tools: {}, prompts: {}, resources: {} };
    const uri = 'docs://guide';
    const results: Record<string, object> = {
      initialize: { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'x', version: '1' } },
      'tools/list': { tools: [good] },
      'prompts/list': { prompts: [{ name: 'greet', arguments: [{ name: 'who' }] }] },
      'prompts/get': { messages: [hi, video].map((content) => ({ role: 'user', content })) },
      'resources/list': { resources: [{ uri, name: 'guide' }] },
      'resources/templates/list': { resourceTemplates: [] },
      'resources/read': {
        contents: [
          { uri, text: 'hi' },
          { uri, text: 7 },
        ],
      },
    };
    return results[method] && { body: { result: results[method] } };
  },
  '/changed': ({ method, id }) => (method === 'tools/call' ? current(id) : undefined),
  '/piped': ({ method, id }) => (method === 'tools/call' ? current(id) : undefined),
  ...Object.fromEntries(Object.entries(PROBES).map(([name, replies]) => [`/probe/${name}`, replies])),
  ...Object.fromEntries(
    opened.map((change, at) => [
      `/opened/${at}`,
      ({ method, id }: { method: string; id?: unknown }) => {
        const result = OPENING[method as keyof typeof OPENING];
        if (!result) return undefined;
        const body = method === change.method ? change.answer : { jsonrpc: '2.0', id: 1, result };
        // The id of the recorded answer is this request's, unless the id was changed.
        const text = JSON.stringify(body, (key, value: unknown) => (key === 'id' && value === 1 ? id : value));
        return { text };
      },
    ]),
  ),
};
const pathsOf = (...prefixes: string[]) =>
  Object.keys({ ...REPLIES, ...LOST }).filter((path) => prefixes.some((prefix) => path.startsWith(prefix)));

beforeAll(async () => {
  scripted = await startScriptedMcpServer(
    {
      '/mcp': {
        ...REFUSED,
        ...Object.fromEntries(READ.map(([name, answer]) => [name, answer])),
        unreadable: { body: { result: { content: [video] } }, annotations: REPEATABLE },
      },
      '/other': plain,
      '/changed': plain,
      '/piped': plain,
      ...Object.fromEntries(pathsOf('/probe/', '/lost_').map((path) => [path, plain])),
    },
    REPLIES,
    LOST,
  );
  everything = await startEverythingServer();
  asking = await startExampleServer('elicitationFormExample');
  fleet = await TestFleet.start({
    together: true,
    services: { budget: 1, registry: 1, 'mcp-executor': 1, gateway: 1 },
    config: {
      mcp_servers: {
        raw: { url: `${scripted.origin}/mcp`, trusted: true },
        other: { url: `${scripted.origin}/other`, trusted: true },
        every: { url: `${everything.origin}/mcp`, protocol_version: '2025-11-25' },
        form: { url: `${asking.origin}/mcp`, trusted: true },
        ...Object.fromEntries(
          pathsOf('/').map((path) => [nameOf(path), { url: `${scripted.origin}${path}`, trusted: true }]),
        ),
        piped: overStdio('/piped'),
        ...Object.fromEntries(openedOverStdio.map((at) => [`opened-${at}`, overStdio(`/opened/${at}`)])),
        'probe-silent': { url: `${scripted.origin}/probe/silent`, trusted: true, start_seconds: 2 },
      },
    },
    env: {
      EGRESS_ALLOWED_ENDPOINTS: `${scripted.origin},${everything.origin},${asking.origin}`,
      TOOLFLEET_LOCAL: 'true',
    },
    tools: ['raw_by_400', 'raw_unreadable', 'other_plain', 'every_echo'],
  });
});
afterAll(async () => {
  await fleet?.stop();
  await Promise.all([scripted?.stop(), everything?.stop(), asking?.stop()]);
});

/** The source of a scripted server. */
const nameOf = (path: string) => path.slice(1).replaceAll(/\W/g, '-');

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

const source = async (name: string) =>
  (await fleet.ask({ path: `/api/v1/sources/mcp/${name}?visibility=fleet`, key: fleet.operatorKey })).body;

it('the good tools of a list are registered, and the bad ones are named in the status of the source', async () => {
  await eventually('the list is read', async () => (await source('lists')).state !== 'pending');
  const { state, tools, notes } = await source('lists');
  expect({ state, tools }).toEqual({ state: 'ok', tools: ['lists_bare', 'lists_good', 'lists_loose'] });
  expect(notes.toSorted()).toEqual([expect.stringMatching(/^bad: inputSchema: /), expect.stringMatching(/^tools 4: /)]);
});

it('tools with names that are not legal here can be found and called', async () => {
  await fleet.untilListed(['names_a_b']);
  const { text } = await fleet.ask({
    path: '/mcp',
    body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    headers: { accept: 'application/json, text/event-stream' },
  });
  const { tools } = JSON.parse(/\{.*\}/s.exec(text)![0]).result as { tools: { name: string; title?: string }[] };
  for (const [name, pattern] of NAMES) {
    const tool = tools.find((one) => pattern.test(one.name) && (one.title ?? name) === name);
    expect(tool, name).toBeDefined();
    const before = scripted.seen.get(`/names ${name}`) ?? 0;
    await overHttp(tool!.name);
    await overMcp(tool!.name);
    expect((scripted.seen.get(`/names ${name}`) ?? 0) - before, name).toBe(2);
  }
  for (const [name, start] of [
    ['файл', 'names_fail_'],
    ['天气', 'names_returns_the_weather_of_'],
  ]) {
    const { body } = await fleet.ask({ path: `/api/v1/tools?query=${encodeURIComponent(name!)}` });
    expect((body as { name: string }[])[0]?.name).toContain(start);
  }
});

it('answers with members that JSON-RPC does not have are read', async () => {
  await fleet.untilListed(['envelopes_good']);
  for (const call of [overHttp, overMcp]) expect((await call('envelopes_good')).text).toContain('q must be a word');
});

it('parts of prompts and resources that cannot be read are named', async () => {
  await fleet.untilListed(['features_good']);
  const request = async (method: string, params: object) =>
    (
      await fleet.ask({
        path: '/mcp',
        body: { jsonrpc: '2.0', id: 1, method, params },
        headers: { accept: 'application/json, text/event-stream' },
      })
    ).text;
  const [, uri] = /"uri":"([^"]*guide)"/.exec(await request('resources/list', {}))!;
  for (const answer of [
    await request('prompts/get', { name: 'features_greet', arguments: { who: 'x' } }),
    await request('resources/read', { uri }),
  ]) {
    expect(answer).toContain('"text":"hi"');
    expect(answer).toMatch(/\[The result has parts that cannot be read: (?:messages 1|\S*guide)[^\]]*\]/);
  }
});

it.each(Object.keys(PROBES))('a server that is %s about server/discover is asked with initialize', async (name) => {
  const id = nameOf(`/probe/${name}`);
  await fleet.untilListed([`${id}_plain`]);
  for (const call of [overHttp, overMcp]) expect(await call(`${id}_plain`)).toMatchObject({ text: 'hi' });
  const { notes } = await source(id);
  if (name !== 'no_id') expect(notes.join('\n')).toContain('protocol_version');
  if (name === 'silent') expect(notes.join('\n')).toContain('was not answered within 2 s');
});

describe.each(Object.keys(LOST).map(nameOf))('a server that lost its sessions and answers %s', (id) => {
  it.each([
    ['HTTP', overHttp],
    ['MCP', overMcp],
  ])('fails at most once over %s', async (entry, call) => {
    await fleet.untilListed([`${id}_plain`]);
    // The session of an earlier test may be lost: the first call tells, the second has another one.
    for (const warm of [1, 2]) await call(`${id}_plain`, { entry, warm });
    scripted.forget();
    const before = callsAt(id);
    const first = await call(`${id}_plain`, { entry, is: 'lost' });
    // Another HTTP 5xx does not say whether the tool ran.
    const isCertain = id === 'lost_410' || id === 'lost_503_said';
    expect(callsAt(id) - before).toBe(isCertain ? 1 : 0);
    if (isCertain) expect(first.text).toBe('hi');
    for (let after = 0; after < 6; after += 1) expect((await call(`${id}_plain`, { entry, after })).text).toBe('hi');
  });
});
const callsAt = (id: string) => scripted.seen.get(`/${id} plain`) ?? 0;

it('a question of the example of the SDK reaches the caller whose call is open', async () => {
  await fleet.untilListed(['form_register_user']);
  const client = new Client({ name: 'e2e', version: '1' }, { capabilities: { elicitation: { form: {} } } });
  const asked: string[] = [];
  client.setRequestHandler('elicitation/create', ({ params }) => {
    asked.push(params.message);
    return {
      action: 'accept',
      content: { username: `ann${asked.length}`, email: 'a@x.example', password: 'very-secret' },
    };
  });
  const requestInit = { headers: { authorization: `Bearer ${fleet.adminKey}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit }));
  try {
    const results = await Promise.all([1, 2].map(() => client.callTool({ name: 'form_register_user', arguments: {} })));
    const texts = results.map(({ content }) => JSON.stringify(content));
    expect(texts.toSorted().map((text) => /Username: (\w+)/.exec(text)?.[1])).toEqual(['ann1', 'ann2']);
    expect(asked).toHaveLength(2);
  } finally {
    await client.close();
  }
});

it.each([
  ['HTTP', 'changed', ANSWERS],
  ['stdio', 'piped', ANSWERS],
])('no change of a member loses a text, sends a call twice or opens a breaker, over %s', async (_, name, answers) => {
  await fleet.untilListed([`${name}_plain`]);
  // Each transport finds the request of an answer in its own way.
  const ofId = answers.filter((change) => concerns(change, 'id')).slice(0, 6);
  const changes = [...sampled(answers, STRIDE), ...ofId];
  const wrong: string[] = [];
  for (const [at, change] of changes.entries()) {
    const isStream = name === 'changed' && at % 2 === 1;
    current = (id) => ({
      type: isStream ? EVENTS : undefined,
      text: JSON.stringify(change.answer, (key, value: unknown) => (key === 'id' && value === 1 ? id : value)),
    });
    const sent = () => scripted.seen.get(`/${name} plain`) ?? 0;
    const before = sent();
    const beganAt = performance.now();
    const { text } = await (at % 4 < 2 ? overHttp : overMcp)(`${name}_plain`, { at });
    const tookMs = performance.now() - beganAt;
    const mayLose = ['result.content.0.text', 'result.content.0.type'].some((path) => concerns(change, path));
    if (sent() !== before + 1 || (!mayLose && !text.includes('hi')) || tookMs > LONG_MS)
      wrong.push(`${at} ${change.what}: sent ${sent() - before} times, ${Math.round(tookMs)} ms: ${text}`);
  }
  expect(wrong).toEqual([]);
});

it.each(opened.map(({ method, what }, at) => [`${method}: ${what}`, at] as const))(
  'no source is lost for one tool: %s',
  async (_name, at) => {
    const tool = `opened-${at}_good`;
    const mayLose = concerns(opened[at]!, 'result.tools.1.name') || concerns(opened[at]!, 'result.tools.1.inputSchema');
    await fleet.untilListed([mayLose ? `opened-${at}_changed` : tool]);
  },
);
