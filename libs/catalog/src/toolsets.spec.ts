import { ToolError, type CallRequest, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { ServedToolset, ToolsetSpec } from '@toolfleet/contracts/toolset';
import { makeExecuteCall, type Call } from '@toolfleet/engine';
import { FakeClock } from '@toolfleet/testing';
import {
  anEngine,
  aPrincipal,
  aRequest,
  aTool,
  failedReply,
  ScriptedExecutor,
} from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';
import type { DefinitionCache } from './definition-cache.js';
import { ToolList } from './tool-list.js';
import { ToolsetView } from './toolset-view.js';
import { RegistryResolver } from './registry-catalog.js';
import { readToolsetRef, Toolsets } from './toolsets.js';

const tool = (name: string, more: Partial<RegisteredTool> = {}): RegisteredTool =>
  aTool({ name, revision: `${name}-1`, description: `Tool ${name}`, ...more });
const READ_ONLY = { annotations: { readOnlyHint: true } };
const TOOLS = [
  tool('adder', READ_ONLY),
  tool('crm_delete', { source: { kind: 'mcp', name: 'crm@acme' }, tags: ['crm'] }),
  tool('crm_find', {
    source: { kind: 'mcp', name: 'crm@acme' },
    category: 'sales',
    aliases: ['crm.find'],
    ...READ_ONLY,
    input_schema: {
      type: 'object',
      properties: { name: { type: 'string' }, region: { type: 'string' }, limit: { type: 'integer' } },
      required: ['name', 'region', 'limit'],
    },
    input_examples: [{ name: 'Ann', region: 'eu', limit: 1 }, { name: 'Bob' }],
  }),
];
const served = (spec: ToolsetSpec, more: Partial<ServedToolset> = {}): ServedToolset => ({
  name: 'own',
  tenant: 'acme',
  version: 1,
  spec,
  approved: { crm_find: 'crm_find-1', adder: 'adder-1' },
  quarantined: [],
  ...more,
});

/** A gateway's toolsets over one that a spec changes; counts what it read. */
function setUp(first: ServedToolset) {
  const state = { toolset: first as ServedToolset | null, reads: 0, isDown: false, tools: TOOLS };
  const clock = new FakeClock();
  const definitions = {
    get: async (name: string) => state.tools.find((one) => one.name === name || one.aliases?.includes(name)) ?? null,
    list: async () => ({ tools: state.tools, version: 1, stale: false }),
  } as unknown as DefinitionCache;
  const source = {
    getToolset: async (_tenant: string, name: string, version?: number) => {
      state.reads += 1;
      if (state.isDown) throw new ToolError('SERVICE_UNAVAILABLE');
      const { toolset } = state;
      return name === toolset?.name && (version ?? toolset.version) === toolset.version
        ? structuredClone(toolset)
        : null;
    },
  };
  const toolsets = new Toolsets(source, definitions, clock, 30_000);
  return { state, clock, definitions, toolsets, list: new ToolList(definitions, toolsets) };
}

const FIND: ToolsetSpec = {
  overrides: { crm_find: { name: 'find', description: 'Finds', preset: { region: 'eu' }, defaults: { limit: 5 } } },
};

describe('a selection', () => {
  const shown = (spec: ToolsetSpec) => new ToolsetView(served(spec)).list(TOOLS).map(({ name }) => name);

  it.each<[ToolsetSpec, string[]]>([
    [{}, ['adder', 'crm_delete', 'crm_find']],
    [{ include: {} }, []],
    [{ include: { tools: ['crm_*'] } }, ['crm_delete', 'crm_find']],
    [{ include: { tags: ['crm'], categories: ['sales'] } }, ['crm_delete', 'crm_find']],
    [{ include: { sources: ['mcp/crm'] }, exclude: { tools: ['*_delete'] } }, ['crm_find']],
    [{ include: { sources: ['builtin/*'] } }, ['adder']],
    [{ read_only: true }, ['adder', 'crm_find']],
    [{ order: ['find', 'crm_delete'], ...FIND }, ['find', 'crm_delete', 'adder']],
    [{ overrides: { crm_find: { name: 'adder' } } }, ['adder', 'crm_delete']],
  ])('%j shows %j', (spec, names) => expect(shown(spec)).toEqual(names));

  it('takes a name from the tool that has it', () => {
    const [first] = new ToolsetView(served({ overrides: { crm_find: { name: 'adder' } } })).list(TOOLS);
    expect(first?.description).toBe('Tool crm_find');
  });

  it('leaves preset and hidden arguments out of schema and examples, and requires no argument with a default', () => {
    const found = new ToolsetView(served(FIND)).list(TOOLS).find(({ name }) => name === 'find');
    expect(found).toMatchObject({ description: 'Finds', aliases: undefined, input_examples: [{ name: 'Bob' }] });
    expect(found?.input_schema).toEqual({
      type: 'object',
      properties: { name: { type: 'string' }, limit: { type: 'integer', default: 5 } },
      required: ['name'],
    });
  });
});

describe('the toolset of a request', () => {
  it('is the one it names, at the current version; nothing is read if it names none', async () => {
    const { state, toolsets } = setUp(served({}));
    const plain = aPrincipal();
    expect(toolsets.select(plain, undefined)).toBe(plain);
    expect(state.reads).toBe(0);
    expect((await toolsets.select(plain, 'own')).toolset).toEqual({ name: 'own', version: 1 });
    await expect(toolsets.select(plain, 'other')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(toolsets.select(plain, 'own@2')).rejects.toMatchObject({ message: "No toolset 'own@2'" });
    for (const text of ['', 'a b', 'own@', 'own@0', 'own@1@2', 'own@x'])
      expect(() => readToolsetRef(text), text).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }));
  });

  it('is always that of its credential', async () => {
    const { toolsets } = setUp(served({}));
    const bound = aPrincipal({ toolset: { name: 'own' } });
    expect((await toolsets.select(bound, undefined)).toolset).toEqual({ name: 'own', version: 1 });
    expect((await toolsets.select(bound, 'own')).toolset).toEqual({ name: 'own', version: 1 });
    for (const other of ['other', 'own@1'])
      await expect(toolsets.select(bound, other)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
  });

  it('is read once until it changes, and served while the registry is unavailable', async () => {
    const { state, toolsets, clock, list } = setUp(served({}));
    const principal = await toolsets.select(aPrincipal(), 'own');
    const first = await list.all(principal);
    expect((await list.all(principal)).tools).toBe(first.tools);
    await toolsets.select(aPrincipal(), 'own');
    expect(state.reads).toBe(1);
    toolsets.invalidate();
    expect((await list.all(principal)).tools).toBe(first.tools);
    expect(state.reads).toBe(2);
    state.isDown = true;
    clock.advance(60_000);
    expect((await list.all(principal)).tools).toBe(first.tools);
    state.isDown = false;
    state.toolset = null;
    toolsets.invalidate();
    await expect(list.all(principal)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('a call in a toolset', () => {
  const request = (toolName: string, principal: Principal): CallRequest =>
    aRequest(new FakeClock(), { toolName, principal });
  const engineOf = ({ toolsets, definitions, list }: ReturnType<typeof setUp>) => {
    const seen: Call[] = [];
    const executor = new ScriptedExecutor((call) => {
      seen.push(call);
      return failedReply('TOOL_ERROR', { message: 'crm_find: no crm_find_all', details: { tool: 'crm_find' } });
    });
    const { ports, audit, clock } = anEngine({}, executor);
    const call = makeExecuteCall({ ...ports, catalog: new RegistryResolver(definitions, toolsets, list) });
    const aCall = (toolName: string, principal: Principal): CallRequest =>
      aRequest(clock, { toolName, rawArguments: { name: 'x' }, principal });
    return { call, aCall, seen, audit };
  };

  it('reaches the engine under the original name, and its errors have the shown one', async () => {
    const fleet = setUp(served(FIND));
    const principal = await fleet.toolsets.select(aPrincipal(), 'own');
    const { call, aCall, seen, audit } = engineOf(fleet);
    expect((await call(aCall('find', principal))).failure).toMatchObject({
      message: 'find: no crm_find_all',
      details: { tool: 'find' },
    });
    expect(audit.records[0]).toMatchObject({ error: 'crm_find: no crm_find_all' });
    const made = seen[0]!.request;
    expect(made).toMatchObject({
      target: {
        toolName: 'crm_find',
        view: {
          toolset: { name: 'own', version: 1 },
          shownName: 'find',
          arguments: { preset: { region: 'eu' }, defaults: { limit: 5 }, hidden: ['region'] },
        },
      },
    });
    // A request that was accepted before is checked again.
    expect(await call(made)).toMatchObject({ failure: { code: 'TOOL_ERROR' } });
    for (const name of ['crm_find', 'crm.find', 'nothing']) {
      const message = `Tool '${name}' not found in toolset 'own'${name === 'nothing' ? '' : '; did you mean find?'}`;
      await expect(call(aCall(name, principal))).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND', message });
    }
    expect(audit.records.at(-1)).toMatchObject({ ok: false, code: 'TOOL_NOT_FOUND' });
  });

  it('is refused while the definition is not the one that the override was approved for', async () => {
    const { state, toolsets, list } = setUp(served(FIND));
    const principal = await toolsets.select(aPrincipal(), 'own');
    state.tools = TOOLS.map((one) => (one.name === 'crm_find' ? { ...one, revision: 'crm_find-2' } : one));
    expect((await list.all(principal)).tools.map(({ name }) => name)).toEqual(['adder', 'crm_delete']);
    await expect(list.one(principal, 'find')).rejects.toMatchObject({ code: 'TOOL_QUARANTINED' });
    await expect(toolsets.resolve(request('find', principal))).rejects.toMatchObject({ code: 'TOOL_QUARANTINED' });
    state.toolset = served(FIND, { approved: { crm_find: 'crm_find-2' } });
    toolsets.invalidate();
    expect(await list.one(principal, 'find')).toMatchObject({ name: 'find', revision: 'crm_find-2' });
  });

  it('of a tool that acts for the caller is limited to the tools that it names', async () => {
    const { toolsets, list } = setUp(served(FIND));
    const principal = aPrincipal({ toolset: { name: 'own', version: 1, tools: ['find'] } });
    expect((await list.all(principal)).tools.map(({ name }) => name)).toEqual(['find']);
    await expect(toolsets.resolve(request('adder', principal))).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    expect(await toolsets.resolve(request('find', principal))).toMatchObject({ target: { toolName: 'crm_find' } });
  });

  it('pages its list in its own order', async () => {
    const { toolsets, list } = setUp(served({ order: ['find'], ...FIND }));
    const principal = await toolsets.select(aPrincipal(), 'own');
    const first = await list.page(principal, { limit: 2 });
    const rest = await list.page(principal, { limit: 2, cursor: first.next! });
    expect([first, rest].map(({ tools }) => tools.map(({ name }) => name))).toEqual([
      ['find', 'adder'],
      ['crm_delete'],
    ]);
  });
});
