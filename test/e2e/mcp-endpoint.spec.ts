/**
 * The whole fleet as `npm start` runs it, seen by real MCP clients of both protocol revisions: every kind of tool is listed and called,
 * refusals are results, and a slow tool becomes a task that survives as a call. The same in a toolset.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { Client as ClientOfSdk1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportOfSdk1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SIGN_IN_PAGE, startAskingMcpServer, type AskingMcpServer } from '../fleet/asking-mcp-server.js';
import { startEverythingServer, type EverythingServer } from '../fleet/everything-server.js';
import { NpmStart } from '../fleet/npm-start.js';
import { modernRequest } from '../fleet/mcp-tasks.js';
import { startTaskMcpServer, type TaskMcpServer } from '../fleet/task-mcp-server.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KEY = 'e2e-developer-key-0123456789';
const WANTED = ['calculator', 'echo_function', 'execute_python', 'parcels_getParcel', 'sample_add'];

let runner: NpmStart;
let stateDir: string;
let url: string;
/** Origin of the sample MCP server. */
let samples: string;
const clients: Client[] = [];

/** The shipped policy and one rule that asks. */
const ASKING_RULE = `package tools
ask contains "Store this note?" if input.tool in {"sample_save_note", "jobs_save_note"}
ask contains "Become a painter?" if {
	input.action in {"prompts/get", "resources/read"}
	some value in [object.get(input.arguments, "uri", ""), object.get(input.arguments, ["arguments", "style"], "")]
	endswith(value, "painter")
}
deny contains "pirates are not allowed" if {
	input.action == "resources/read"
	input.arguments.uri == "sample://styles/pirate"
}
`;

async function connect(mode: 'auto' | 'legacy', capabilities = {}, toolset?: string): Promise<Client> {
  const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode }, capabilities });
  const requestInit = { headers: { Authorization: `Bearer ${KEY}` } };
  const endpoint = toolset === undefined ? url : `${url}/t/${toolset}`;
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { requestInit }));
  clients.push(client);
  return client;
}

/** How the calls of a tool ended, oldest first: the code of their error, or `success`. */
async function recentCalls(name = 'sample_save_note', isWanted = (_id: string) => true): Promise<string[]> {
  const headers = { authorization: `Bearer ${KEY}` };
  const answer = await fetch(new URL('/api/v1/calls?limit=500', url), { headers });
  const { calls } = (await answer.json()) as {
    calls: { call_id: string; tool: string; status: string; code?: string }[];
  };
  return calls
    .filter(({ tool, call_id: id }) => tool === name && isWanted(id))
    .map(({ status, code = status }) => code);
}

beforeAll(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-mcp-'));
  const policyDir = join(stateDir, 'policies');
  cpSync(join(ROOT, 'deploy/policies'), policyDir, { recursive: true });
  writeFileSync(join(policyDir, 'asking.rego'), ASKING_RULE);
  runner = await NpmStart.start({ POLICY_DIR: policyDir, TOOLFLEET_STATE_DIR: stateDir, TOOLFLEET_DEV_API_KEY: KEY });
  const fleet = JSON.parse(readFileSync(join(stateDir, 'local.json'), 'utf8')) as {
    url: string;
    samples: { SAMPLE_MCP_URL: string };
  };
  url = `${fleet.url}/mcp`;
  samples = fleet.samples.SAMPLE_MCP_URL;
  const client = await connect('auto');
  const listed = async () => {
    const names = new Set((await client.listTools(undefined, { cacheMode: 'refresh' })).tools.map(({ name }) => name));
    return WANTED.every((name) => names.has(name));
  };
  await eventually(`${WANTED.join(', ')} are listed`, listed, { everyMs: 500 });
});

afterAll(async () => {
  for (const client of clients) await client.close();
  await runner?.stop();
  if (stateDir) rmSync(stateDir, { recursive: true, force: true });
});

describe.each(['auto', 'legacy'] as const)('an MCP client (%s)', (mode) => {
  let client: Client;
  beforeAll(async () => {
    client = await connect(mode);
  });
  const call = (name: string, args: Record<string, unknown>) => client.callTool({ name, arguments: args });

  it('calls every kind of tool', async () => {
    expect(await call('calculator', { expression: '6*7' })).toMatchObject({ isError: false });
    expect(await call('sample_add', { a: 2, b: 3 })).toMatchObject({ isError: false, structuredContent: { sum: 5 } });
    expect(await call('echo_function', { text: 'hi' })).toMatchObject({ structuredContent: { echo: { text: 'hi' } } });
    expect(await call('parcels_getParcel', { id: 'P1' })).toHaveProperty('content');
    const python = await call('execute_python', { code: 'print(6*7)' });
    expect([python.isError, JSON.stringify(python.content)]).toEqual([false, expect.stringContaining('42')]);
  });

  it('keeps pictures, links, icons and _meta of a remote MCP server', async () => {
    const { content, _meta: meta } = await call('sample_red_dot', {});
    expect(content.map(({ type }) => type)).toEqual(['image', 'resource_link', 'resource']);
    expect(meta).toMatchObject({ 'example.com/pixels': 1, provenance: 'live' });
    expect((await client.listTools()).tools.find(({ name }) => name === 'sample_red_dot')).toMatchObject({
      title: 'Red dot',
      icons: [{ mimeType: 'image/png' }],
      _meta: { 'example.com/colour': 'red' },
    });
  });

  describe('of prompts and resources', () => {
    let direct: Client;
    beforeAll(async () => {
      direct = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode } });
      await direct.connect(new StreamableHTTPClientTransport(new URL(`${samples}/mcp`)));
      clients.push(direct);
    });
    /** A value with the addresses of the sample server. */
    const local = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value).replaceAll(/:\/\/mcp-[0-9a-f]{16}\//g, '://'));

    it('sees the prompts of a remote MCP server, and gets them and their completions unchanged', async () => {
      const named = (await direct.listPrompts()).prompts.map((one) => ({ ...one, name: `sample_${one.name}` }));
      expect((await client.listPrompts()).prompts).toEqual(named);
      const ask = (name: string) => ({ name, arguments: { style: 'poet' } });
      const prompt = await client.getPrompt(ask('sample_describe_dot'));
      expect(local(prompt.messages)).toEqual((await direct.getPrompt(ask('describe_dot'))).messages);
      const complete = (through: Client, name: string) =>
        through.complete({ ref: { type: 'ref/prompt', name }, argument: { name: 'style', value: 'p' } });
      const { completion } = await complete(client, 'sample_describe_dot');
      expect(completion).toEqual((await complete(direct, 'describe_dot')).completion);
      await expect(client.getPrompt({ name: 'describe_dot' })).rejects.toMatchObject({ code: -32_602 });
    });

    it('reads listed, linked and expanded resources, and completes templates', async () => {
      const { resources } = await client.listResources();
      expect(local(resources)).toEqual((await direct.listResources()).resources);
      const { content } = await call('sample_red_dot', {});
      const link = content.find((block) => block.type === 'resource_link')!;
      const template = (await client.listResourceTemplates()).resourceTemplates.at(-1)!.uriTemplate;
      const expanded = template.replace('{name}', 'poet');
      for (const address of [...resources.map(({ uri }) => uri), link.uri, expanded]) {
        const { contents } = await client.readResource({ uri: address });
        expect(contents[0]?.uri).toBe(address);
        const uri = String(local(address));
        expect(local(contents)).toEqual((await direct.readResource({ uri })).contents);
      }
      const complete = (through: Client, uri: string) =>
        through.complete({ ref: { type: 'ref/resource', uri }, argument: { name: 'name', value: 'pa' } });
      const { completion } = await complete(client, template);
      expect(completion).toMatchObject({ values: ['painter'] });
      expect(completion).toEqual((await complete(direct, 'sample://styles/{name}')).completion);
    });

    it('lists, gets and reads skills, and their digests hold', async () => {
      const [through, own] = [new SkillsClient(client), new SkillsClient(direct)];
      const [{ skills }, there] = [await through.list(), await own.list()];
      expect(local(skills)).toEqual(there.skills);
      const [skill, original] = [skills[0]!, there.skills[0]!];
      expect(skill.frontmatter).toMatchObject({ name: 'dot-description' });
      expect((await through.get(skill.uri)).skill).toEqual(skill);
      for (const file of ['SKILL.md', 'references/styles.md', 'assets/dot.png']) {
        const { verified, bytes } = await through.read(skill, file);
        expect([verified, bytes]).toEqual([true, (await own.read(original, file)).bytes]);
      }
      const folder = (uri: string) => uri.replace('/SKILL.md', '');
      const { resources } = await through.readDirectory(folder(skill.uri));
      expect(resources.length).toBeGreaterThan(2);
      expect(local(resources)).toEqual((await own.readDirectory(folder(original.uri))).resources);
      for (const nothing of [through.get(`${folder(skill.uri)}-2/SKILL.md`), through.readDirectory(`${skill.uri}/x`)])
        await expect(nothing).rejects.toMatchObject({ code: -32_602 });
      await eventually(
        'the requests are recorded',
        async () => (await recentCalls('skill:sample_dot-description')).length > 0,
      );
    });

    it('gets no resource that does not exist, that a policy denies, or that names no server', async () => {
      const template = (await client.listResourceTemplates()).resourceTemplates.at(-1)!.uriTemplate;
      const read = (uri: string) => client.readResource({ uri });
      for (const uri of [template.replace('{name}', 'nobody'), 'sample://dot', 'sample://mcp-0123456789abcdef/dot'])
        await expect(read(uri)).rejects.toMatchObject({ code: -32_602, data: { uri } });
      await expect(read(template.replace('{name}', 'pirate'))).rejects.toMatchObject({
        code: -32_000,
        message: expect.stringContaining('pirates are not allowed'),
        data: { code: 'POLICY_DENIED' },
      });
      const last = async () => (await recentCalls('resource:sample')).at(-1);
      await eventually('the last read is recorded', async () => (await last()) === 'POLICY_DENIED');
      expect((await client.listTools()).tools.map(({ name }) => name).filter((name) => name.includes(':'))).toEqual([]);
    });
  });

  it('sees the progress of a remote MCP server on its way through executor and gateway', async () => {
    const steps = mode === 'auto' ? 8 : 9;
    const seen: { progress: number; total?: number; message?: string }[] = [];
    const answer = await client.callTool(
      { name: 'sample_count_slowly', arguments: { steps } },
      { onprogress: (one) => seen.push(one) },
    );
    expect(answer).toMatchObject({ content: [{ text: `counted to ${steps}` }] });
    expect(seen[0]).toMatchObject({ total: steps, message: expect.stringMatching(/^step \d+$/) });
    expect(seen.map(({ progress }) => progress)).toEqual(
      seen.map(({ progress }) => progress).toSorted((a, b) => a - b),
    );
  });

  it('asks its person where a rule of the policy wants it', async () => {
    const person = await connect(mode, { elicitation: {} });
    const shown: string[] = [];
    const answers = [true, false];
    person.setRequestHandler('elicitation/create', async ({ params }) => {
      shown.push(params.message);
      return { action: 'accept', content: { approve: answers.shift() === true } };
    });
    const save = (through: Client) => through.callTool({ name: 'sample_save_note', arguments: { text: 'hello' } });
    const earlier = (await recentCalls()).length;
    expect(await save(person)).toMatchObject({ isError: false });
    expect(await save(person)).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_DECLINED' } });
    expect(shown).toEqual([expect.stringMatching(/^Store this note\?/), expect.stringContaining('"hello"')]);
    expect(await save(client)).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_REQUIRED' } });
    const since = async () => (await recentCalls()).slice(earlier);
    await eventually('the last call is recorded', async () => (await since()).at(-1) === 'APPROVAL_REQUIRED');
    expect(await since()).toEqual(['success', 'APPROVAL_DECLINED', 'APPROVAL_REQUIRED']);
  });

  it('asks its person for prompts and resources, too', async () => {
    const person = await connect(mode, { elicitation: {} });
    const shown: string[] = [];
    const answers: boolean[] = [];
    person.setRequestHandler('elicitation/create', async ({ params }) => {
      shown.push(params.message);
      return { action: 'accept', content: { approve: answers.shift() === true } };
    });
    const uri = (await person.listResourceTemplates()).resourceTemplates
      .find(({ uriTemplate }) => uriTemplate.endsWith('{name}'))!
      .uriTemplate.replace('{name}', 'painter');
    const requests: ((through: Client) => Promise<unknown>)[] = [
      (through) => through.getPrompt({ name: 'sample_describe_dot', arguments: { style: 'painter' } }),
      (through) => through.readResource({ uri }),
    ];
    for (const request of requests) {
      answers.push(true, false);
      expect(JSON.stringify(await request(person))).toContain('painter');
      await expect(request(person)).rejects.toMatchObject({ data: { code: 'APPROVAL_DECLINED' } });
      await expect(request(client)).rejects.toMatchObject({ data: { code: 'APPROVAL_REQUIRED' } });
    }
    expect(shown).toHaveLength(4);
    expect(shown[0]).toMatch(/^Become a painter\?/);
  });

  it('gets wrong arguments as a result with a suggestion, and an unknown tool as an error', async () => {
    expect(await call('sample_add', { a: 'two' })).toMatchObject({
      isError: true,
      _meta: { code: 'ARGUMENTS_INVALID' },
    });
    await expect(call('no_such_tool', {})).rejects.toMatchObject({ code: -32_602 });
  });
});

it.each(['auto', 'legacy'] as const)(
  'a client hears of changes to the resources it subscribes to (%s)',
  async (mode) => {
    const client = await connect(mode);
    expect(client.getServerCapabilities()?.resources).toEqual({ listChanged: true, subscribe: true });
    const { resources } = await client.listResources();
    const notes = resources.find(({ uri }) => uri.endsWith('/notes'))!.uri;
    const updated: string[] = [];
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri));
    const [denied, unknown] = [notes.replace('notes', 'styles/pirate'), 'other://nothing'];
    const listen = async (): Promise<() => Promise<unknown>> => {
      if (mode === 'auto') {
        const stream = await client.listen({ resourceSubscriptions: [notes, denied, unknown] });
        expect(stream.honoredFilter).toEqual({ resourceSubscriptions: [notes] });
        return () => stream.close();
      }
      await expect(client.subscribeResource({ uri: denied })).rejects.toMatchObject({
        data: { code: 'POLICY_DENIED' },
      });
      await expect(client.subscribeResource({ uri: unknown })).rejects.toMatchObject({ data: { uri: unknown } });
      await client.subscribeResource({ uri: notes });
      return () => client.unsubscribeResource({ uri: notes });
    };
    const leave = await listen();
    // The begin of the subscription at the server: the resource may have changed before.
    await eventually('subscribed', () => updated.length > 0);
    const before = updated.length;
    const direct = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await direct.connect(new StreamableHTTPClientTransport(new URL(`${samples}/mcp`)));
    clients.push(direct);
    await direct.callTool({ name: 'save_note', arguments: { text: 'for subscribers' } });
    await eventually('told', () => updated.length > before);
    expect(new Set(updated)).toEqual(new Set([notes]));
    await leave();
    if (mode === 'legacy') return;
    const tooMany = Array.from({ length: 101 }, (_, index) => `${notes}/${index}`);
    await expect(client.listen({ resourceSubscriptions: tooMany })).rejects.toThrow('may subscribe to 100 resources');
  },
);

describe('an asynchronous call', () => {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const asAdmin = (path: string, init: RequestInit = {}) => fetch(new URL(path, url), { headers, ...init });

  it('keeps pictures and links, readable from its record', async () => {
    const body = JSON.stringify({ arguments: {}, mode: 'async' });
    const accepted = await asAdmin('/api/v1/tools/sample_red_dot/execute', { method: 'POST', body });
    const { call_id: id } = (await accepted.json()) as { call_id: string };
    await (await asAdmin(`/api/v1/calls/${id}/events`)).text();
    const { result } = (await (await asAdmin(`/api/v1/calls/${id}`)).json()) as {
      result: { content: { type: string }[] };
    };
    expect(result.content.map(({ type }) => type)).toEqual(['image', 'resource_link', 'resource']);
  });

  it('waits where a person has to be asked', async () => {
    const body = JSON.stringify({ arguments: { text: 'hello' }, mode: 'async' });
    const waiting = await asAdmin('/api/v1/tools/sample_save_note/execute', { method: 'POST', body });
    const accepted = (await waiting.json()) as { call_id: string };
    expect([waiting.status, accepted]).toMatchObject([202, { status: 'awaiting_approval' }]);
    const withdrawn = await asAdmin(`/api/v1/calls/${accepted.call_id}`, { method: 'DELETE' });
    expect(await withdrawn.json()).toMatchObject({ status: 'cancelled' });
  });

  it('shows the progress of a remote MCP server in its events, and nothing after its end', async () => {
    const body = JSON.stringify({ arguments: { steps: 10 }, mode: 'async' });
    const accepted = await asAdmin('/api/v1/tools/sample_count_slowly/execute', { method: 'POST', body });
    const { call_id: id } = (await accepted.json()) as { call_id: string };
    const text = await (await asAdmin(`/api/v1/calls/${id}/events`)).text();
    const events = [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, type, data]) => [
      type,
      JSON.parse(data!),
    ]);
    const types = events.map(([type]) => type);
    expect([types.slice(0, 3), types.at(-1)]).toEqual([['accepted', 'started', 'progress'], 'done']);
    const shown = events.filter(([type]) => type === 'progress').map(([, data]) => data);
    expect(shown[0]).toMatchObject({ total: 10, message: expect.stringMatching(/^step \d+$/) });
  });
});

it('a resource of a remote MCP server is read over HTTP by the name of its server', async () => {
  const answer = await fetch(new URL('/api/v1/tools/resource:sample/execute', url), {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ arguments: { uri: 'sample://dot.txt' } }),
  });
  const read = (await answer.json()) as { output: object };
  expect(read.output).toMatchObject({ contents: [{ mimeType: 'text/plain', text: 'a red dot' }] });
});

describe('a server that asks for input', () => {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const post = (path: string, body: object) =>
    fetch(new URL(path, url), { method: 'POST', headers, body: JSON.stringify(body) });
  let asking: AskingMcpServer;

  beforeAll(async () => {
    asking = await startAskingMcpServer();
    appendFileSync(join(stateDir, 'allowed-endpoints'), `${asking.origin}\n`);
    for (const [name, revision] of [
      ['rooms', '2026-07-28'],
      ['rooms25', '2025-11-25'],
    ]) {
      const entry = { name, url: `${asking.origin}/mcp`, protocol_version: revision, visibility: 'fleet' };
      await eventually(`${name} is registered`, async () => (await post('/api/v1/sources/mcp', entry)).ok);
    }
  });
  afterAll(() => asking?.stop());

  /** A client with a user who answers every question; `asked` collects the messages and URLs that the user saw. */
  async function clientOf(mode: 'auto' | 'legacy', answer: object) {
    const client = await connect(mode, { elicitation: { form: {}, url: {} } });
    const asked: string[] = [];
    client.setRequestHandler('elicitation/create', ({ params }) => {
      asked.push('url' in params ? `${params.message} ${params.url}` : params.message);
      return answer as { action: 'accept' };
    });
    return { client, asked };
  }
  const six = { action: 'accept', content: { people: 6 } };

  describe.each([
    ['auto', 'rooms'],
    ['auto', 'rooms25'],
    ['legacy', 'rooms'],
    ['legacy', 'rooms25'],
  ] as const)('seen by a client (%s): %s', (mode, source) => {
    const book = (through: Client, day: string, _meta?: Record<string, unknown>) =>
      through.callTool({ name: `${source}_book_room`, arguments: { day }, _meta });
    const bookings = (day: string) => asking.bookings.filter((booking) => booking.endsWith(` on ${day}`));

    it('asks its person', async () => {
      const { client, asked } = await clientOf(mode, six);
      const day = `${mode} ${source}`;
      expect(await book(client, day)).toMatchObject({ isError: false, content: [{ text: 'booked for 6' }] });
      expect(asked).toEqual([expect.stringContaining(`The MCP server ${source} asks: For how many people?`)]);
      expect(bookings(day)).toEqual([`6 on ${day}`]);
    });

    it('sends the person to a page, and takes a no for an answer', async () => {
      const { client, asked } = await clientOf(mode, { action: 'decline' });
      expect(await client.callTool({ name: `${source}_sign_in`, arguments: {} })).toMatchObject({
        content: [{ text: 'signed in: decline' }],
      });
      expect(asked).toEqual([`The MCP server ${source} asks: Sign in https://login.example.com/start`]);
    });

    it.each(['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'http://login.example.com/'])(
      'sends no person to %s',
      async (page) => {
        asking.page = page;
        const { client, asked } = await clientOf(mode, { action: 'accept' });
        const answer = client.callTool({ name: `${source}_sign_in`, arguments: {} });
        const text = await answer.then((result) => JSON.stringify(result), String);
        expect(text).toContain(`its scheme is ${page.split(':')[0]}`);
        expect(asked).toEqual([]);
        asking.page = SIGN_IN_PAGE;
      },
    );

    it('books once for one idempotency key, as one call', async () => {
      const { client, asked } = await clientOf(mode, six);
      const day = `once ${mode} ${source}`;
      const again = () => book(client, day, { idempotency_key: `room-${mode}-${source}` });
      const [first, second] = [await again(), await again()];
      expect([second.content, second._meta?.['metadata']]).toMatchObject([first.content, { idempotent_replay: true }]);
      expect([asked.length, bookings(day)]).toEqual([1, [`6 on ${day}`]]);
      // Calls of earlier tests are recorded a moment after their answer, so these are found by their ids.
      const ids = [first, second].map(({ _meta: meta }) => meta?.['call_id']);
      const recorded = () => recentCalls(`${source}_book_room`, (id) => ids.includes(id));
      await eventually('both are recorded', async () => (await recorded()).length >= 2);
      expect(await recorded()).toEqual(['success', 'success']);
    });

    it('is refused with its own code to a client that cannot be asked', async () => {
      for (const capabilities of [{}, { elicitation: { url: {} } }]) {
        const result = book(await connect(mode, capabilities), `x ${mode} ${source}`);
        // A server of 2025 does not say in which way it would ask.
        const isCode = mode === 'auto' && (source === 'rooms' || !('elicitation' in capabilities));
        if (isCode) await expect(result).rejects.toMatchObject({ code: -32_021 });
        else expect(await result).toMatchObject({ isError: true, _meta: { code: 'INPUT_REQUIRED', retryable: false } });
      }
      expect(bookings(`x ${mode} ${source}`)).toEqual([]);
    });
  });

  it('passes the questions of many users to each, and each answer to the call of its user', async () => {
    const calls = Array.from({ length: 20 }, (_, people) => people).map(async (people) => {
      const [mode, source] = [people % 2 ? 'auto' : 'legacy', people % 4 < 2 ? 'rooms' : 'rooms25'] as const;
      const { client } = await clientOf(mode, { action: 'accept', content: { people } });
      return client.callTool({ name: `${source}_book_room`, arguments: { day: `party ${people}` } });
    });
    const booked = (await Promise.all(calls)).map(({ content }) => content);
    expect(booked).toMatchObject(booked.map((_, people) => [{ text: `booked for ${people}` }]));
    const party = asking.bookings.filter((booking) => booking.includes('party'));
    expect(party.toSorted()).toEqual(booked.map((_, people) => `${people} on party ${people}`).toSorted());
  });

  it.each(['rooms', 'rooms25'])(
    'is refused with its own code over HTTP, later and in programs (%s)',
    async (source) => {
      const refusal = { code: 'INPUT_REQUIRED' };
      const path = `/api/v1/tools/${source}_book_room/execute`;
      const waited = await post(path, { arguments: { day: 'x' } });
      expect([waited.status, await waited.json()]).toMatchObject([403, { ...refusal, details: { server: source } }]);
      const accepted = await post(path, { arguments: { day: 'x' }, mode: 'async' });
      const { call_id: id } = (await accepted.json()) as { call_id: string };
      const events = await (await fetch(new URL(`/api/v1/calls/${id}/events`, url), { headers })).text();
      expect(events).toContain('"INPUT_REQUIRED"');
      const code = `try:\n  v = tools.${source}_book_room(day="x")\nexcept ToolError as e:\n  v = e.code\nv`;
      const ran = await post('/api/v1/tools/run_program/execute', { arguments: { code } });
      expect(JSON.stringify(await ran.json())).toContain('INPUT_REQUIRED');
      expect(asking.bookings.filter((booking) => booking.endsWith(' x'))).toEqual([]);
    },
  );
});

/** The reference server of SDK 1.x, and what its tools are called with. Those that only tasks of 2025-11-25 can call are left out. */
describe('server-everything', () => {
  const CALLS: Record<string, Record<string, unknown>> = {
    echo: { message: 'ünï ✓' },
    'get-annotated-message': { messageType: 'error', includeImage: true },
    'get-env': {},
    'get-resource-links': { count: 4 },
    'get-resource-reference': { resourceType: 'Blob', resourceId: 2 },
    'get-structured-content': { location: 'New York' },
    'get-sum': { a: 2, b: 3 },
    'get-tiny-image': {},
    'gzip-file-as-resource': { name: 'x.gz', data: 'data:text/plain;base64,aGk=', outputType: 'resourceLink' },
    'toggle-simulated-logging': {},
    'toggle-subscriber-updates': {},
    'trigger-long-running-operation': { duration: 0.2, steps: 2 },
  };
  const PROMPTS: Record<string, Record<string, string>> = {
    'simple-prompt': {},
    'args-prompt': { city: 'Lisbon', state: 'x' },
    'completable-prompt': { department: 'Engineering', name: 'Alice' },
    'resource-prompt': { resourceType: 'Text', resourceId: '3' },
  };
  const TEXTS = 'demo://resource/dynamic/text/{resourceId}';
  let everything: EverythingServer;

  beforeAll(async () => {
    everything = await startEverythingServer();
    appendFileSync(join(stateDir, 'allowed-endpoints'), `${everything.origin}\n`);
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
    // Trusted, because hints of other servers are not passed on.
    const body = JSON.stringify({ name: 'all', url: `${everything.origin}/mcp`, visibility: 'fleet', trusted: true });
    const register = () => fetch(new URL('/api/v1/sources/mcp', url), { method: 'POST', headers, body });
    await eventually('it is registered', async () => (await register()).ok);
  });
  afterAll(() => everything?.stop());

  /** A client of either SDK: what they share has the same types. */
  async function open(sdk: '1.x' | 'auto' | 'legacy', endpoint: string): Promise<Client> {
    const requestInit = { headers: { Authorization: `Bearer ${KEY}` } };
    if (sdk === '1.x') {
      const client = new ClientOfSdk1({ name: 'e2e', version: '1' });
      const transport = new TransportOfSdk1(new URL(endpoint), { requestInit });
      await client.connect(transport as Parameters<ClientOfSdk1['connect']>[0]);
      clients.push(client as unknown as Client);
    } else {
      const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode: sdk } });
      await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { requestInit }));
      clients.push(client);
    }
    return clients.at(-1)!;
  }

  /** A value with the names and addresses of the server, without what differs between two answers: times, and ids of sessions. */
  const plain = (value: unknown): unknown => {
    const decode = (key: string, item: unknown) =>
      key === 'blob' && String(item).startsWith('UmVzb3VyY2U') ? Buffer.from(String(item), 'base64').toString() : item;
    const text = JSON.stringify(value, decode)
      .replaceAll(/:\/\/mcp-[0-9a-f]{16}\//g, '://')
      .replaceAll(/\d{1,2}:\d\d:\d\d(?:\s[AP]M)?/g, 'now')
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'session');
    return JSON.parse(text);
  };
  const isLasting = ({ uri }: { uri: string }) => !uri.includes('/session/');

  describe.each(['1.x', 'legacy', 'auto'] as const)('seen by a client (%s)', (sdk) => {
    let [through, direct] = [] as unknown as [Client, Client];
    beforeAll(async () => {
      through = await open(sdk, url);
      direct = await open(sdk, `${everything.origin}/mcp`);
    });
    const both = async (ask: (client: Client, name: (own: string) => string) => Promise<unknown>) => {
      const [ours, theirs] = [await ask(through, (own) => `all_${own}`), await ask(direct, (own) => own)];
      return [plain(ours), plain(theirs)] as [object, object];
    };

    it('lists what the server lists', async () => {
      // Schemas are listed without their dialect, results' require nothing, and tasks of 2025-11-25 are not offered.
      const tools = (await direct.listTools()).tools
        .filter(({ name }) => name in CALLS)
        .map(({ execution: _tasks, inputSchema: { $schema: _in, ...inputSchema }, outputSchema, ...tool }) => {
          return {
            ...tool,
            inputSchema,
            ...(outputSchema && { outputSchema: { properties: outputSchema.properties } }),
          };
        });
      expect(tools.map(({ name }) => name).toSorted()).toEqual(Object.keys(CALLS).toSorted());
      const listed = new Map((await through.listTools()).tools.map((tool) => [tool.name, tool]));
      for (const tool of tools)
        expect(listed.get(`all_${tool.name}`)).toMatchObject({ ...tool, name: `all_${tool.name}` });
      const prompts = (await through.listPrompts()).prompts.filter(({ name }) => name.startsWith('all_'));
      const unprefixed = prompts.map((prompt) => ({ ...prompt, name: prompt.name.slice(4) }));
      const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
      expect(unprefixed.toSorted(byName)).toEqual((await direct.listPrompts()).prompts.toSorted(byName));
      const [resources, ownResources] = await both(async (client) =>
        (await client.listResources()).resources.filter(({ uri }) => uri.startsWith('demo:')).filter(isLasting),
      );
      expect(resources).toEqual(ownResources);
      const [templates, ownTemplates] = await both(async (client) =>
        (await client.listResourceTemplates()).resourceTemplates.filter((one) => one.uriTemplate.startsWith('demo:')),
      );
      expect(templates).toEqual(ownTemplates);
    });

    it.each(Object.entries(CALLS))('calls %s', async (tool, args) => {
      // Toggles are called twice, so that nothing is left on.
      for (let time = 1; time <= (tool.startsWith('toggle') ? 2 : 1); time += 1) {
        const [ours, theirs] = await both(async (client, name) => {
          const answer = await client.callTool({ name: name(tool), arguments: args });
          const links = answer.content.filter((block) => block.type === 'resource_link').map(({ uri }) => uri);
          const { content, structuredContent, isError = false } = answer;
          return { content, structuredContent, isError, read: await readAll(client, links) };
        });
        // The fleet also gives the JSON in a text as structured content.
        const { structuredContent, ...rest } = ours as Record<string, unknown>;
        expect('structuredContent' in theirs ? { ...rest, structuredContent } : rest).toEqual(theirs);
      }
    });

    const readAll = async (client: Client, addresses: string[]) => {
      const contents: unknown[] = [];
      for (const uri of addresses) contents.push((await client.readResource({ uri })).contents);
      return contents;
    };

    it('reads its resources, and gets and completes its prompts', async () => {
      const [read, own] = await both(async (client) => {
        const { resources } = await client.listResources();
        const { resourceTemplates } = await client.listResourceTemplates();
        const expanded = resourceTemplates.map(({ uriTemplate }) => uriTemplate.replace('{resourceId}', '3'));
        const addresses = [...resources.filter(isLasting).map(({ uri }) => uri), ...expanded];
        return readAll(
          client,
          addresses.filter((uri) => uri.startsWith('demo:')),
        );
      });
      expect(read).toEqual(own);
      for (const [prompt, args] of Object.entries(PROMPTS)) {
        const [got, ownText] = await both(async (client, name) => {
          const { messages, description } = await client.getPrompt({ name: name(prompt), arguments: args });
          return { messages, description };
        });
        expect(got).toEqual(ownText);
      }
      const template = (await through.listResourceTemplates()).resourceTemplates
        .map(({ uriTemplate }) => uriTemplate)
        .find((one) => plain(one) === TEXTS)!;
      const [completed, ownValues] = await both(async (client, name) => {
        const prompt = { type: 'ref/prompt' as const, name: name('completable-prompt') };
        const resource = { type: 'ref/resource' as const, uri: client === direct ? TEXTS : template };
        const context = { arguments: { department: 'Engineering' } };
        const asked = [
          { ref: prompt, argument: { name: 'department', value: 'S' } },
          { ref: prompt, argument: { name: 'name', value: 'B' }, context },
          { ref: resource, argument: { name: 'resourceId', value: '7' } },
        ];
        return Promise.all(asked.map(async (one) => (await client.complete(one)).completion.values));
      });
      expect([completed, ownValues]).toEqual([[['Sales', 'Support'], ['Bob'], ['7']], completed]);
    });
  });
});

describe('a server that answers with tasks', () => {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const post = (path: string, body: object) =>
    fetch(new URL(path, url), { method: 'POST', headers, body: JSON.stringify(body) });
  /** The result or the error of a request of a client that takes tasks and shows forms. */
  const ask = async (method: string, params: Record<string, unknown>) => {
    const request = modernRequest(method, params, { elicitation: { form: {} } });
    const answer = await fetch(url, {
      method: 'POST',
      headers: { ...headers, ...request.headers },
      body: JSON.stringify(request.body),
    });
    const { result, error } = (await answer.json()) as Record<'result' | 'error', Record<string, never>>;
    return result ?? error;
  };
  const bake = (what: string, more: object = {}) =>
    ask('tools/call', { name: 'oven_bake', arguments: { what, ...more } });
  const stateOf = (what: string) => baking.tasks.get(what);
  const refresh = async () => {
    const path = '/api/v1/sources/mcp/oven/refresh?visibility=fleet';
    const answer = await fetch(new URL(path, url), { method: 'POST', headers: { authorization: `Bearer ${KEY}` } });
    return ((await answer.json()) as { quarantined: object[] }).quarantined;
  };
  let baking: TaskMcpServer;

  beforeAll(async () => {
    baking = await startTaskMcpServer();
    appendFileSync(join(stateDir, 'allowed-endpoints'), `${baking.origin}\n`);
    const entry = { name: 'oven', url: `${baking.origin}/mcp`, visibility: 'fleet' };
    await eventually('oven is registered', async () => (await post('/api/v1/sources/mcp', entry)).ok);
  });
  afterAll(() => baking?.stop());

  it('gives a task of the fleet to a client that takes tasks, and the result at its end', async () => {
    const created = await bake('bread');
    expect(created).toMatchObject({
      resultType: 'task',
      status: 'working',
      taskId: expect.stringMatching(/^[\w-]{36}$/),
    });
    const get = () => ask('tasks/get', { taskId: created['taskId'] });
    await eventually('it has ended', async () => (await get())['status'] === 'completed');
    expect(await get()).toMatchObject({ result: { isError: false, content: [{ text: 'baked {}' }] } });
    const ends = () => recentCalls('oven_bake', (id) => id === created['taskId']);
    await eventually('one call is recorded', async () => (await ends()).length > 0);
    expect(await ends()).toEqual(['success']);
  });

  it('passes its questions and their answers on', async () => {
    const { taskId } = await bake('rolls', { how: 'input_required' });
    const get = () => ask('tasks/get', { taskId });
    await eventually('it asks', async () => (await get())['status'] === 'input_required');
    expect(await get()).toMatchObject({
      inputRequests: { loaves: { params: { message: expect.stringContaining('The MCP server oven asks: How many') } } },
    });
    const loaves = { action: 'accept', content: { loaves: 6 } };
    expect(await ask('tasks/update', { taskId, inputResponses: { loaves, other: loaves } })).toMatchObject({
      resultType: 'complete',
    });
    expect((await get())['status']).not.toBe('input_required');
    await eventually('it has ended', async () => (await get())['status'] === 'completed');
    expect(stateOf('rolls')).toMatchObject({ answers: { loaves } });
    expect(stateOf('rolls')?.answers).not.toHaveProperty('other');
  });

  it('reports that it failed with an error of the protocol', async () => {
    const { taskId } = await bake('coal', { how: 'failed' });
    const get = () => ask('tasks/get', { taskId });
    await eventually('it has ended', async () => (await get())['status'] === 'failed');
    expect(await get()).toMatchObject({ error: { code: -32_099, message: expect.stringContaining('oven is broken') } });
  });

  it('is cancelled with the task of the fleet', async () => {
    const { taskId } = await bake('cake', { polls: 1e9 });
    await eventually('it is followed', () => (stateOf('cake')?.polled ?? 0) > 0);
    expect(await ask('tasks/cancel', { taskId })).toMatchObject({ resultType: 'complete' });
    await eventually('the server has cancelled it', () => stateOf('cake')?.status === 'cancelled');
    expect(await ask('tasks/get', { taskId })).toMatchObject({ status: 'cancelled' });
  });

  it.each(['auto', 'legacy'] as const)(
    'keeps a client without tasks waiting, which answers questions (%s)',
    async (mode) => {
      const client = await connect(mode, { elicitation: {} });
      client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { loaves: 2 } }));
      const call = (what: string, more: object = {}) =>
        client.callTool({ name: 'oven_bake', arguments: { what, ...more } });
      expect(await call(`plain ${mode}`)).toMatchObject({ isError: false, content: [{ text: 'baked {}' }] });
      expect(await call(`asked ${mode}`, { how: 'input_required' })).toMatchObject({
        content: [{ text: 'baked {"loaves":{"action":"accept","content":{"loaves":2}}}' }],
      });
      const mute = await connect(mode);
      expect(
        await mute.callTool({ name: 'oven_bake', arguments: { what: `mute ${mode}`, how: 'input_required' } }),
      ).toMatchObject({ isError: true, _meta: { code: 'INPUT_REQUIRED' } });
      await eventually('it is cancelled', () => stateOf(`mute ${mode}`)?.status === 'cancelled');
    },
  );

  it('is cancelled when a client without tasks stops waiting, or its time is over', async () => {
    const path = '/api/v1/tools/oven_bake/execute';
    const late = await post(path, { arguments: { what: 'slow', polls: 1e9 }, timeout_ms: 2_000 });
    expect(JSON.stringify(await late.json())).toContain('oven did not end in time and was cancelled');
    await eventually('the late one is cancelled', () => stateOf('slow')?.status === 'cancelled');
    const client = await connect('auto');
    const leaving = new AbortController();
    const left = client
      .callTool({ name: 'oven_bake', arguments: { what: 'left', polls: 1e9 } }, { signal: leaving.signal })
      .catch(() => 'aborted');
    await eventually('it is followed', () => (stateOf('left')?.polled ?? 0) > 0);
    leaving.abort();
    expect(await left).toBe('aborted');
    await eventually('the abandoned one is cancelled', () => stateOf('left')?.status === 'cancelled');
  });

  it('shows the page of an app as it was approved', async () => {
    const client = await connect('auto', { extensions: { 'io.modelcontextprotocol/ui': {} } });
    const tools = async () => (await client.listTools(undefined, { cacheMode: 'refresh' })).tools;
    const { ui } = (await tools()).find(({ name }) => name === 'oven_show')!._meta as { ui: { resourceUri: string } };
    const read = () => client.readResource({ uri: ui.resourceUri }, { cacheMode: 'bypass' });
    const otherWays = async () => {
      const args = { uri: ui.resourceUri };
      const code = `try:\n  v = tools["resource:oven"](uri="${ui.resourceUri}")\nexcept ToolError as e:\n  v = e.message\nv`;
      const answers = [
        await post('/api/v1/tools/resource:oven/execute', { arguments: args }),
        await post('/api/v1/tools/resource:oven/execute', {
          arguments: { uri: 'ui://oven/page' },
          idempotency_key: `page ${baking.page}`,
        }),
        await post('/api/v1/tools/run_program/execute', { arguments: { code } }),
      ];
      return Promise.all(answers.map((answer) => answer.text()));
    };
    expect(await read()).toMatchObject({ contents: [{ text: '<p>hot</p>' }] });
    for (const answer of await otherWays()) expect(answer).toContain('<p>hot</p>');
    baking.page = '<p>type your password</p>';
    await expect(read()).rejects.toMatchObject({ data: { code: 'TOOL_QUARANTINED' } });
    for (const answer of await otherWays()) {
      expect(answer).toContain('is not as approved');
      expect(answer).not.toContain('your password');
    }
    expect(await refresh()).toMatchObject([{ name: 'oven_show', reason: 'changed: listing' }]);
    await eventually('it is not listed', async () => !(await tools()).some(({ name }) => name === 'oven_show'));
    await expect(read()).rejects.toMatchObject({ data: { code: 'TOOL_QUARANTINED' } });
    baking.page = '<p>hot</p>';
    expect(await refresh()).toEqual([]);
    await eventually('what was approved is read again', () =>
      read().then(
        () => true,
        () => false,
      ),
    );
  });

  it('adds a tool, which waits for an approval', async () => {
    const grill = () => post('/api/v1/tools/oven_grill/execute', { arguments: {} });
    baking.grills = true;
    const [held] = await refresh();
    expect(held).toMatchObject({ name: 'oven_grill', reason: expect.stringMatching(/^new: /) });
    await eventually('calls are refused', async () =>
      JSON.stringify(await (await grill()).json()).includes('TOOL_QUARANTINED'),
    );
    const { pending_revision } = held as { pending_revision: string };
    expect((await post('/api/v1/quarantine/oven_grill/approve', { pending_revision })).status).toBe(200);
    await eventually('it is called', async () => JSON.stringify(await (await grill()).json()).includes('grilled'));
    expect(await refresh()).toEqual([]);
  });

  it('keeps an asynchronous call waiting for the result', async () => {
    const accepted = await post('/api/v1/tools/oven_bake/execute', { arguments: { what: 'async' }, mode: 'async' });
    const { call_id: id } = (await accepted.json()) as { call_id: string };
    const events = await (await fetch(new URL(`/api/v1/calls/${id}/events`, url), { headers })).text();
    expect(events).toContain('baked {}');
  });
});

describe('a toolset', () => {
  const NOTE = { name: 'remember', description: 'Remembers a note' };
  const SPEC = {
    include: { tools: ['sample_save_note', 'sample_count_slowly'], sources: ['mcp/jobs'] },
    overrides: {
      sample_save_note: NOTE,
      sample_count_slowly: { name: 'count', preset: { steps: 6 } },
      jobs_save_note: { name: 'remember_later' },
      jobs_count_slowly: { name: 'count_later' },
    },
  };
  const SHOWN = ['count', 'count_later', 'jobs_add', 'jobs_red_dot', 'remember', 'remember_later'];
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const request = async (method: string, path: string, body?: object, more: Record<string, string> = {}) => {
    const init = { method, headers: { ...headers, ...more }, body: body && JSON.stringify(body) };
    const answer = await fetch(new URL(path, url), init);
    return { status: answer.status, body: (await answer.json()) as any }; // oxlint-disable-line typescript/no-explicit-any -- bodies of every shape are inspected here
  };
  const put = (spec: object, name = 'desk') => request('PUT', `/api/v1/toolsets/${name}`, spec);

  beforeAll(async () => {
    // The same server once more, as one with calls that may become tasks. A cancelled call of a trusted one has a known outcome.
    const source = { name: 'jobs', url: `${samples}/mcp`, task_support: 'optional', trusted: true };
    const registered = await request('POST', '/api/v1/sources/mcp', source);
    expect([registered.status, registered.body]).toMatchObject([201, {}]);
    const known = async () => (await request('GET', '/api/v1/tools/jobs_count_slowly')).status === 200;
    await eventually('the tools of the jobs are known', known);
    expect((await put(SPEC)).body).toMatchObject({ version: 1, tools: SHOWN, notes: [] });
  });

  describe.each(['auto', 'legacy'] as const)('seen by a client (%s)', (mode) => {
    it('has its tools and sends the progress of a call whose arguments it decides', async () => {
      const client = await connect(mode, {}, 'desk');
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(SHOWN);
      expect(tools[0]?.inputSchema.properties).toEqual({});
      // Its selection has the prompts and resources of the jobs, and not the sample server's.
      expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(['jobs_describe_dot']);
      const { uri } = (await (await connect(mode)).listResources()).resources.at(-1)!;
      const shown = (await client.listResources()).resources.map((one) => one.uri);
      expect([shown.length, shown.includes(uri)]).toEqual([4, false]);
      await expect(client.readResource({ uri })).rejects.toThrow(/not found/i);
      await expect(client.getPrompt({ name: 'sample_describe_dot' })).rejects.toMatchObject({ code: -32_602 });
      const seen: { progress: number; total?: number; message?: string }[] = [];
      const answer = await client.callTool({ name: 'count', arguments: {} }, { onprogress: (one) => seen.push(one) });
      expect(answer).toMatchObject({ content: [{ text: 'counted to 6' }] });
      expect(seen[0]).toMatchObject({ total: 6, message: expect.stringMatching(/^step \d+$/) });
    });

    it('asks its person, by the names of the toolset', async () => {
      const person = await connect(mode, { elicitation: {} }, 'desk');
      const shown: string[] = [];
      const answers = [true, false];
      person.setRequestHandler('elicitation/create', async ({ params }) => {
        shown.push(params.message);
        return { action: 'accept', content: { approve: answers.shift() === true } };
      });
      const save = (through: Client) => through.callTool({ name: 'remember', arguments: { text: 'hello' } });
      const earlier = (await recentCalls()).length;
      expect(await save(person)).toMatchObject({ isError: false });
      expect(await save(person)).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_DECLINED' } });
      const form = 'Store this note?\n\nTool: remember\nArguments: {"text":"hello"}\nCosts at most: $0.001';
      expect(shown).toEqual([form, form]);
      const unasked = await save(await connect(mode, {}, 'desk'));
      expect(unasked).toMatchObject({ isError: true, _meta: { code: 'APPROVAL_REQUIRED' } });
      expect(JSON.stringify(unasked)).not.toContain('sample_save_note');
      const since = async () => (await recentCalls()).slice(earlier);
      await eventually('the last call is recorded', async () => (await since()).at(-1) === 'APPROVAL_REQUIRED');
      expect(await since()).toEqual(['success', 'APPROVAL_DECLINED', 'APPROVAL_REQUIRED']);
    });
  });

  describe('seen by a client that takes tasks', () => {
    const ask = async (
      method: string,
      params: { name?: string; taskId?: string } & Record<string, unknown>,
      path = '/mcp/t/desk',
    ) => {
      const { body, headers: more } = modernRequest(method, params, { elicitation: {} });
      return (await request('POST', path, body, more)).body.result;
    };
    const call = (name: string, args: object, more = {}, path?: string) =>
      ask('tools/call', { name, arguments: args, ...more }, path);
    const untilEnded = async (taskId: string) => {
      let task: { status: string; result?: object } = { status: 'working' };
      await eventually('the task ends', async () => {
        task = await ask('tasks/get', { taskId });
        return task.status !== 'working';
      });
      return task;
    };
    const YES = { approval: { action: 'accept', content: { approve: true } } };

    it('starts a task, which ends with the result of the tool', async () => {
      const started = await call('count_later', { steps: 3 });
      expect(started).toMatchObject({ resultType: 'task', status: 'working' });
      expect(await untilEnded(started.taskId)).toMatchObject({
        status: 'completed',
        result: { content: [{ text: 'counted to 3' }], isError: false },
      });
      await eventually('the call is recorded', async () => (await recentCalls('jobs_count_slowly')).length > 0);
      expect(await recentCalls('jobs_count_slowly')).toEqual(['success']);
    });

    it('cancels a task', async () => {
      const { taskId } = await call('count_later', { steps: 600 });
      expect(await ask('tasks/cancel', { taskId })).toMatchObject({ resultType: 'complete' });
      expect(await untilEnded(taskId)).toMatchObject({ status: 'cancelled' });
    });

    it('starts a task once its person approved it, and only one', async () => {
      const asked = await call('remember_later', { text: 'later' });
      expect(asked).toMatchObject({
        resultType: 'input_required',
        inputRequests: { approval: { params: { message: expect.stringContaining('Tool: remember_later\n') } } },
      });
      const approved = { inputResponses: YES, requestState: asked.requestState };
      const started = await call('remember_later', { text: 'later' }, approved);
      expect(started).toMatchObject({ resultType: 'task' });
      const { result } = await untilEnded(started.taskId);
      expect(result).toMatchObject({ isError: false, structuredContent: { count: expect.any(Number) } });
      const again = await call('remember_later', { text: 'later' }, approved);
      expect((await untilEnded(again.taskId)).result).toMatchObject({
        structuredContent: (result as { structuredContent: object }).structuredContent,
      });
    });

    it('does not take an approval of one version or toolset for another', async () => {
      const args = { text: 'approved' };
      expect((await put(SPEC, 'other')).body).toMatchObject({ version: 1 });
      const asked = await call('remember', args);
      const approved = { inputResponses: YES, requestState: asked.requestState };
      const refused = { isError: true, _meta: { code: 'APPROVAL_REQUIRED' } };
      expect(await call('remember', args, approved, '/mcp/t/other')).toMatchObject(refused);
      const described = { ...NOTE, description: 'Remembers a short note' };
      const next = { ...SPEC, overrides: { ...SPEC.overrides, sample_save_note: described } };
      expect((await put(next)).body).toMatchObject({ version: 2 });
      const listed = async () => (await request('GET', '/api/v1/tools/remember?toolset=desk')).body.description;
      await eventually('the version is in use', async () => (await listed()) === described.description);
      expect(await call('remember', args, approved)).toMatchObject(refused);
      expect(await call('remember', args, approved, '/mcp/t/desk@1')).toMatchObject({ isError: false });
    });
  });
});

describe('access', () => {
  it('needs a credential', async () => {
    const refused = await fetch(url, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe('Bearer realm="toolfleet"');
  });
});

it('the server under the conformance suite answers', async () => {
  const server = fork(join(ROOT, 'test/mcp/conformance-server.mjs'), {
    execArgv: [],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  try {
    const [line] = (await once(server.stdout!, 'data')) as [Buffer];
    const { port } = JSON.parse(line.toString()) as { port: number };
    const client = new Client({ name: 'e2e', version: '1' });
    clients.push(client);
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
    expect((await client.listTools()).tools).not.toEqual([]);
  } finally {
    server.disconnect();
  }
});
