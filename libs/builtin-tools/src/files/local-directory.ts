import { createHash, randomUUID } from 'node:crypto';
import { constants, type BigIntStats } from 'node:fs';
import { lstat, mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@toolfleet/resilience';
import { busy, fault, RESERVED_NAME } from './workspace-store.js';

/**
 * Directories by handle. A path that is checked and then opened can be swapped for a link in between; Node has no openat(2).
 * On Linux `/proc/self/fd/<n>/<name>` is the same thing: the kernel starts at the open directory, not at a path. Every step
 * opens with O_NOFOLLOW, so a link anywhere on the way is a fault, whenever it appeared. Elsewhere the steps are checked by
 * lstat, which leaves a window; images are Linux.
 */

const BY_HANDLE = process.platform === 'linux';
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** An open directory; close it. */
export interface OpenDirectory {
  /** Path under which `name` of exactly this directory can be reached. */
  at(name: string): string;
  /** Path of the directory itself. */
  readonly self: string;
  close(): Promise<void>;
}

/** Opens a directory of the host by path; the root of everything below. */
export async function openRoot(path: string): Promise<OpenDirectory> {
  return held(await open(path, constants.O_RDONLY | constants.O_DIRECTORY), path);
}

/**
 * Opens the directory `names` below `root`, step by step. With `create`, missing ones are made. Undefined when one is
 * missing. @throws ToolError when one is a link or no directory
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
    if (!BY_HANDLE && (await lstat(path)).isSymbolicLink()) throw fault.link(soFar);
    return held(await open(path, DIRECTORY), path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP' || code === 'EMLINK') throw fault.link(soFar);
    if (code === 'ENOTDIR')
      throw (await lstat(path).catch(() => undefined))?.isSymbolicLink()
        ? fault.link(soFar)
        : fault.notADirectory(soFar);
    throw error;
  }
}

function held(handle: FileHandle, path: string): OpenDirectory {
  const self = BY_HANDLE ? `/proc/self/fd/${handle.fd}` : path;
  return { self, at: (name) => join(self, name), close: () => handle.close() };
}

/** Swallows one error code. */
export function unless(code: string): (error: unknown) => undefined {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code !== code) throw error;
    return undefined;
  };
}

/** Files of a local volume, opened without following links. */

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
/** Drafts of atomic writes; not shown in lists. */
const DRAFT = `${RESERVED_NAME}draft-`;

/** Content of a file, and the facts it changes with. */
export async function readFile(
  path: string,
  names: readonly string[],
  maxBytes: number,
): Promise<{ bytes: Buffer; stats: BigIntStats }> {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(translated(names));
  try {
    const stats = await file.stat({ bigint: true });
    if (!stats.isFile()) throw fault.notAFile(names);
    if (stats.size > maxBytes) throw fault.tooLarge(names, maxBytes);
    return { bytes: await file.readFile(), stats };
  } finally {
    await file.close();
  }
}

/** Puts a file in place of another in one step; `check` looks once more right before. */
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
    await rename(draft, directory.at(names.at(-1) ?? '')); // replaces a link that appeared meanwhile, never follows it
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Adds to a file, or makes one that must not be there yet. */
export async function appendTo(
  path: string,
  names: readonly string[],
  bytes: Uint8Array,
  mode: 'append' | 'create',
): Promise<void> {
  const flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | (mode === 'create' ? O_EXCL : O_APPEND);
  const file = await open(path, flags, 0o600).catch(translated(names));
  try {
    if (!(await file.stat()).isFile()) throw fault.notAFile(names);
    await file.writeFile(bytes);
  } finally {
    await file.close();
  }
}

/** Errors of the host without its paths. */
export function translated(names: readonly string[]): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    if (error.code === 'ENOENT') throw fault.missing(names);
    if (error.code === 'ELOOP' || error.code === 'EMLINK') throw fault.link(names);
    if (error.code === 'EEXIST') throw fault.exists(names);
    if (error.code === 'EISDIR' || error.code === 'ENXIO') throw fault.notAFile(names);
    if (error.code === 'ENOTDIR') throw fault.notADirectory(names.slice(0, -1));
    throw error;
  };
}

/** A file system has no "replace if unchanged": those who change a file wait for each other this long. */
const WAIT_MS = 5_000;
const LOOK_AGAIN_MS = 20;
/** A lock of a process that died is taken over after this long; no change takes a fraction of it. */
const DEAD_AFTER_MS = 120_000;

/**
 * Runs a change of one file while no other process changes it. The lock is a file beside it that only one can make, on every
 * file system that replicas can share. @throws ToolError when others do not come to an end
 */
export async function withEditLock<T>(
  directory: OpenDirectory,
  name: string,
  clock: Clock,
  change: () => Promise<T>,
): Promise<T> {
  const id = createHash('sha256').update(name).digest('hex').slice(0, 32); // any name fits
  const path = directory.at(`${RESERVED_NAME}lock-${id}`);
  const endAt = clock.monotonic() + WAIT_MS;
  while (!(await made(path))) {
    if (clock.monotonic() > endAt) throw busy();
    const lock = await lstat(path).catch(unless('ENOENT'));
    if (lock && clock.now() - lock.mtimeMs > DEAD_AFTER_MS) await rm(path, { force: true });
    else await clock.sleep(LOOK_AGAIN_MS);
  }
  try {
    return await change();
  } finally {
    await rm(path, { force: true });
  }
}

async function made(path: string): Promise<boolean> {
  const file = await open(path, 'wx', 0o600).catch(unless('EEXIST'));
  await file?.close();
  return file !== undefined;
}
