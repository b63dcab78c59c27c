import { watch } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '@toolfleet/resilience';
import { registerSecret, type Logger } from '@toolfleet/telemetry';
import type { ServiceFaults } from '../service-faults.js';
import type { ConfigTable, LoadedConfig } from './define-config.js';
import { readSecretFile } from './load-config.js';

/** Secrets that are read from the settings at each use. */
const READ_AT_USE: ReadonlySet<string> = new Set(['NATS_PASSWORD']);
/** A change comes as several events (write, rename, chmod); the file is read after the last of them. */
const SETTLE_MS = 100;

/**
 * The secret files of a running service. A changed file updates the settings and calls the followers of its key. A change that takes
 * effect only after a restart is reported as a fault, so that a rotation does not look complete when it is not.
 */
export class SecretFiles {
  private readonly followers = new Map<string, ((value: string) => void)[]>();
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly table: ConfigTable,
    private readonly loaded: LoadedConfig<ConfigTable>,
    private readonly host: { logger: Logger; clock: Clock; faults: ServiceFaults },
  ) {}

  /** Calls `changed` with each new value of a key; when it throws, the old value stays. */
  follow(key: string, changed: (value: string) => void): void {
    this.followers.set(key, [...(this.followers.get(key) ?? []), changed]);
  }

  /** Starts watching all files. */
  watch(): void {
    for (const [key, file] of Object.entries(this.loaded.secretFiles)) this.stops.push(this.watchFile(key, file));
  }

  stop(): void {
    for (const stop of this.stops) stop();
  }

  /**
   * Kubernetes replaces a symlink next to the file, so the directory is watched, not the file. A new value is registered for redaction
   * before it is used; an unreadable or empty file keeps the old value.
   */
  private watchFile(key: string, file: string): () => void {
    const { logger, clock, faults } = this.host;
    const subject = `secret ${key}`;
    let current = readSecretFile(file);
    let cancel = (): void => undefined;
    let needsRestart = false;
    const reread = (): void => {
      try {
        const value = readSecretFile(file);
        if (value === '') throw new Error('it is empty');
        if (value !== current) {
          current = value;
          registerSecret(value);
          needsRestart = !this.changed(key, value);
        }
        faults.set(subject, needsRestart ? ['the file changed; restart this service to use the new value'] : []);
      } catch (error) {
        const message = `a changed secret file is ignored, the old value stays: ${(error as Error).message}`;
        logger.warn({ file }, message);
        faults.set(subject, [message]);
      }
    };
    const watcher = watch(dirname(file), { persistent: false }, () => {
      cancel();
      cancel = clock.after(SETTLE_MS, reread);
    });
    watcher.on('error', (error) => {
      const message = `secret file is no longer watched: ${error.message}`;
      logger.warn({ file }, message);
      faults.set(subject, [message]);
    });
    return () => {
      cancel();
      watcher.close();
    };
  }

  /** @returns false when the new value takes effect only after a restart */
  private changed(key: string, raw: string): boolean {
    const value = this.table[key]?.parse(raw);
    const followers = this.followers.get(key) ?? [];
    if (followers.length === 0 && !READ_AT_USE.has(key)) {
      this.host.logger.warn({ key }, 'a secret file changed; this service uses the new value after a restart');
      return false;
    }
    for (const follower of followers) follower(raw);
    (this.loaded.settings as Record<string, unknown>)[key] = value;
    this.host.logger.info({ key }, 'a secret file changed; the new value is in use');
    return true;
  }
}
