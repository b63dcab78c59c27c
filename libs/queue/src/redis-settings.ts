import { readFileSync } from 'node:fs';
import type { RedisConnectOptions } from './redis-connection.js';

/** The keys of the environment that say who a service is at Redis (`REDIS_KEYS` of libs/service). */
export interface RedisSettings {
  REDIS_PASSWORD?: string | undefined;
  /** Password at the Sentinels themselves. */
  REDIS_SENTINEL_PASSWORD?: string | undefined;
  /** File with the CA of the servers. */
  REDIS_TLS_CA?: string | undefined;
}

/** How a service connects, from its settings; an empty value is an absent one. Throws, for good, without the CA file. */
export function redisOptionsOf(
  settings: RedisSettings,
): Pick<RedisConnectOptions, 'password' | 'sentinelPassword' | 'tlsCa'> {
  const { REDIS_PASSWORD: password, REDIS_SENTINEL_PASSWORD: sentinelPassword, REDIS_TLS_CA: file } = settings;
  return {
    ...(password ? { password } : {}),
    ...(sentinelPassword ? { sentinelPassword } : {}),
    ...(file ? { tlsCa: readCa(file) } : {}),
  };
}

function readCa(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw Object.assign(new Error(`REDIS_TLS_CA cannot be read: ${reason}`), { startRefused: true });
  }
}
