import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { LocalWorkspaceStore } from './local-workspace-store.js';
import { caller, catchToolError, runBoundedWork } from '../../spec/workspaces.fixture.js';

runBoundedWork();

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'toolfleet-files-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

describe('a local volume with links and pipes', () => {
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
    expect(await catchToolError(call(tool, args))).toMatch(/Path is outside project directory/);
    expect(await readFile(join(folder, 'secret', 'key'), 'utf8')).toBe('top secret');
  });

  it('does not list, search or delete the target of a link', async () => {
    await symlink(join(folder, 'secret'), join(home, 'dir'));
    await writeFile(join(home, 'own'), 'top level');
    expect((await call('file_list', { recursive: true })).entries).toMatchObject([{ path: 'own' }]);
    expect(await call('file_search', { query: 'top' })).toMatchObject({ count: 1 });
    expect(await call('file_delete', { path: 'dir' })).toMatchObject({ deleted: 1 });
    expect(await readFile(join(folder, 'secret', 'key'), 'utf8')).toBe('top secret');
  });

  it('does not block on a pipe', async () => {
    execFileSync('mkfifo', [join(home, 'pipe')]);
    expect(await catchToolError(call('file_read', { path: 'pipe' }))).toMatch(/Not a file/);
    expect(await catchToolError(call('file_write', { path: 'pipe', content: 'x', mode: 'append' }))).toMatch(
      /Not a file/,
    );
  });

  it('resists a directory that is constantly swapped for a link', async () => {
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
