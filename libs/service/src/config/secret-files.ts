import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { ConfigTable } from './define-config.js';
import type { LoadedConfig } from './load-config.js';
import { watchSecretFile } from './watch-secret-file.js';

/** Secrets whose users read the settings each time they need them. */
const READ_AT_USE: ReadonlySet<string> = new Set(['NATS_PASSWORD']);

/**
 * The secret files of a running service. A changed file changes the settings, and whoever follows the key is told; a change
 * nobody can use before a restart is logged as such, so that a rotation does not look done when it is not.
 */
export class SecretFiles {
  private readonly followers = new Map<string, ((value: string) => void)[]>();
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly table: ConfigTable,
    private readonly loaded: LoadedConfig<ConfigTable>,
    private readonly logger: Logger,
    private readonly clock: Clock,
  ) {}

  /** `changed` hears of new values of a key; one that throws keeps the old value. */
  follow(key: string, changed: (value: string) => void): void {
    this.followers.set(key, [...(this.followers.get(key) ?? []), changed]);
  }

  /** Begins to watch. */
  watch(): void {
    for (const [key, file] of Object.entries(this.loaded.secretFiles)) {
      this.stops.push(watchSecretFile(file, (value) => this.changed(key, value), this.logger, this.clock));
    }
  }

  stop(): void {
    for (const stop of this.stops) stop();
  }

  private changed(key: string, raw: string): void {
    const value = this.table[key]?.parse(raw);
    const followers = this.followers.get(key) ?? [];
    if (followers.length === 0 && !READ_AT_USE.has(key)) {
      this.logger.warn({ key }, 'a secret file changed; this service uses the new value after a restart');
      return;
    }
    for (const follower of followers) follower(raw);
    (this.loaded.settings as Record<string, unknown>)[key] = value;
    this.logger.info({ key }, 'a secret file changed; the new value is in use');
  }
}
