import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { S3_KEY, S3_OF_YOUR_OWN, startS3 } from '@toolfleet/testing';
import { bucketOf, caller, catchToolError, inBucket, STORES, runBoundedWork } from '../../spec/workspaces.fixture.js';
import { SystemClock } from '@toolfleet/resilience';
import { Workspaces } from './workspaces.js';
import { DEFAULT_WORKSPACE_LIMITS } from './quota.js';

runBoundedWork();

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'toolfleet-files-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

it('writes nothing to a bucket that ignores conditions, where edits would be lost silently', async () => {
  const server = await startS3(1_000, false);
  const { store, stop } = inBucket({
    endpoint: server.endpoint,
    accessKeyId: S3_KEY.id,
    secretAccessKey: S3_KEY.secret,
  });
  await expect(caller(store)('file_write', { path: 'a.txt', content: 'one' })).rejects.toMatchObject({
    code: 'EXECUTION_FAILED',
    message: expect.stringContaining('ignores If-None-Match'),
  });
  expect(server.objects.size).toBe(0);
  await stop();
  await server.stop();
});

describe.each([...STORES, ...bucketOf(S3_OF_YOUR_OWN)])('file tools on a %s', (_name, makeIn) => {
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

  it('are removed with their tenant or user, and those of others stay', async () => {
    const { store, stop: stopIt } = await make();
    const workspaces = new Workspaces(store, new SystemClock());
    const write = (workspace: string) => store.write(workspace, ['deep', 'a.txt'], Buffer.from('x'), 'overwrite');
    for (const workspace of ['gone/p-one', 'gone/u-ann/s-1', 'gone/u-ann/s-2', 'gone/u-bob/s-1', 'goner/p-one'])
      await write(workspace);
    const files = async (tenantId: string, userId?: string) =>
      (await workspaces.purge({ tenantId, userId }, true, () => false)).files;
    expect(await files('gone', 'ann')).toBeGreaterThanOrEqual(2);
    const before = await files('gone');
    expect(await workspaces.purge({ tenantId: 'gone', userId: 'ann' }, false, () => true)).toEqual({
      files: 0,
      more: true,
    });
    expect((await workspaces.purge({ tenantId: 'gone', userId: 'ann' }, false, () => false)).more).toBe(false);
    expect([await files('gone', 'ann'), await files('gone')]).toEqual([0, before / 2]);
    await workspaces.purge({ tenantId: 'gone' }, false, () => false);
    expect([await files('gone'), await store.exists('gone/p-one')]).toEqual([0, false]);
    expect(await files('goner')).toBeGreaterThan(0);
    await stopIt?.();
  });

  it('supports names with special characters', async () => {
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
    expect(await catchToolError(call('file_write', { path: 'a.txt', content: '', mode: 'create' }))).toBe(
      'Already exists: a.txt',
    );
    await call('file_write', { path: 'a.txt', content: 'three' });
    expect(await call('file_read', { path: 'a.txt' })).toMatchObject({ content: 'three' });
  });

  it('supports encodings', async () => {
    await call('file_write', { path: 'latin.txt', content: 'café', encoding: 'latin1' });
    expect(await call('file_read', { path: 'latin.txt', encoding: 'latin1' })).toMatchObject({
      content: 'café',
      size: 4,
    });
    expect(await catchToolError(call('file_read', { path: 'latin.txt' }))).toMatch(/not utf-8 text/);
    await call('file_write', { path: 'b.bin', content: 'AAH/', encoding: 'base64' });
    expect(await call('file_read', { path: 'b.bin', encoding: 'hex' })).toMatchObject({ content: '0001ff' });
    expect(await catchToolError(call('file_write', { path: 'x', content: '日本', encoding: 'latin1' }))).toMatch(
      /cannot be written as latin1/,
    );
    expect(await catchToolError(call('file_write', { path: 'x', content: '?!', encoding: 'base64' }))).toMatch(
      /cannot be written as base64/,
    );
    expect(await catchToolError(call('file_read', { path: 'b.bin', encoding: 'klingon' }))).toMatch(/Unknown encoding/);
  });

  it('edits exactly one place, or all with replace_all', async () => {
    expect(
      await catchToolError(call('file_edit', { path: 'src/main.py', old_text: 'print', new_text: 'show' })),
    ).toMatch(/occurs 3 times/);
    expect(
      await catchToolError(call('file_edit', { path: 'src/main.py', old_text: 'nothing', new_text: 'x' })),
    ).toMatch(/does not occur/);
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
    expect(await catchToolError(call('file_list', { path: 'nowhere' }))).toMatch(/No such file or directory: nowhere/);
  });

  it('checks existence, creates and deletes', async () => {
    expect(await call('file_exists', { path: 'src' })).toMatchObject({ exists: true, type: 'directory' });
    expect(await call('file_exists', { path: 'src/main.py' })).toMatchObject({ exists: true, type: 'file', size: 27 });
    expect(await call('file_exists', { path: 'no' })).toMatchObject({ exists: false });
    expect(await catchToolError(call('file_delete', { path: 'src' }))).toMatch(/not empty/);
    expect((await call('file_delete', { path: 'src', recursive: true })).deleted).toBeGreaterThan(0);
    expect(await call('file_exists', { path: 'src/main.py' })).toMatchObject({ exists: false });
    expect(await catchToolError(call('file_delete', { path: 'src' }))).toMatch(/No such file|Project not found/);
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
    expect(await catchToolError(call('file_search', { query: '(', use_regex: true }))).toMatch(
      /Invalid regular expression/,
    );
  });

  it('accepts only linear-time patterns, and searches large files in a child process', async () => {
    await call('file_write', {
      path: 'long.txt',
      content: `${'a'.repeat(500_000)}\nfind me\n${'x\n'.repeat(100_000)}`,
    });
    expect(await call('file_search', { query: 'a*a*a*b', use_regex: true })).toMatchObject({ count: 0 });
    expect(await catchToolError(call('file_search', { query: '(?!z)a*a*a*b', use_regex: true }))).toMatch(
      /bounded time/,
    );
    expect(await call('file_search', { query: 'find', pattern: 'long.txt' })).toMatchObject({
      matches: [{ path: 'long.txt', line: 2, text: 'find me' }],
    });
    expect(await call('file_read', { path: 'long.txt', offset: 2, limit: 2 })).toMatchObject({
      content: 'find me\nx',
      lines: 100_003,
      more: true,
    });
    expect(
      await catchToolError(call('file_edit', { path: 'long.txt', old_text: 'a', new_text: 'b', replace_all: true })),
    ).toMatch(/more than 100000 times/);
  });

  it('distinguishes files and directories', async () => {
    expect(await catchToolError(call('file_read', { path: 'src' }))).toMatch(/Not a file/);
    expect(await catchToolError(call('file_write', { path: 'src/main.py/x', content: '' }))).toMatch(/Not a directory/);
    expect(await catchToolError(call('file_write', { path: 'src', content: '' }))).toMatch(/Not a file/);
  });

  it('isolates tenants, projects and sessions', async () => {
    const other = caller((await make()).store);
    await other('file_write', { path: 'a', content: '1' }, { project_id: 'one' });
    const contexts: JsonObject[] = [
      { project_id: 'two' },
      { project_id: 'one', tenant_id: 'evil' },
      { project_id: '../acme/p-one' },
    ];
    for (const context of contexts) {
      expect(await catchToolError(other('file_read', { path: 'a' }, context))).toMatch(/^Project not found: /);
    }
    expect(await catchToolError(other('file_read', { path: 'a' }, { session_id: 'one' }))).toBe(
      'No such file or directory: a',
    );
    expect(await other('file_list', {}, { session_id: 'one' })).toMatchObject({ entries: [], count: 0 });
    await other('file_write', { path: 'a', content: 'of ann' }, { session_id: 'one', user_id: 'ann' });
    const strangers: JsonObject[] = [
      { session_id: 'one', user_id: 'bob' },
      { session_id: 'one' },
      { session_id: 'ann/s-one', user_id: '' },
      { session_id: 'two', user_id: 'ann' },
      { session_id: 'one', user_id: 'ann', tenant_id: 'evil' },
    ];
    for (const context of strangers)
      expect(await catchToolError(other('file_read', { path: 'a' }, context))).toBe('No such file or directory: a');
    expect(await other('file_read', { path: 'a' }, { session_id: 'one', user_id: 'ann' })).toMatchObject({
      content: 'of ann',
    });
    expect(await catchToolError(other('file_read', { path: 'a' }, {}))).toMatch(
      /^project_id is required for file operations: send session_id .* X-Project-Id/,
    );
  });

  const EVERY_TOOL: [string, JsonObject][] = [
    ['file_read', { path: 'a' }],
    ['file_list', {}],
    ['file_exists', { path: 'a' }],
    ['file_search', { query: 'x' }],
    ['file_mkdir', { path: 'a' }],
    ['file_write', { path: 'a', content: '1' }],
    ['file_edit', { path: 'a', old_text: '1', new_text: '2' }],
    ['file_delete', { path: 'a' }],
  ];

  it('know no project without a workspace, and create none, unless the call says it exists', async () => {
    const { store } = await make();
    const other = caller(store);
    const unknown = { project_id: 'ghost', create_project: false };
    for (const [name, args] of EVERY_TOOL)
      expect(await catchToolError(other(name, args, unknown)), name).toBe('Project not found: ghost');
    expect(await store.exists('acme/p-ghost')).toBe(false);

    const declared = { ...unknown, create_project: true };
    expect(await other('file_exists', { path: 'a' }, declared)).toMatchObject({ exists: false });
    expect(await other('file_list', {}, declared)).toMatchObject({ entries: [] });
    await other('file_mkdir', { path: 'reports' }, declared);
    expect(await other('file_list', {}, unknown)).toMatchObject({ count: 1 });
  });

  it('never create a project where WORKSPACES_MUST_EXIST is set', async () => {
    const strict = caller((await make()).store, { ...DEFAULT_WORKSPACE_LIMITS, mustExist: true });
    for (const [name, args] of EVERY_TOOL) {
      const pending = strict(name, args, { project_id: 'ghost', create_project: true });
      expect(await catchToolError(pending), name).toBe('Project not found: ghost');
    }
  });
});
