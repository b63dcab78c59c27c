/** The search of a gateway: vectors of a local endpoint, what it does while there is none, and what it keeps in the history. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, FakeClock } from '@toolfleet/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Embeddings } from './embeddings.js';
import { matching } from './tool-list.js';
import { ToolSearch } from './tool-search.js';
import { ToolVectors } from './tool-vectors.js';
import { ToolsetView } from './toolset-view.js';

const tool = (name: string, description: string, revision = '1') =>
  ({ name, description, revision, category: 'data', input_schema: {} }) as RegisteredTool;
const TOOLS = [
  tool('create_invoice', 'Writes an invoice'),
  tool('get_weather', 'Current weather of a city'),
  tool('list_orders', 'Orders of a shop'),
];
const caller: Principal = { tenantId: 't', userId: 'u', roles: [], tools: ['*'], via: 'api_key' };

/** Meanings that this endpoint knows; each is a direction of its vectors. */
const MEANINGS = [/invoice|penguin/, /weather|sky/, /orders|basket/];
const vectorOf = (text: string) => [...MEANINGS.map((meaning) => (meaning.test(text.toLowerCase()) ? 2 : 0)), 0.1];

let endpoint: Server;
let url: string;
let requests: { headers: IncomingHttpHeaders; body: { model: string; input: string[]; dimensions?: number } }[];
let respond: (input: string[]) => { status: number; body: unknown } | undefined;
const good = (input: string[]) => ({
  status: 200,
  // In any order, as the API allows.
  body: { data: input.map((text, index) => ({ index, embedding: vectorOf(text) })).toReversed() },
});

beforeEach(async () => {
  requests = [];
  respond = good;
  endpoint = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    requests.push({ headers: request.headers, body });
    const answer = respond(body.input);
    if (answer) response.writeHead(answer.status).end(JSON.stringify(answer.body)); // else it hangs
  });
  await new Promise<void>((listening) => endpoint.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/v1/embeddings`;
});
afterEach(() => {
  endpoint.closeAllConnections();
  endpoint.close();
});

function newSearch(clock = new FakeClock(), tools = TOOLS, timeoutMs = 5_000) {
  const failures: unknown[] = [];
  const embeddings = new Embeddings({ url, apiKey: 'secret-key', model: 'm1', dimensions: 4 }, new SystemClock());
  const vectors = new ToolVectors({ embeddings, timeoutMs, clock, onFailure: (error) => failures.push(error) });
  let shown = tools;
  const list = { all: async () => ({ tools: shown, version: 1, stale: false }) };
  const search = new ToolSearch(list, { vectors });
  return {
    clock,
    failures,
    change: (changed: RegisteredTool[]) => void (shown = changed),
    names: async (task: string) => (await search.rank(caller, task, 3)).map((found) => found.tool.name),
  };
}

describe('search with vectors', () => {
  it('embeds descriptions once and in the background, tasks once, and finds by meaning', async () => {
    const { names } = newSearch();
    expect(await names('penguin')).toEqual([]); // by words only, until the tools have vectors
    await eventually('they have', async () => (await names('penguin'))[0] === 'create_invoice');
    expect(requests.map(({ body }) => body.input.length)).toEqual([3, 1]);
    expect(requests[0]).toMatchObject({
      headers: { authorization: 'Bearer secret-key' },
      body: { model: 'm1', dimensions: 4 },
    });
    expect(requests[0]!.body.input[0]).toBe('create invoice: Writes an invoice');
    expect((await names('basket'))[0]).toBe('list_orders');
    expect((await names('penguin'))[0]).toBe('create_invoice');
    expect(requests).toHaveLength(3);
  });

  it('sends tools in batches, and only changed ones again', async () => {
    const many = Array.from({ length: 150 }, (_, index) => tool(`tool_${index}`, 'Does something'));
    const { names, change } = newSearch(new FakeClock(), many);
    await names('weather');
    await eventually('all have vectors', async () => requests.length === 3);
    expect(requests.map(({ body }) => body.input.length)).toEqual([64, 64, 22]);
    change(many.with(7, tool('tool_7', 'Looks at the sky', '2')));
    await eventually('the changed one is found', async () => (await names('weather'))[0] === 'tool_7');
    expect(requests[3]!.body.input).toEqual(['tool 7: Looks at the sky']);
  });

  it.each<[string, typeof respond]>([
    ['refuses', () => ({ status: 401, body: { error: 'no' } })],
    ['answers with too few vectors', () => ({ status: 200, body: { data: [{ index: 0, embedding: [1, 0] }] } })],
    ['answers with something else', () => ({ status: 200, body: { data: 'x' } })],
    ['answers with no numbers', (input) => ({ status: 200, body: { data: input.map(() => ({ embedding: ['x'] })) } })],
  ])('uses words only while the endpoint %s, and tries again later', async (_, answer) => {
    respond = answer;
    const { names, failures, clock } = newSearch();
    expect(await names('weather')).toEqual(['get_weather']);
    await eventually('it failed', () => failures.length === 1);
    expect(await names('weather')).toEqual(['get_weather']);
    expect(requests).toHaveLength(1);
    respond = good;
    clock.advance(15_000);
    await eventually('it is back', async () => (await names('penguin'))[0] === 'create_invoice');
  });

  it('does not wait for a slow endpoint longer than its time', async () => {
    const { names, failures } = newSearch(new FakeClock(), TOOLS, 50);
    await eventually('tools have vectors', async () => {
      await names('x');
      return requests.length > 0;
    });
    respond = () => undefined;
    await eventually('a task is asked for', async () => {
      expect(await names(`weather ${requests.length}`)).toContain('get_weather');
      return failures.length === 1;
    });
    expect(await names('weather of today')).toEqual(['get_weather']);
  });
});

it('keeps the tools that a filtered search shows, and no others', async () => {
  const kept: (readonly string[])[] = [];
  const history = {
    called: () => new Map(),
    searched: (_principal: Principal, _task: string, found: readonly string[]) => void kept.push(found),
  };
  const tools = ['invoice_write', 'invoice_send', 'invoice_list', 'invoice_drop'].map((name, index) => ({
    ...tool(name, 'Works on an invoice'),
    category: index === 0 ? 'hidden' : 'data',
  }));
  const list = { all: async () => ({ tools, version: 1, stale: false }) };
  const found = await new ToolSearch(list, { history }).rank(caller, 'invoice', 2, matching({ category: 'data' }));
  expect(found.map((each) => each.tool.category)).toEqual(['data', 'data']);
  expect(kept).toEqual([found.map((each) => each.tool.name)]);
});

it('learns and uses the original names of tools that a toolset renames', async () => {
  const kept: (readonly string[])[] = [];
  const history = {
    called: () => new Map([['crm_search', 1]]),
    searched: (_principal: Principal, _task: string, found: readonly string[]) => void kept.push(found),
  };
  const view = new ToolsetView({
    name: 'support',
    tenant: null,
    version: 1,
    // A tool of the list has the original name of another as its new name.
    spec: { overrides: { crm_search: { name: 'find_customer' }, shop_search: { name: 'crm_search' } } },
    approved: { crm_search: '1', shop_search: '1' },
    quarantined: [],
  });
  const tools = view.list([tool('crm_search', 'Finds a customer'), tool('shop_search', 'Finds a customer')]);
  expect(tools.map(({ name }) => name)).toEqual(['crm_search', 'find_customer']);
  const list = { all: async () => ({ tools, version: 1, stale: false }) };
  const found = await new ToolSearch(list, { history }).rank(caller, 'unknown words', 2);
  expect(found.map((each) => each.tool.name)).toEqual(['find_customer']);
  expect(kept).toEqual([['crm_search']]);
});
