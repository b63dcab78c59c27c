/** Files of a local volume, opened without following links. */
import { randomUUID } from 'node:crypto';
import { constants, type BigIntStats } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import type { OpenDirectory } from './open-directory.js';
import { RESERVED_NAME } from './workspace-path.js';
import { fault } from './workspace-store.js';

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
