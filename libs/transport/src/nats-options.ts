import type { LocalExchange } from './local-exchange.js';

/** Where and as whom to connect to NATS. */
export interface NatsOptions {
  /** Servers separated by commas; may contain credentials. */
  url: string;
  /** Name of this connection in the server's monitoring. */
  name: string;
  user?: string;
  /** A function is called at each connect. */
  password?: string | (() => string);
  /** File with the CA of the servers; enables TLS. */
  tlsCa?: string;
  /** Keeps what other services of this process serve in the process. */
  exchange?: LocalExchange | undefined;
  /** Called when a receiver throws or the server denies an operation; without it these become warnings of the process. */
  onFault?: (error: unknown, subject: string) => void;
}

/** The environment keys of a NATS connection (`NATS_KEYS` of libs/service). */
interface NatsSettings {
  NATS_URL: string;
  NATS_USER?: string | undefined;
  NATS_PASSWORD?: string | undefined;
  NATS_TLS_CA?: string | undefined;
}

/**
 * Connection options from the settings of a service; empty values count as unset. The password is read at each connect, because
 * the settings change when its file does.
 */
export function toNatsOptions(settings: NatsSettings): Omit<NatsOptions, 'name' | 'exchange'> {
  return {
    url: settings.NATS_URL,
    user: settings.NATS_USER || undefined,
    password: settings.NATS_PASSWORD ? () => settings.NATS_PASSWORD ?? '' : undefined,
    tlsCa: settings.NATS_TLS_CA || undefined,
  };
}

/** Separates the servers from user and password, as the `nats` package takes as separate options. The first ones win. */
export function splitUrl(url: string): { servers: string[]; user: string | undefined; pass: string | undefined } {
  let user: string | undefined;
  let pass: string | undefined;
  const servers = url.split(',').map((part) => {
    const match = /^([a-z]+:\/\/)(?:([^:@/]*)(?::([^@/]*))?@)?(.+?)\/?$/.exec(part.trim());
    if (!match) return part.trim();
    if (match[2] !== undefined) user ??= decodeURIComponent(match[2]);
    if (match[3] !== undefined) pass ??= decodeURIComponent(match[3]);
    return `${match[1]}${match[4]}`;
  });
  return { servers, user, pass };
}

/** The URL without credentials, for messages. */
export function publicUrl(url: string): string {
  return url.replace(/\/\/[^/@,]*@/g, '//');
}
