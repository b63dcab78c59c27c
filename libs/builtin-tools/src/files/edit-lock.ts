import { createHash } from 'node:crypto';
import { lstat, open, rm } from 'node:fs/promises';
import type { Clock } from '@toolfleet/resilience';
import { unless, type OpenDirectory } from './open-directory.js';
import { RESERVED_NAME } from './workspace-path.js';
import { busy } from './workspace-store.js';

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
