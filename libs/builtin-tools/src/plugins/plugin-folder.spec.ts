import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SystemClock } from '@toolfleet/resilience';
import type { BuiltinTool } from '../builtin-tool.js';
import { definitionOf } from '../definition-of.js';
import { BoundedWork } from '../bounded/bounded-work.js';
import { runTool } from '../run-tool.fixture.js';
import { PluginFolder } from './plugin-folder.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const source = (name: string, more = '') => `export default ({ defineTool, ok }) => defineTool({
  name: '${name}', description: 'd', category: 'custom', inputSchema: { type: 'object' }, ${more}
  handler: () => ok(1, 'one'),
});`;
let touched = 1_700_000_000;
async function put(file: string, text: string): Promise<void> {
  await writeFile(join(folder, file), text);
  touched += 10; // a change within one tick of the file system's clock is a change, too
  await utimes(join(folder, file), touched, touched);
}

describe('plugin folder', () => {
  it('loads files once, again when they change, and tells what is gone', async () => {
    const plugins = new PluginFolder(folder, new Set(['calculator']));
    await put('a.tool.mjs', source('a'));
    await put('notes.txt', 'no tool');
    const first = await plugins.look();
    expect(first.added.map((tool) => tool.metadata.name)).toEqual(['a']);
    expect((await runTool(first.added[0] as never, {})).text).toBe('one');
    const bindingOf = (tool: BuiltinTool) =>
      definitionOf(tool, { kind: 'plugin', name: 'x' }, { rateLimits: {}, costsMicroUsd: {} }).binding;
    expect(bindingOf(first.added[0]!)).toMatchObject({ handler: 'a', build: expect.stringMatching(/^[0-9a-f]{16}$/) });
    // The same definition with other code is another revision: results of the old code are not shown from the cache.
    await put('a.tool.mjs', source('a').replace("'one'", "'two'"));
    const changed = await plugins.look();
    expect(bindingOf(changed.added[0]!)).not.toEqual(bindingOf(first.added[0]!));
    expect(await plugins.look()).toEqual({ added: [], removed: [], faults: [] });
    await put('a.tool.mjs', source('renamed'));
    const second = await plugins.look();
    expect([second.added.map((tool) => tool.metadata.name), second.removed]).toEqual([['renamed'], ['a']]);
    await rm(join(folder, 'a.tool.mjs'));
    expect(await plugins.look()).toEqual({ added: [], removed: ['renamed'], faults: [] });
  });

  it.each<[string, string, RegExp]>([
    ['no JavaScript', 'this is not', /./],
    ['no default export', 'export const x = 1;', /no default export/],
    ['something else', 'export default { a: 1 };', /not what defineTool returns/],
    ['a builtin name', source('calculator'), /name of a builtin tool/],
    ['a bad name', source('a b'), /must match/],
    [
      'a bad schema',
      `export default ({ defineTool }) => defineTool({ name: 'x', description: 'd', category: 'c', inputSchema: { type: 'object', properties: { a: { type: 'nonsense' } } }, handler: () => null });`,
      /Schema refused/,
    ],
    [
      'no object schema',
      `export default ({ defineTool }) => defineTool({ name: 'x', description: 'd', category: 'c', inputSchema: { type: 'string' }, handler: () => null });`,
      /must have "type": "object"/,
    ],
    [
      'no description',
      `export default ({ defineTool }) => defineTool({ name: 'x', category: 'c', inputSchema: { type: 'object' }, handler: () => null });`,
      /no description/,
    ],
    ['an unknown toolset', source('x', "toolset: 'nowhere',"), /unknown toolset/],
    ['a throwing file', 'throw new Error("boom");', /boom/],
  ])('says what is wrong with %s, once', async (_name, text, message) => {
    const plugins = new PluginFolder(folder, new Set(['calculator']));
    await put('bad.tool.mjs', text);
    expect((await plugins.look()).faults).toMatchObject([
      { file: 'bad.tool.mjs', message: expect.stringMatching(message) as unknown },
    ]);
    expect((await plugins.look()).faults).toEqual([]);
    await rm(join(folder, 'bad.tool.mjs'));
  });

  it('refuses a name that another file has', async () => {
    const plugins = new PluginFolder(folder, new Set());
    await put('one.tool.mjs', source('same'));
    await put('two.tool.mjs', source('same'));
    expect(await plugins.look()).toMatchObject({
      faults: [{ file: 'two.tool.mjs', message: 'same is defined by one.tool.mjs already' }],
    });
  });

  it('hands over what a tool needs to use the services of its process', async () => {
    const plugins = new PluginFolder(folder, new Set());
    await put(
      'query.tool.mjs',
      `export default ({ defineTool, ok, boundsOf }) => defineTool({
        name: 'query', description: 'd', category: 'custom', inputSchema: { type: 'object' }, needs: ['bounded'],
        handler: async (_args, run) => ok(await run.bounded.run(
          { kind: 'jmespath', document: '{"a":42}', query: 'a' }, { timeoutMs: 5_000, ...boundsOf(run) }), ''),
      });`,
    );
    const { added } = await plugins.look();
    const bounded = new BoundedWork(new SystemClock());
    try {
      const query = added.find((tool) => tool.metadata.name === 'query');
      expect((await runTool(query as never, {}, { services: { bounded } })).output).toBe(42);
    } finally {
      bounded.close();
    }
  });

  it('takes a missing folder for an empty one', async () => {
    expect(await new PluginFolder(join(folder, 'nowhere'), new Set()).look()).toEqual({
      added: [],
      removed: [],
      faults: [],
    });
  });
});
