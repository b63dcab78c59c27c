import { createHash, randomUUID } from 'node:crypto';
import { constants, type BigIntStats } from 'node:fs';
import { lstat, mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@toolfleet/resilience';
import { busy, storeErrors, RESERVED_NAME } from './workspace-store.js';

/**
 * Directories and files of a local volume, opened without following links. A path that is checked and then opened could be
 * swapped for a link in between, and Node has no openat(2). On Linux `/proc/self/fd/<n>/<name>` is equivalent: the kernel
 * starts at the open directory instead of a path. Each step opens with O_NOFOLLOW, so a link anywhere on the way fails,
 * whenever it appeared. On other systems lstat checks the steps and leaves a race; the images run Linux.
 */

const BY_HANDLE = process.platform === 'linux';
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** An open directory, to be closed by its owner. */
export interface OpenDirectory {
  /** The path of `name` in exactly this directory. */
  at(name: string): string;
  /** The path of the directory itself. */
  readonly self: string;
  close(): Promise<void>;
}

/** Opens a directory of the host by path, as the root for `openBelow`. */
export async function openRoot(path: string): Promise<OpenDirectory> {
  return held(await open(path, constants.O_RDONLY | constants.O_DIRECTORY), path);
}

/**
 * Opens the directory `names` below `root`, step by step. Missing directories are created with `create`; otherwise the result
 * is undefined. @throws ToolError if one is a link or not a directory
 */
export async function openBelow(
  root: OpenDirectory,
  names: readonly string[],
  create: boolean,
): Promise<OpenDirectory | undefined> {
  let current = root;
  for (const [index, name] of names.entries()) {
    const last = current;
    try {
      const next = await step(last, name, names.slice(0, index + 1), create);
      if (!next) return undefined;
      current = next;
    } finally {
      if (last !== root) await last.close();
    }
  }
  return current === root ? { ...root, close: async () => {} } : current;
}

async function step(
  from: OpenDirectory,
  name: string,
  soFar: readonly string[],
  create: boolean,
): Promise<OpenDirectory | undefined> {
  const path = from.at(name);
  if (create) await mkdir(path, { mode: 0o700 }).catch(unless('EEXIST'));
  try {
    if (!BY_HANDLE && (await lstat(path)).isSymbolicLink()) throw storeErrors.link(soFar);
    return held(await open(path, DIRECTORY), path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP' || code === 'EMLINK') throw storeErrors.link(soFar);
    if (code === 'ENOTDIR')
      throw (await lstat(path).catch(() => undefined))?.isSymbolicLink()
        ? storeErrors.link(soFar)
        : storeErrors.notADirectory(soFar);
    throw error;
  }
}

function held(handle: FileHandle, path: string): OpenDirectory {
  const self = BY_HANDLE ? `/proc/self/fd/${handle.fd}` : path;
  return { self, at: (name) => join(self, name), close: () => handle.close() };
}

/** Ignores errors with this code and rethrows all others. */
export function unless(code: string): (error: unknown) => undefined {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code !== code) throw error;
    return undefined;
  };
}

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
/** Prefix of drafts of atomic writes. */
const DRAFT = `${RESERVED_NAME}draft-`;

/** Reads a file with its stats, by which a later change can be detected. */
export async function readFile(
  path: string,
  names: readonly string[],
  maxBytes: number,
): Promise<{ bytes: Buffer; stats: BigIntStats }> {
  // O_NONBLOCK, so that opening a pipe does not wait for a writer.
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(translateError(names));
  try {
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile()) throw storeErrors.notAFile(names);
    if (stats.size > maxBytes) throw storeErrors.tooLarge(names, maxBytes);
    return { bytes: await file.readFile(), stats };
  } finally {
    await file.close();
  }
}

/** Replaces a file atomically. `check` runs right before the rename. */
export async function replaceFile(
  directory: OpenDirectory,
  names: readonly string[],
  bytes: Uint8Array,
  check: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const draft = directory.at(DRAFT + randomUUID());
  try {
    await appendTo(draft, names, bytes, 'create');
    await check();
    await rename(draft, directory.at(names.at(-1) ?? '')); // replaces a link that has appeared meanwhile instead of following it
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Appends to a file, or creates one that must not exist. */
export async function appendTo(
  path: string,
  names: readonly string[],
  bytes: Uint8Array,
  mode: 'append' | 'create',
): Promise<void> {
  const flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | (mode === 'create' ? O_EXCL : O_APPEND);
  const file = await open(path, flags, 0o600).catch(translateError(names));
  try {
    if (!(await file.stat()).isFile()) throw storeErrors.notAFile(names);
    await file.writeFile(bytes);
  } finally {
    await file.close();
  }
}

/** Translates errors of the file system to ToolErrors without host paths. */
export function translateError(names: readonly string[]): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    if (error.code === 'ENOENT') throw storeErrors.missing(names);
    if (error.code === 'ELOOP' || error.code === 'EMLINK') throw storeErrors.link(names);
    if (error.code === 'EEXIST') throw storeErrors.exists(names);
    if (error.code === 'EISDIR' || error.code === 'ENXIO') throw storeErrors.notAFile(names);
    if (error.code === 'ENOTDIR') throw storeErrors.notADirectory(names.slice(0, -1));
    throw error;
  };
}

/** How long a writer waits for the lock. File systems have no "replace if unchanged", so writers take turns. */
const WAIT_MS = 5_000;
const POLL_MS = 20;
/** Age at which a lock counts as abandoned by a process that died; changes take far less. */
const ABANDONED_AFTER_MS = 120_000;

/**
 * Runs a change of a file while no other process changes it. The lock is a file in the same directory, created exclusively,
 * which works on every file system that replicas can share. @throws ToolError if the lock stays taken
 */
export async function withEditLock<T>(
  directory: OpenDirectory,
  name: string,
  clock: Clock,
  change: () => Promise<T>,
): Promise<T> {
  const id = createHash('sha256').update(name).digest('hex').slice(0, 32); // hashed, so that every name fits
  const path = directory.at(`${RESERVED_NAME}lock-${id}`);
  const endAt = clock.monotonic() + WAIT_MS;
  while (!(await createExclusively(path))) {
    if (clock.monotonic() > endAt) throw busy();
    const lock = await lstat(path).catch(unless('ENOENT'));
    if (lock && clock.now() - lock.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { force: true });
    else await clock.sleep(POLL_MS);
  }
  try {
    return await change();
  } finally {
    await rm(path, { force: true });
  }
}

async function createExclusively(path: string): Promise<boolean> {
  const file = await open(path, 'wx', 0o600).catch(unless('EEXIST'));
  await file?.close();
  return file !== undefined;
}
