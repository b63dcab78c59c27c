import type { NatsOptions } from './nats-connection.js';

/** The keys of the environment that say where NATS is (`NATS_KEYS` of libs/service). */
export interface NatsSettings {
  /** Servers separated by commas; credentials may stand in the URL. */
  NATS_URL: string;
  NATS_USER?: string | undefined;
  NATS_PASSWORD?: string | undefined;
  /** File with the CA of the servers. */
  NATS_TLS_CA?: string | undefined;
}

/**
 * Where and as whom a service connects, from its settings; an empty value is an absent one. The password is read at each
 * connect: when its file has changed, the settings have.
 */
export function natsOptionsOf(settings: NatsSettings): Omit<NatsOptions, 'name'> {
  const { NATS_URL: url, NATS_USER: user, NATS_TLS_CA: tlsCa } = settings;
  const password = settings.NATS_PASSWORD ? () => settings.NATS_PASSWORD ?? '' : undefined;
  return { url, ...(user ? { user } : {}), ...(password ? { password } : {}), ...(tlsCa ? { tlsCa } : {}) };
}
