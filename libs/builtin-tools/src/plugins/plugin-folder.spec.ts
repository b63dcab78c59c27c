import { chmod, chown, lstat, mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock } from '@toolfleet/resilience';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BoundedWork } from '../bounded/bounded-work.js';
import type { BuiltinTool } from '../builtin-tool.js';
import { toToolDefinition } from '../manifest.js';
import { runTool } from '../../spec/run-tool.fixture.js';
import { distrustReason } from '@toolfleet/contracts/trusted-file';
import { PluginFolder } from './plugin-folder.js';
import { PluginProcesses } from './plugin-processes.js';

const processes = new PluginProcesses(new SystemClock(), { size: 2, heapMb: 128, environment: () => ({}) });
afterAll(() => processes.close());

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
  await writeFile(join(folder, file), text, { mode: 0o644 });
  touched += 10; // a change within one tick of the file system's clock also counts
  await utimes(join(folder, file), touched, touched);
}

describe('plugin folder', () => {
  it('loads files once, reloads them when they change, and reports deletions', async () => {
    const plugins = new PluginFolder(folder, new Set(['calculator']), processes);
    await put('a.tool.mjs', source('a'));
    await put('notes.txt', 'no tool');
    const first = await plugins.look();
    expect(first.added.map((tool) => tool.metadata.name)).toEqual(['a']);
    expect((await runTool(first.added[0] as never, {})).text).toBe('one');
    const bindingOf = (tool: BuiltinTool) =>
      toToolDefinition(tool, { kind: 'plugin', name: 'x' }, { rateLimits: {}, costsMicroUsd: {} }).binding;
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
    ['an unknown field', source('x', 'idempotnt: true,'), /unknown field idempotnt; did you mean idempotent\?/],
    ['a misspelled handler', source('x').replace('handler', 'handlr'), /unknown field handlr; did you mean handler\?/],
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
    const plugins = new PluginFolder(folder, new Set(['calculator']), processes);
    await put('bad.tool.mjs', text);
    expect((await plugins.look()).faults).toMatchObject([
      { file: 'bad.tool.mjs', message: expect.stringMatching(message) as unknown },
    ]);
    expect((await plugins.look()).faults).toEqual([]);
    expect(plugins.faults()).toMatchObject([{ file: 'bad.tool.mjs' }]);
    await rm(join(folder, 'bad.tool.mjs'));
    await plugins.look();
    expect(plugins.faults()).toEqual([]);
  });

  it('refuses a name that another file uses', async () => {
    const plugins = new PluginFolder(folder, new Set(), processes);
    await put('one.tool.mjs', source('same'));
    await put('two.tool.mjs', source('same'));
    expect(await plugins.look()).toMatchObject({
      faults: [{ file: 'two.tool.mjs', message: 'same is already defined by one.tool.mjs' }],
    });
  });

  it('provides what a tool needs to use the services of its process', async () => {
    const plugins = new PluginFolder(folder, new Set(), processes);
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

  it('treats a missing folder as empty', async () => {
    expect(await new PluginFolder(join(folder, 'nowhere'), new Set(), processes).look()).toEqual({
      added: [],
      removed: [],
      faults: [],
    });
  });
});

describe('trust in plugin files', () => {
  let own: string;
  beforeAll(async () => {
    own = await mkdtemp(join(tmpdir(), 'toolfleet-plugin-trust-'));
  });
  afterAll(() => rm(own, { recursive: true, force: true }));

  const look = async (plugins: PluginFolder) => {
    const { added, removed, faults } = await plugins.look();
    return { added: added.map((tool) => tool.metadata.name), removed, faults: faults.map(({ message }) => message) };
  };
  const NOTHING = { added: [], removed: [], faults: [] };

  it('reports a file that others may write once, and keeps its previous version', async () => {
    const file = join(own, 'x.tool.mjs');
    await writeFile(file, source('first'), { mode: 0o644 });
    const plugins = new PluginFolder(own, new Set(), processes);
    expect(await look(plugins)).toEqual({ ...NOTHING, added: ['first'] });
    await writeFile(file, source('second_version'), { mode: 0o644 });
    await chmod(file, 0o646);
    expect(await look(plugins)).toEqual({
      ...NOTHING,
      faults: ['can be written by other users; run chmod go-w on it'],
    });
    expect(await look(plugins)).toEqual(NOTHING);
    await chmod(file, 0o644);
    expect(await look(plugins)).toEqual({ ...NOTHING, added: ['second_version'], removed: ['first'] });
    await rm(file);
  });

  it('does not follow symbolic links, as file or folder', async () => {
    const elsewhere = join(own, 'elsewhere');
    await mkdir(elsewhere, { mode: 0o755 });
    await writeFile(join(elsewhere, 'real.tool.mjs'), source('linked'), { mode: 0o644 });
    const linked = join(own, 'linked');
    await mkdir(linked, { mode: 0o755 });
    await symlink(join(elsewhere, 'real.tool.mjs'), join(linked, 'a.tool.mjs'));
    const refused = { ...NOTHING, faults: ['is a symbolic link; put the file itself here'] };
    expect(await look(new PluginFolder(linked, new Set(), processes))).toEqual(refused);
    await symlink(elsewhere, join(own, 'folder'));
    const link = new PluginFolder(join(own, 'folder'), new Set(), processes);
    expect(await look(link)).toEqual(refused);
    expect(await look(link)).toEqual(NOTHING);
    expect((await look(new PluginFolder(elsewhere, new Set(), processes))).added).toEqual(['linked']);
  });

  it('reads nothing from a folder that others may write to', async () => {
    const open = join(own, 'open');
    await mkdir(open, { mode: 0o755 });
    await writeFile(join(open, 'a.tool.mjs'), source('a'), { mode: 0o644 });
    await chmod(open, 0o777);
    const plugins = new PluginFolder(open, new Set(), processes);
    expect(await look(plugins)).toEqual({
      ...NOTHING,
      faults: ['can be written by other users; run chmod go-w on it'],
    });
    await chmod(open, 0o755);
    expect((await look(plugins)).added).toEqual(['a']);
  });

  it.runIf(process.getuid?.() === 0)('refuses a file of another user', async () => {
    const foreign = join(own, 'foreign');
    await mkdir(foreign, { mode: 0o755 });
    await writeFile(join(foreign, 'a.tool.mjs'), source('a'), { mode: 0o644 });
    await chown(join(foreign, 'a.tool.mjs'), 12_345, 12_345);
    expect((await look(new PluginFolder(foreign, new Set(), processes))).faults).toEqual([
      expect.stringMatching(/belongs to user 12345/),
    ]);
  });

  it('checks the owner and accepts the private group of a user', async () => {
    const file = join(own, 'owner.tool.mjs');
    await writeFile(file, source('a'), { mode: 0o644 });
    await chmod(file, 0o664);
    const stats = await lstat(file);
    const as = (uid: number, gid: number) => Object.assign(Object.create(stats) as typeof stats, { uid, gid });
    expect(distrustReason(as(1000, 1000), 'file', 1000)).toBeNull();
    expect(distrustReason(as(1000, 100), 'file', 1000)).toMatch(/written by other users/);
    expect(distrustReason(as(0, 0), 'file', 1000)).toMatch(/written by other users/);
    expect(distrustReason(as(1001, 1001), 'file', 1000)).toMatch(/belongs to user 1001/);
    expect(distrustReason(as(1001, 1001), 'file', 0)).toMatch(/belongs to user 1001/);
  });
});
