/** An MCP client in code mode, over both revisions, by URL and by key, on the fast path and through the SDK. */
import { afterEach, describe, expect, it } from 'vitest';
import { TOOL_DETAILS } from '@toolfleet/contracts/tool-definition';
import type { ToolPredicate } from '@toolfleet/catalog';
import { call, closeAll, connect, serveEndpoint, tool, TOOLS } from '../../spec/mcp-endpoint.fixture.js';

afterEach(closeAll);

const PROGRAM = tool('run_program', { binding: { kind: 'program' }, category: 'code' });
const ALL = [
  ...TOOLS,
  tool('crm-find', { category: 'crm', aliases: ['find'], source: { kind: 'mcp', name: 'crm' } }),
  tool('multi_agent', { binding: { kind: 'builtin', toolset: 'agent', handler: 'multi_agent' } }),
  PROGRAM,
];
const deps = {
  listTools: async () => ALL,
  searchTools: async (_principal: unknown, query: string, limit: number, isWanted: ToolPredicate = () => true) =>
    ALL.filter((found) => query.includes(found.name) && isWanted(found)).slice(0, limit),
};
const THREE = ['describe_tools', 'run_program', 'search_tools'];

describe.each(['auto', 'legacy'] as const)('an MCP client in code mode (%s)', (mode) => {
  const open = async (query = '?mode=code', who = 'alice') => {
    const { url, seen } = await serveEndpoint(deps);
    return { seen, client: await connect(url + query, { mode, who }) };
  };
  /** The same call on the fast path, and through the SDK, for calls that ask for progress. */
  const both = async (name: string, args = {}) => {
    const { client } = await open();
    const [fast, full] = [
      await call(client, name, args),
      await client.callTool({ name, arguments: args }, { onprogress: () => {} }),
    ];
    expect(full).toEqual(fast);
    return fast;
  };

  it('sees three tools and reads how to use them', async () => {
    const { client } = await open();
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(THREE);
    expect(client.getInstructions()).toContain('3. run_program runs a program');
  });

  it('finds tools at three levels of detail, without those that programs may not call', async () => {
    const found = async (detail?: string) =>
      (await both('search_tools', { query: 'echo crm-find run_program multi_agent', detail })).structuredContent;
    expect(await found('names')).toEqual({ tools: ['echo', 'crm-find'] });
    const summary = {
      tools: [
        { name: 'echo', description: 'Tool echo' },
        { name: 'crm-find', description: 'Tool crm-find' },
      ],
    };
    expect(await found('summary')).toEqual(summary);
    expect(await found()).toEqual(summary);
    expect(await found('full')).toMatchObject({
      tools: [{ name: 'echo', input_schema: { type: 'object' }, output_schema: {} }, {}],
    });
  });

  it('browses by category and source, page by page', async () => {
    const first = await both('search_tools', { detail: 'names', limit: 2 });
    expect(first.structuredContent).toMatchObject({ tools: ['careful', 'echo'], categories: { crm: 1, test: 4 } });
    const cursor = (first.structuredContent as { next_cursor: string }).next_cursor;
    expect(cursor).toBe(Buffer.from('echo').toString('base64url'));
    for (const filter of [{ category: 'crm' }, { source: 'crm' }, { source: 'crm', query: 'echo crm-find' }])
      expect((await both('search_tools', { ...filter, detail: 'names' })).structuredContent).toEqual({
        tools: ['crm-find'],
      });
  });

  it('reads stubs and schemas of tools, by name or alias', async () => {
    const stub = await both('describe_tools', { names: ['echo', 'find', 'crm-find'] });
    const text = stub.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    expect(text).toContain('def echo(self, *, text: str = ...) -> dict[str, Any]:');
    expect(text.match(/tools\["crm-find"\]/g)).toHaveLength(1);
    const json = await both('describe_tools', { names: ['echo'], format: 'json' });
    expect(json.structuredContent).toMatchObject({ tools: [{ name: 'echo', input_schema: { type: 'object' } }] });
  });

  it.each<[string, string, object, string, string]>([
    ['an unknown level', 'search_tools', { detail: 'all' }, 'ARGUMENTS_INVALID', 'detail'],
    ['an unknown field', 'search_tools', { task: 'x' }, 'ARGUMENTS_INVALID', 'task'],
    ['a limit of zero', 'search_tools', { limit: 0 }, 'ARGUMENTS_INVALID', 'limit'],
    ['a forged cursor', 'search_tools', { cursor: '!' }, 'REQUEST_INVALID', 'cursor'],
    ['a cursor of a search', 'search_tools', { cursor: 'eA', query: 'x' }, 'REQUEST_INVALID', 'cursor'],
    [
      'unknown tools',
      'describe_tools',
      { names: ['echo', 'ecco', 'no'] },
      'TOOL_NOT_FOUND',
      "'ecco'; did you mean echo?, 'no'",
    ],
    ['no names', 'describe_tools', { names: [] }, 'ARGUMENTS_INVALID', 'names'],
    ['too many names', 'describe_tools', { names: Array(51).fill('echo') }, 'ARGUMENTS_INVALID', 'names'],
    ['an unknown format', 'describe_tools', { names: ['echo'], format: 'go' }, 'ARGUMENTS_INVALID', 'format'],
  ])('gets a result with a reason for %s', async (_what, name, args, code, reason) => {
    const refused = await both(name, args);
    expect(refused).toMatchObject({ isError: true, _meta: { code } });
    expect(JSON.stringify(refused.content)).toContain(reason);
  });

  it('runs programs, and no other tool by its name', async () => {
    const { client, seen } = await open();
    expect(await call(client, 'run_program', { code: '1' })).toMatchObject({ isError: false });
    for (const name of ['echo', 'no_such_tool', 'call_tool'])
      await expect(call(client, name, {})).rejects.toMatchObject({
        code: -32_602,
        message: expect.stringContaining(`Unknown tool: ${name}. In code mode tools are called by programs`),
      });
    expect(seen.map(({ target }) => target.toolName)).toEqual(['run_program']);
  });

  it('is a client whose key is bound to it, whatever its URL says', async () => {
    for (const query of ['', '?mode=list', '?schema_style=inline']) {
      const { client } = await open(query, 'coder');
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(THREE);
    }
    const { client } = await open('?mode=list');
    expect((await client.listTools()).tools).toHaveLength(ALL.length);
  });

  it('is informed that its key may not run programs', async () => {
    const { url } = await serveEndpoint({ ...deps, listTools: async () => TOOLS });
    const client = await connect(`${url}?mode=code`, { mode });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['describe_tools', 'search_tools']);
    expect(client.getInstructions()).toContain('may not call run_program');
    await expect(call(client, 'run_program', { code: '1' })).rejects.toMatchObject({ code: -32_602 });
  });
});

describe.each(['auto', 'legacy'] as const)('a kept result is read (%s)', (mode) => {
  const reader = (name: string) => tool(name, { binding: { kind: 'result' } });
  it.each([
    ['by name', '', [reader('read_result')], { by: 'tool', tool: 'read_result' }],
    ['through call_tool', '?mode=search', [reader('read_result')], { by: 'call_tool', tool: 'read_result' }],
    ['by a program', '?mode=code', [reader('read_result')], { by: 'program', function: 'tools.read_result' }],
    ['under a name of its toolset', '?mode=code', [reader('look-up')], { by: 'program', function: 'tools["look-up"]' }],
    ['as a resource where no tool reads it', '?mode=code', [], { by: 'resource' }],
  ])('%s', async (_what, query, readers, resultReading) => {
    const { url, seen } = await serveEndpoint({ ...deps, listTools: async () => [...ALL, ...readers] });
    const client = await connect(url + query, { mode });
    const [name, args] =
      query === '?mode=search' ? ['call_tool', { name: 'echo', arguments: {} }] : ['run_program', { code: '1' }];
    await call(client, name, args);
    await client.callTool({ name, arguments: args }, { onprogress: () => {} });
    expect(seen).toMatchObject([{ resultReading }, { resultReading }]);
  });
});

it('an unknown mode is refused', async () => {
  const { url } = await serveEndpoint(deps);
  const headers = { authorization: 'Bearer alice', 'content-type': 'application/json' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const refused = await fetch(`${url}?mode=fast`, { method: 'POST', headers, body });
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringContaining('mode must be one of list, search, code'),
  ]);
});

it('search surfaces offer the same levels', async () => {
  const { url } = await serveEndpoint(deps);
  const client = await connect(`${url}?mode=search`);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(['call_tool', 'search_tools']);
  expect(tools[1]?.inputSchema.properties?.['detail']).toMatchObject({ enum: [...TOOL_DETAILS], default: 'full' });
});
