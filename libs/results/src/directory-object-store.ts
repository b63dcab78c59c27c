import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HOUR, ObjectStore } from './object-store.js';

/** Objects as files below one directory that all gateways mount. Readable by the owner only. */
export class DirectoryObjectStore extends ObjectStore {
  constructor(private readonly root: string) {
    super();
  }

  /** Writes under a temporary name, syncs, then renames: a reader never sees a part, not even after a crash. */
  override async put(key: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.root, key);
    const partial = join(dirname(path), `.${randomUUID()}.partial`);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    try {
      const file = await open(partial, 'wx', 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(partial, path);
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }

  override get(key: string): Promise<Uint8Array | undefined> {
    return readFile(join(this.root, key)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
  }

  override delete(key: string): Promise<void> {
    return rm(join(this.root, key), { force: true });
  }

  override async deleteTenant(hour: string, tenant: string, dryRun: boolean): Promise<number> {
    const folder = join(this.root, hour, tenant);
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    if (!dryRun) await rm(folder, { recursive: true, force: true });
    return names.length;
  }

  /** Names that are not hours are left alone: the directory may hold other things. */
  override async deleteBefore(hour: string): Promise<void> {
    const names = await readdir(this.root);
    for (const name of names) {
      if (HOUR.test(name) && name < hour) await rm(join(this.root, name), { recursive: true, force: true });
    }
  }
}
