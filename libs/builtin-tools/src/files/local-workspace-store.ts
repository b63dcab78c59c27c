import type { Stats } from 'node:fs';
import { lstat, mkdir, opendir, rmdir, unlink } from 'node:fs/promises';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import {
  appendTo,
  openBelow,
  openRoot,
  readFile,
  replaceFile,
  translateError,
  unless,
  withEditLock,
  type OpenDirectory,
} from './local-directory.js';
import {
  ChangedMeanwhile,
  storeErrors,
  RESERVED_NAME,
  untilUnchanged,
  WorkspaceStore,
  type Entry,
  type WriteMode,
} from './workspace-store.js';

/** Workspaces as directories of a local volume. */
export class LocalWorkspaceStore extends WorkspaceStore {
  /** @param root directory with one directory per workspace; created if missing */
  constructor(
    private readonly root: string,
    private readonly clock: Clock = new SystemClock(),
  ) {
    super();
  }

  override exists(workspace: string): Promise<boolean> {
    return this.inside(workspace, [], false, async (directory) => directory !== undefined);
  }

  override async stat(workspace: string, names: readonly string[]): Promise<Entry | undefined> {
    const name = names.at(-1);
    return this.inside(workspace, names.slice(0, -1), false, async (directory) => {
      if (!directory) return undefined;
      const stats = await lstat(name === undefined ? `${directory.self}/.` : directory.at(name)).catch(
        unless('ENOENT'),
      );
      return stats ? toEntry(names, stats) : undefined;
    });
  }

  override async read(workspace: string, names: readonly string[], maxBytes: number): Promise<Buffer> {
    return this.inside(workspace, names.slice(0, -1), false, async (directory) => {
      if (!directory) throw storeErrors.missing(names);
      return (await readFile(directory.at(names.at(-1) ?? ''), names, maxBytes)).bytes;
    });
  }

  override async write(workspace: string, names: readonly string[], bytes: Uint8Array, mode: WriteMode): Promise<void> {
    await this.inside(workspace, names.slice(0, -1), true, async (directory) => {
      const target = (directory as OpenDirectory).at(names.at(-1) ?? '');
      if (mode !== 'overwrite') return appendTo(target, names, bytes, mode);
      const present = await lstat(target).catch(unless('ENOENT'));
      if (present && !present.isFile())
        throw present.isSymbolicLink() ? storeErrors.link(names) : storeErrors.notAFile(names);
      await replaceFile(directory as OpenDirectory, names, bytes);
    });
  }

  override change(
    workspace: string,
    names: readonly string[],
    maxBytes: number,
    rewrite: (before: Buffer, replace: (after: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const name = names.at(-1) ?? '';
    return untilUnchanged(() =>
      this.inside(workspace, names.slice(0, -1), false, async (directory) => {
        if (!directory) throw storeErrors.missing(names);
        await withEditLock(directory, name, this.clock, async () => {
          const { bytes, stats } = await readFile(directory.at(name), names, maxBytes);
          await rewrite(bytes, (after) =>
            replaceFile(directory, names, after, async () => {
              const now = await lstat(directory.at(name), { bigint: true }).catch(unless('ENOENT'));
              if (!now || now.ino !== stats.ino || now.mtimeNs !== stats.mtimeNs || now.size !== stats.size)
                throw new ChangedMeanwhile();
            }),
          );
        });
      }),
    );
  }

  override async makeDirectory(workspace: string, names: readonly string[]): Promise<void> {
    await this.inside(workspace, names, true, async () => {});
  }

  override async remove(workspace: string, names: readonly string[], recursive: boolean): Promise<number> {
    const name = names.at(-1) ?? '';
    return this.inside(workspace, names.slice(0, -1), false, async (directory) => {
      if (!directory) throw storeErrors.missing(names);
      const stats = await lstat(directory.at(name)).catch(translateError(names));
      if (!stats.isDirectory()) {
        await unlink(directory.at(name)); // removes a link itself, not its target
        return 1;
      }
      return removeDirectory(directory, name, names, recursive);
    });
  }

  override async list(
    workspace: string,
    names: readonly string[],
    recursive: boolean,
    limit: number,
  ): Promise<Entry[]> {
    return this.inside(workspace, names, false, async (directory) => {
      if (!directory) throw storeErrors.missing(names);
      const entries: Entry[] = [];
      await collect(directory, names, recursive, limit, entries);
      return entries;
    });
  }

  override countFiles(folder: string): Promise<number> {
    return this.inside(folder, [], false, async (directory) => (directory ? countFiles(directory) : 0));
  }

  override async removeFolder(folder: string, isOver: () => boolean): Promise<{ files: number; more: boolean }> {
    const names = folder.split('/');
    let files = 0;
    const more = await this.inside(folder, [], false, async (directory) => {
      for (const child of directory ? await readChildren(directory) : []) {
        if (isOver()) return true;
        const below = child.isDirectory ? await openBelow(directory as OpenDirectory, [child.name], false) : undefined;
        files += below ? await countFiles(below) : 1;
        await below?.close();
        if (below) await removeDirectory(directory as OpenDirectory, child.name, [...names, child.name], true);
        else await unlink((directory as OpenDirectory).at(child.name)).catch(unless('ENOENT'));
      }
      return false;
    });
    if (!more) await this.removeEmpty(names);
    return { files, more };
  }

  /** Removes a folder that is empty now; one that a call has written to meanwhile stays. */
  private async removeEmpty(names: readonly string[]): Promise<void> {
    const root = await openRoot(this.root);
    try {
      const parent = await openBelow(root, names.slice(0, -1), false);
      await rmdir(parent?.at(names.at(-1) ?? '') ?? '').catch(() => undefined);
      await parent?.close();
    } finally {
      await root.close();
    }
  }

  private async inside<T>(
    workspace: string,
    names: readonly string[],
    create: boolean,
    work: (directory: OpenDirectory | undefined) => Promise<T>,
  ): Promise<T> {
    await mkdir(this.root, { recursive: true, mode: 0o700 });
    const root = await openRoot(this.root);
    try {
      // The path of the workspace (`tenant/project`) is opened with the same checks.
      const home = await openBelow(root, workspace.split('/'), create);
      if (!home) return await work(undefined);
      try {
        const directory = await openBelow(home, names, create);
        try {
          return await work(directory);
        } finally {
          await directory?.close();
        }
      } finally {
        await home.close();
      }
    } finally {
      await root.close();
    }
  }
}

async function removeDirectory(
  parent: OpenDirectory,
  name: string,
  names: readonly string[],
  recursive: boolean,
): Promise<number> {
  let removed = 0;
  if (recursive) {
    const directory = await openBelow(parent, [name], false);
    if (!directory) return 0;
    try {
      for (const child of await readChildren(directory)) {
        if (child.isDirectory) removed += await removeDirectory(directory, child.name, [...names, child.name], true);
        else {
          await unlink(directory.at(child.name)).catch(unless('ENOENT'));
          removed += 1;
        }
      }
    } finally {
      await directory.close();
    }
  }
  await rmdir(parent.at(name)).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOTEMPTY' || error.code === 'EEXIST' ? storeErrors.notEmpty(names) : error;
  });
  return removed + 1;
}

async function countFiles(directory: OpenDirectory): Promise<number> {
  let files = 0;
  for (const child of await readChildren(directory)) {
    const below = child.isDirectory ? await openBelow(directory, [child.name], false) : undefined;
    files += below ? await countFiles(below) : 1;
    await below?.close();
  }
  return files;
}

async function collect(
  directory: OpenDirectory,
  names: readonly string[],
  recursive: boolean,
  limit: number,
  found: Entry[],
): Promise<void> {
  for (const child of await readChildren(directory)) {
    if (found.length >= limit) return;
    if (child.name.startsWith(RESERVED_NAME)) continue;
    const childNames = [...names, child.name];
    const stats = await lstat(directory.at(child.name)).catch(unless('ENOENT'));
    const entry = stats && toEntry(childNames, stats);
    if (!entry) continue; // a link, a pipe, or deleted meanwhile
    found.push(entry);
    if (!recursive || entry.type !== 'directory') continue;
    const below = await openBelow(directory, [child.name], false).catch(() => undefined);
    if (!below) continue;
    try {
      await collect(below, childNames, true, limit, found);
    } finally {
      await below.close();
    }
  }
}

async function readChildren(directory: OpenDirectory): Promise<{ name: string; isDirectory: boolean }[]> {
  const children: { name: string; isDirectory: boolean }[] = [];
  for await (const child of await opendir(`${directory.self}/.`))
    children.push({ name: child.name, isDirectory: child.isDirectory() });
  return children.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function toEntry(names: readonly string[], stats: Stats): Entry | undefined {
  if (!stats.isFile() && !stats.isDirectory()) return undefined;
  return {
    names: [...names],
    type: stats.isFile() ? 'file' : 'directory',
    size: stats.isFile() ? stats.size : 0,
    modifiedAt: Math.round(stats.mtimeMs),
  };
}
