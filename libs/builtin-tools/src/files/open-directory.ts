/**
 * Directories by handle. A path that is checked and then opened can be swapped for a link in between; Node has no openat(2).
 * On Linux `/proc/self/fd/<n>/<name>` is the same thing: the kernel starts at the open directory, not at a path. Every step
 * opens with O_NOFOLLOW, so a link anywhere on the way is a fault, whenever it appeared. Elsewhere the steps are checked by
 * lstat, which leaves a window; images are Linux.
 */
import { constants } from 'node:fs';
import { lstat, mkdir, open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { fault } from './workspace-store.js';

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
