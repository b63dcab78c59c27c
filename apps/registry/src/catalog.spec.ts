import { describe, expect, it } from 'vitest';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { FakeClock } from '@toolfleet/testing';
import { Catalog } from './catalog.js';
import type { StoredTool } from './definition-store.js';
import { MemoryDefinitionStore } from '../spec/memory-definition-store.js';

const tool = (name: string, more: Partial<ToolDefinition> = {}): StoredTool => ({
  key: name,
  owner: 'builtin/x',
  revision: 'r1',
  definition: { name, description: name, category: 'data', binding: { kind: 'python' }, ...more } as ToolDefinition,
});

async function catalogOf(
  tools: StoredTool[],
): Promise<{ catalog: Catalog; store: MemoryDefinitionStore; clock: FakeClock }> {
  const clock = new FakeClock();
  const store = new MemoryDefinitionStore(clock);
  await store.put(
    'builtin/x',
    tools.map((one) => ({ tool: one })),
  );
  const catalog = new Catalog(store, clock);
  await catalog.refresh();
  return { catalog, store, clock };
}

describe('Catalog', () => {
  it('lists by name in byte order, in pages that fit together', async () => {
    const names = ['b', 'Z', 'a_1', 'a-1', 'a1', '_x', '9'];
    const { catalog } = await catalogOf(names.map((name) => tool(name)));
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = catalog.list({ limit: 2, ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...page.tools.map((one) => one.name));
      cursor = page.next_cursor;
    } while (cursor !== undefined);
    expect(seen).toEqual(['9', 'Z', '_x', 'a-1', 'a1', 'a_1', 'b']);
  });

  it('lists what changed for a tenant since a version, and names the rest', async () => {
    const names = Array.from({ length: 1_000 }, (_, at) => `t${String(at).padStart(3, '0')}`);
    const { catalog, store } = await catalogOf(names.map((name) => tool(name, { description: 'x'.repeat(1_000) })));
    const all = { limit: 1_000 };
    const first = catalog.list(all);
    expect([first.tools.length, first.unchanged]).toEqual([1_000, undefined]);
    await store.put('builtin/x', [{ tool: { ...tool('t500'), revision: 'r2' } }]);
    await catalog.refresh();
    const changed = catalog.list({ ...all, since: first.version });
    expect(changed.tools).toMatchObject([{ name: 't500', revision: 'r2' }]);
    expect(changed.unchanged).toHaveLength(999);
    expect(JSON.stringify(changed).length / JSON.stringify(first).length).toBeLessThan(0.05);
    expect(catalog.list({ ...all, since: changed.version }).tools).toEqual([]);
    // Another replica does not know what was seen here.
    const other = new Catalog(store, new FakeClock());
    await other.refresh();
    expect(other.list({ ...all, since: first.version }).tools).toHaveLength(1_000);
  });

  it('filters by category or tag without losing the way to the next page', async () => {
    const tools = Array.from({ length: 10 }, (_, i) =>
      tool(`t${i}`, i % 2 ? { category: 'code' } : { tags: ['file'] }),
    );
    const { catalog } = await catalogOf(tools);
    const first = catalog.list({ category: 'code', limit: 3 });
    expect(first.tools.map((one) => one.name)).toEqual(['t1', 't3', 't5']);
    const rest = catalog.list({ category: 'code', limit: 3, cursor: first.next_cursor ?? '' });
    expect(rest.tools.map((one) => one.name)).toEqual(['t7', 't9']);
    expect(rest.next_cursor).toBeUndefined();
    expect(catalog.list({ category: 'file' }).tools).toHaveLength(5);
  });

  it('lists prompts and resources apart from tools, those of a tenant for it alone', async () => {
    const mcp = { kind: 'mcp', server: 's', transport: 'stdio', url: '', remoteName: 's' } as const;
    const held = { reason: 'changed', sinceAt: 0, pendingRevision: 'r2', wasApproved: true };
    const prompt = (name: string) => tool(name, { binding: { ...mcp, method: 'prompts/get' } });
    const changed = prompt('prompt:changed');
    const { catalog } = await catalogOf([
      tool('a', { binding: mcp }),
      prompt('prompt:a'),
      { ...changed, quarantine: { ...held, pending: changed.definition } },
      tool('resource:acme', { binding: { ...mcp, method: 'resources/read' }, tenant: 'acme' }),
      tool('z'),
    ]);
    const names = (query: object) => catalog.list(query).tools.map(({ name }) => name);
    expect([names({}), names({ tenant_id: 'acme' })]).toEqual([
      ['a', 'z'],
      ['a', 'z'],
    ]);
    expect([names({ features: true }), names({ features: true, tenant_id: 'acme' })]).toEqual([
      ['prompt:a'],
      ['prompt:a', 'resource:acme'],
    ]);
  });

  it('bounds a page by its weight', async () => {
    const heavy = Array.from({ length: 6 }, (_, i) => tool(`t${i}`, { description: 'x'.repeat(1_500_000) }));
    const { catalog } = await catalogOf(heavy);
    const page = catalog.list({});
    expect(page.tools).toHaveLength(2);
    expect(page.next_cursor).toBe('t1');
  });

  it('resolves aliases, names first, the same whatever the order of arrival', async () => {
    const { catalog } = await catalogOf([
      tool('b', { aliases: ['pets.find', 'x'] }),
      tool('a', { aliases: ['x', 'b'] }),
      tool('execute_python', { aliases: ['python_executor'] }),
    ]);
    expect(catalog.get('pets.find', undefined)?.name).toBe('b');
    expect(catalog.get('x', undefined)?.name).toBe('a');
    expect(catalog.get('b', undefined)?.name).toBe('b');
    expect(catalog.get('python_executor', 'acme')?.name).toBe('execute_python');
    expect(catalog.get('nothing', undefined)).toBeNull();
    expect(catalog.list({}).tools).toHaveLength(3);
  });

  it('answers from memory while the store is unavailable, and starts over when it was emptied', async () => {
    const { catalog, store } = await catalogOf([tool('a')]);
    const version = store.version.bind(store);
    store.version = () => Promise.reject(new Error('away'));
    await catalog.refresh();
    expect(catalog.get('a', undefined)?.name).toBe('a');
    store.version = version;
    const emptied = new MemoryDefinitionStore(new FakeClock());
    Object.assign(store, { changesSince: emptied.changesSince.bind(emptied), version: emptied.version.bind(emptied) });
    await catalog.refresh();
    expect(catalog.list({})).toEqual({ tools: [], version: 0 });
  });

  it('says that it cannot answer when it never read anything', async () => {
    const clock = new FakeClock();
    const store = new MemoryDefinitionStore(clock);
    store.version = () => Promise.reject(new Error('away'));
    store.changesSince = () => Promise.reject(new Error('away'));
    await expect(new Catalog(store, clock).refresh()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });
});
