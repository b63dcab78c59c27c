import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import { globMatcher } from './glob.js';
import { LocalWorkspaceStore } from './local-workspace-store.js';
import { caller, faultOf, STORES } from './workspaces.fixture.js';
import { workspacePath } from './workspace-path.js';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'toolfleet-files-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

describe.each(STORES)('file tools on a %s', (_name, makeIn) => {
  const make = () => makeIn(root);
  let call: ReturnType<typeof caller>;
  let stop: (() => Promise<void>) | undefined;
  beforeEach(async () => {
    const made = await make();
    stop = made.stop;
    call = caller(made.store);
    await call('file_write', { path: 'src/main.py', content: 'print(1)\nprint(2)\nprint(3)\n' });
  });
  afterEach(() => stop?.());

  it('reads what was written, by lines', async () => {
    expect(await call('file_read', { path: 'src/main.py' })).toMatchObject({
      content: 'print(1)\nprint(2)\nprint(3)\n',
      lines: 4,
      size: 27,
      more: false,
    });
    expect(await call('file_read', { path: './src//main.py', offset: 2, limit: 1 })).toMatchObject({
      content: 'print(2)',
      offset: 2,
      more: true,
    });
    expect(await call('file_read', { path: 'src/main.py', encoding: 'base64' })).toMatchObject({
      content: Buffer.from('print(1)\nprint(2)\nprint(3)\n').toString('base64'),
    });
  });

  it('keeps names with signs of every kind', async () => {
    for (const name of ['a & b <c>.txt', 'ünï 日本.txt', "it's+100%.txt", '#?.txt', '(a)*!~=@:,;$&[].txt']) {
      await call('file_write', { path: `odd/${name}`, content: name });
      expect(await call('file_read', { path: `odd/${name}` })).toMatchObject({ content: name });
      expect((await call('file_list', { path: 'odd' })).entries).toContainEqual(
        expect.objectContaining({ path: `odd/${name}` }),
      );
    }
  });

  it('writes in three modes', async () => {
    await call('file_write', { path: 'a.txt', content: 'one' });
    await call('file_write', { path: 'a.txt', content: ' two', mode: 'append' });
    await call('file_write', { path: 'new/log.txt', content: 'x', mode: 'append' });
    expect(await call('file_read', { path: 'a.txt' })).toMatchObject({ content: 'one two' });
    expect(await faultOf(call('file_write', { path: 'a.txt', content: '', mode: 'create' }))).toBe(
      'Already exists: a.txt',
    );
    await call('file_write', { path: 'a.txt', content: 'three' });
    expect(await call('file_read', { path: 'a.txt' })).toMatchObject({ content: 'three' });
  });

  it('keeps encodings', async () => {
    await call('file_write', { path: 'latin.txt', content: 'café', encoding: 'latin1' });
    expect(await call('file_read', { path: 'latin.txt', encoding: 'latin1' })).toMatchObject({
      content: 'café',
      size: 4,
    });
    expect(await faultOf(call('file_read', { path: 'latin.txt' }))).toMatch(/not utf-8 text/);
    await call('file_write', { path: 'b.bin', content: 'AAH/', encoding: 'base64' });
    expect(await call('file_read', { path: 'b.bin', encoding: 'hex' })).toMatchObject({ content: '0001ff' });
    expect(await faultOf(call('file_write', { path: 'x', content: '日本', encoding: 'latin1' }))).toMatch(
      /cannot be written as latin1/,
    );
    expect(await faultOf(call('file_write', { path: 'x', content: '?!', encoding: 'base64' }))).toMatch(
      /cannot be written as base64/,
    );
    expect(await faultOf(call('file_read', { path: 'b.bin', encoding: 'klingon' }))).toMatch(/Unknown encoding/);
  });

  it('edits exactly one place, or all when asked', async () => {
    expect(await faultOf(call('file_edit', { path: 'src/main.py', old_text: 'print', new_text: 'show' }))).toMatch(
      /occurs 3 times/,
    );
    expect(await faultOf(call('file_edit', { path: 'src/main.py', old_text: 'nothing', new_text: 'x' }))).toMatch(
      /does not occur/,
    );
    expect(
      await call('file_edit', { path: 'src/main.py', old_text: 'print(2)', new_text: 'print("$&")' }),
    ).toMatchObject({ replaced: 1 });
    expect(
      await call('file_edit', { path: 'src/main.py', old_text: 'print', new_text: 'show', replace_all: true }),
    ).toMatchObject({ replaced: 3 });
    expect(await call('file_read', { path: 'src/main.py' })).toMatchObject({
      content: 'show(1)\nshow("$&")\nshow(3)\n',
    });
  });

  it('lists with patterns', async () => {
    await call('file_write', { path: 'README.md', content: '#' });
    await call('file_write', { path: 'src/lib/util.py', content: '' });
    await call('file_mkdir', { path: 'empty/inner' });
    const paths = async (args: JsonObject) =>
      ((await call('file_list', args)).entries as JsonObject[]).map((entry) => entry.path);
    expect(await paths({})).toEqual(['README.md', 'empty', 'src']);
    expect(await paths({ recursive: true })).toEqual([
      'README.md',
      'empty',
      'empty/inner',
      'src',
      'src/lib',
      'src/lib/util.py',
      'src/main.py',
    ]);
    expect(await paths({ pattern: '**/*.py' })).toEqual(['src/lib/util.py', 'src/main.py']);
    expect(await paths({ path: 'src', pattern: '*.py' })).toEqual(['src/main.py']);
    expect(await faultOf(call('file_list', { path: 'nowhere' }))).toMatch(/No such file or directory: nowhere/);
  });

  it('tells what exists, makes and deletes', async () => {
    expect(await call('file_exists', { path: 'src' })).toMatchObject({ exists: true, type: 'directory' });
    expect(await call('file_exists', { path: 'src/main.py' })).toMatchObject({ exists: true, type: 'file', size: 27 });
    expect(await call('file_exists', { path: 'no' })).toMatchObject({ exists: false });
    expect(await faultOf(call('file_delete', { path: 'src' }))).toMatch(/not empty/);
    expect((await call('file_delete', { path: 'src', recursive: true })).deleted).toBeGreaterThan(0);
    expect(await call('file_exists', { path: 'src/main.py' })).toMatchObject({ exists: false });
    expect(await faultOf(call('file_delete', { path: 'src' }))).toMatch(/No such file|Project not found/);
  });

  it('searches lines', async () => {
    expect(await call('file_search', { query: 'PRINT(2', ignore_case: true })).toMatchObject({
      matches: [{ path: 'src/main.py', line: 2, text: 'print(2)' }],
    });
    expect(await call('file_search', { query: 'print\\((1|3)\\)', use_regex: true, pattern: '*.py' })).toMatchObject({
      count: 2,
      more: false,
    });
    expect(await call('file_search', { query: 'print', max_results: 1 })).toMatchObject({ count: 1, more: true });
    expect(await faultOf(call('file_search', { query: '(', use_regex: true }))).toMatch(/Bad regular expression/);
  });

  it('keeps file and directory apart', async () => {
    expect(await faultOf(call('file_read', { path: 'src' }))).toMatch(/Not a file/);
    expect(await faultOf(call('file_write', { path: 'src/main.py/x', content: '' }))).toMatch(/Not a directory/);
    expect(await faultOf(call('file_write', { path: 'src', content: '' }))).toMatch(/Not a file/);
  });

  it('keeps tenants, projects and sessions apart', async () => {
    const other = caller((await make()).store);
    await other('file_write', { path: 'a', content: '1' }, { project_id: 'one' });
    const contexts: JsonObject[] = [
      { project_id: 'two' },
      { project_id: 'one', tenant_id: 'evil' },
      { project_id: '../acme/p-one' },
    ];
    for (const context of contexts) {
      expect(await faultOf(other('file_read', { path: 'a' }, context))).toMatch(/^Project not found: /);
    }
    expect(await faultOf(other('file_read', { path: 'a' }, { session_id: 'one' }))).toBe(
      'No such file or directory: a',
    );
    expect(await other('file_list', {}, { session_id: 'one' })).toMatchObject({ entries: [], count: 0 });
    expect(await faultOf(other('file_read', { path: 'a' }, {}))).toBe('project_id is required for file operations');
  });
});

describe('paths', () => {
  it.each([
    '../../../etc/passwd',
    '/etc/passwd',
    'src/../../x',
    '..',
    'a/..',
    'C:\\x',
    'a\\..\\b',
    '~root',
    '/',
    '//x',
    'src/..',
  ])('%s is refused', (path) => {
    expect(() => workspacePath(path)).toThrow('Path is outside project directory');
  });

  it.each(['a\0b', 'a\nb', 'x'.repeat(300), `${'d/'.repeat(40)}x`, '\ud800'])('%j is refused', (path) => {
    expect(() => workspacePath(path)).toThrow(/Path/);
  });

  it('never lets a path out, whatever its pieces', () => {
    const piece = fc.constantFrom('..', '.', '', 'a', '%2e%2e', '．．', 'b ', '...', '/', '\\');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const path = pieces.join('/');
        let names: string[] = [];
        try {
          names = workspacePath(path);
        } catch (error) {
          expect(isToolError(error)).toBe(true);
        }
        expect(
          names.every(
            (name) => name !== '..' && name !== '.' && name !== '' && !name.includes('/') && !name.includes('\\'),
          ),
        ).toBe(true);
      }),
    );
  });
});

describe('a local volume that holds traps', () => {
  let folder: string;
  let home: string;
  let call: ReturnType<typeof caller>;
  beforeEach(async () => {
    folder = await mkdtemp(join(root, 'traps-'));
    home = join(folder, 'store', 'acme', 'p-shop');
    await mkdir(home, { recursive: true });
    await mkdir(join(folder, 'secret'));
    await writeFile(join(folder, 'secret', 'key'), 'top secret');
    call = caller(new LocalWorkspaceStore(join(folder, 'store')));
  });

  it.each<[string, string, JsonObject]>([
    ['a link to a file', 'file_read', { path: 'link' }],
    ['a link to a directory', 'file_read', { path: 'dir/key' }],
    ['a link in the middle', 'file_write', { path: 'dir/new', content: 'x' }],
    ['appending to a link', 'file_write', { path: 'link', content: 'x', mode: 'append' }],
    ['replacing a link', 'file_write', { path: 'link', content: 'x' }],
    ['editing through a link', 'file_edit', { path: 'link', old_text: 'top', new_text: 'x' }],
    ['listing a link', 'file_list', { path: 'dir' }],
    ['making below a link', 'file_mkdir', { path: 'dir/x' }],
    ['deleting below a link', 'file_delete', { path: 'dir/key' }],
  ])('%s does not lead out', async (_name, tool, args) => {
    await symlink(join(folder, 'secret', 'key'), join(home, 'link'));
    await symlink(join(folder, 'secret'), join(home, 'dir'));
    expect(await faultOf(call(tool, args))).toMatch(/Path is outside project directory/);
    expect(await readFile(join(folder, 'secret', 'key'), 'utf8')).toBe('top secret');
  });

  it('shows, searches and deletes no link’s target', async () => {
    await symlink(join(folder, 'secret'), join(home, 'dir'));
    await writeFile(join(home, 'own'), 'top level');
    expect((await call('file_list', { recursive: true })).entries).toMatchObject([{ path: 'own' }]);
    expect(await call('file_search', { query: 'top' })).toMatchObject({ count: 1 });
    expect(await call('file_delete', { path: 'dir' })).toMatchObject({ deleted: 1 });
    expect(await readFile(join(folder, 'secret', 'key'), 'utf8')).toBe('top secret');
  });

  it('does not wait at a pipe', async () => {
    execFileSync('mkfifo', [join(home, 'pipe')]);
    expect(await faultOf(call('file_read', { path: 'pipe' }))).toMatch(/Not a file/);
    expect(await faultOf(call('file_write', { path: 'pipe', content: 'x', mode: 'append' }))).toMatch(/Not a file/);
  });

  it('survives a directory that is swapped for a link all the time', async () => {
    await mkdir(join(home, 'd'));
    await writeFile(join(home, 'd', 'key'), 'harmless');
    await symlink(join(folder, 'secret'), join(home, 'trap'));
    let stopped = false;
    const swapping = (async () => {
      while (!stopped) {
        await rename(join(home, 'd'), join(home, 'kept'));
        await rename(join(home, 'trap'), join(home, 'd'));
        await rename(join(home, 'd'), join(home, 'trap'));
        await rename(join(home, 'kept'), join(home, 'd'));
      }
    })();
    const seen = new Set<unknown>();
    for (let round = 0; round < 300; round++)
      seen.add(
        await call('file_read', { path: 'd/key' }).then(
          (output) => output.content,
          (error: Error) => error.message,
        ),
      );
    stopped = true;
    await swapping;
    expect(seen.has('top secret')).toBe(false);
  });
});

describe('glob', () => {
  it.each<[string, string, boolean]>([
    ['*.md', 'a.md', true],
    ['*.md', 'docs/a.md', true],
    ['docs/*.md', 'docs/a.md', true],
    ['docs/*.md', 'docs/x/a.md', false],
    ['**/*.md', 'a.md', true],
    ['**/x/**', 'a/x/b/c', true],
    ['a?c', 'abc', true],
    ['[a-c]x', 'bx', true],
    ['[!a-c]x', 'bx', false],
    ['*.{ts,js}', 'm.js', true],
    ['**', 'a/b', true],
    ['a.md', 'xa.md', false],
    ['*', '.hidden', true],
  ])('%s on %s is %s', (pattern, path, expected) => {
    expect(globMatcher(pattern)(path.split('/'))).toBe(expected);
  });

  it('takes no time for patterns that explode as regular expressions', () => {
    expect(globMatcher('*a'.repeat(90))(['a'.repeat(250) + 'b'])).toBe(false);
    expect(globMatcher('**/'.repeat(60) + 'x')(Array.from({ length: 32 }, () => 'a'))).toBe(false);
    expect(() => globMatcher('{a,b}'.repeat(10))).toThrow(/alternatives/);
  });
});
