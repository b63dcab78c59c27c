import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { S3_OF_YOUR_OWN } from '@toolfleet/testing';
import { LocalWorkspaceStore } from './local-workspace-store.js';
import { bucketOf, caller, catchToolError, STORES, runBoundedWork } from '../../spec/workspaces.fixture.js';
import type { WorkspaceStore } from './workspace-store.js';
import { DEFAULT_WORKSPACE_LIMITS } from './quota.js';

runBoundedWork();

const LIMITS = { ...DEFAULT_WORKSPACE_LIMITS, quotaBytes: 1_000, maxEntries: 20 };

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'toolfleet-quota-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const localStore = async () => new LocalWorkspaceStore(await mkdtemp(join(root, 'store-')));
const sizeOf = async (call: ReturnType<typeof caller>) =>
  ((await call('file_list', { recursive: true })).entries as JsonObject[]).reduce(
    (sum, entry) => sum + Number(entry['size'] ?? 0),
    0,
  );

describe('quota', () => {
  it('counts stored bytes, even during concurrent writes', async () => {
    const call = caller(await localStore(), LIMITS);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => call('file_write', { path: `f${i}`, content: 'x'.repeat(300) })),
    );
    expect(outcomes.filter((one) => one.status === 'fulfilled')).toHaveLength(3);
    await call('file_write', { path: 'f0', content: 'y'.repeat(400) });
    expect(await catchToolError(call('file_write', { path: 'f0', content: 'y', mode: 'append' }))).toMatch(
      /workspace is full/,
    );
    for (let i = 0; i < 17; i++) await call('file_mkdir', { path: `d${i}` });
    expect(await catchToolError(call('file_mkdir', { path: 'one/more' }))).toMatch(/20 files and directories/);
  });

  it('requires existing workspaces if so configured', async () => {
    const call = caller(await localStore(), { ...DEFAULT_WORKSPACE_LIMITS, mustExist: true });
    expect(await catchToolError(call('file_write', { path: 'x', content: '' }))).toBe('Project not found: shop');
  });

  it('refuses names that lists would hide', async () => {
    const call = caller(await localStore(), LIMITS);
    for (const path of ['.toolfleet-draft-1', 'a/.Toolfleet-x'])
      expect(await catchToolError(call('file_write', { path, content: 'x' }))).toMatch(/are reserved/);
  });
});

describe.each([...STORES, ...bucketOf(S3_OF_YOUR_OWN)])('replicas that share a %s', (_name, makeIn) => {
  let store: WorkspaceStore;
  let stop: (() => Promise<void>) | undefined;
  /** Nothing but the store connects them: as processes on different machines. */
  let replicas: ReturnType<typeof caller>[];
  beforeEach(async () => {
    const made = await makeIn(root);
    ({ store, stop } = made);
    replicas = [1, 2, 3, 4].map(() => caller(store, LIMITS));
  });
  afterEach(() => stop?.());
  const replica = (n: number) => replicas[n % replicas.length] as ReturnType<typeof caller>;

  it('never exceed the quota together, and can use all of it sequentially', async () => {
    for (let round = 0; round < 5; round += 1) {
      await Promise.allSettled(
        Array.from({ length: 12 }, (_, n) =>
          replica(n)('file_write', { path: `r${round}-${n}`, content: 'x'.repeat(130) }),
        ),
      );
      expect(await sizeOf(replica(0))).toBeLessThanOrEqual(LIMITS.quotaBytes);
    }
    const left = LIMITS.quotaBytes - (await sizeOf(replica(0)));
    for (let n = 0; n < left; n += 10)
      await replica(n)('file_write', { path: 'rest', content: 'y'.repeat(Math.min(10, left - n)), mode: 'append' });
    expect(await sizeOf(replica(0))).toBe(LIMITS.quotaBytes);
    expect(await catchToolError(replica(1)('file_write', { path: 'rest', content: 'z', mode: 'append' }))).toMatch(
      /full/,
    );
  });

  it('lose no edits or appended lines of each other', async () => {
    await replica(0)('file_write', { path: 'list', content: 'a=0 b=0 c=0 d=0\n' });
    const done = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].flatMap((name, n) => [
        replica(n)('file_edit', { path: 'list', old_text: `${name}=0`, new_text: `${name}=1` }),
        replica(n)('file_write', { path: 'log', content: `${name}\n`, mode: 'append' }),
      ]),
    );
    const { content } = (await replica(0)('file_read', { path: 'list' })) as { content: string };
    const log = ((await replica(0)('file_read', { path: 'log' })) as { content: string }).content;
    for (const [n, name] of ['a', 'b', 'c', 'd'].entries()) {
      // A busy file may be refused after some attempts, but what was reported as done is there.
      expect(content.includes(`${name}=1`), name).toBe(done[2 * n]?.status === 'fulfilled');
      expect(log.includes(`${name}\n`), name).toBe(done[2 * n + 1]?.status === 'fulfilled');
    }
    expect(done.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(0);
  });

  it('leave no holds behind', async () => {
    await replica(0)('file_write', { path: 'a', content: 'x' });
    await catchToolError(replica(1)('file_write', { path: 'b', content: 'x'.repeat(2_000) }));
    expect(await store.list('acme/~holds-p-shop', [], false, 10).catch(() => [])).toEqual([]);
  });
});

describe('a hold of a process that died', () => {
  it('counts for two minutes', async () => {
    const folder = await mkdtemp(join(root, 'died-'));
    const call = caller(new LocalWorkspaceStore(folder), LIMITS);
    await call('file_write', { path: 'a', content: 'x' });
    const shelf = join(folder, 'acme', '~holds-p-shop');
    const hold = join(shelf, '950-1-of-the-dead');
    await writeFile(hold, '');
    expect(await catchToolError(call('file_write', { path: 'b', content: 'x'.repeat(100) }))).toMatch(
      /workspace is full/,
    );
    const before = Date.now() / 1_000 - 121;
    await utimes(hold, before, before);
    await call('file_write', { path: 'b', content: 'x'.repeat(100) });
    expect(await readdir(shelf)).toEqual([]);
  });
});
