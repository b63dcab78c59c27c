import { watch } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '@toolfleet/resilience';
import { registerSecret, type Logger } from '@toolfleet/telemetry';
import { readSecretFile } from './load-config.js';

/** Changes come in bursts (write, rename, chmod); the file is read once they are over. */
const SETTLE_MS = 100;

/**
 * Calls `changed` with the new value after the secret's file changed. Kubernetes swaps a symlink beside the file, so the
 * directory is watched, not the file. The new value is registered for redaction first; an unreadable or empty file keeps
 * the old value. Returns the way to stop watching.
 */
export function watchSecretFile(
  file: string,
  changed: (value: string) => void,
  logger: Logger,
  clock: Clock,
): () => void {
  let current = readSecretFile(file);
  let cancel = (): void => undefined;
  const reread = (): void => {
    try {
      const value = readSecretFile(file);
      if (value === '' || value === current) return;
      current = value;
      registerSecret(value);
      changed(value);
    } catch (error) {
      logger.warn({ file }, `a changed secret file is not used, the old value stays: ${(error as Error).message}`);
    }
  };
  const watcher = watch(dirname(file), { persistent: false }, () => {
    cancel();
    cancel = clock.after(SETTLE_MS, reread);
  });
  watcher.on('error', (error) => logger.warn({ file }, `secret file is no longer watched: ${error.message}`));
  return () => {
    cancel();
    watcher.close();
  };
}
