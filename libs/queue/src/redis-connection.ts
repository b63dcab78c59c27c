/**
 * The one place that makes Redis connections (addresses: redis-address.ts). They are made lazily, so that a service can be
 * wired before its broker is there, and come back by themselves for ever. One line is logged when Redis goes away and one
 * when it is back.
 */
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { parseAddress, publicAddress, type RedisAddress } from './redis-address.js';

/** Lines this module logs; a pino logger fits. */
export interface RedisLog {
  warn(message: string): void;
  info(message: string): void;
}

/**
 * What the connection is for. `commands`: fails at once while Redis is away and after `commandTimeoutMs` when it hangs.
 * `blocking`: for workers and subscribers, waits until Redis is back.
 */
export type RedisRole = 'commands' | 'blocking';

/** How to connect. */
export interface RedisConnectOptions {
  /** Shown by `CLIENT LIST`. */
  name: string;
  /** Overrides one in the URL. */
  password?: string | undefined;
  /** Password at the Sentinels themselves. */
  sentinelPassword?: string | undefined;
  /** CA of the servers in PEM, for addresses with TLS; without it those of the system count. */
  tlsCa?: string | undefined;
  role?: RedisRole;
  /**
   * Sends commands again that were on the way when the connection broke, instead of failing them; `commands` only. For
   * commands that may run twice: reads and idempotent scripts.
   */
  resend?: boolean;
  /** Longest wait for the answer of one command; `commands` only. Default 2,000. */
  commandTimeoutMs?: number;
  /**
   * Commands of one event-loop turn travel in one write, whoever sent them; for connections with many small commands. Not
   * for one that BullMQ shares: it pipelines by itself. Without effect on Redis Cluster, where they go to many nodes.
   */
  autoPipelining?: boolean;
  log?: RedisLog;
}

const COMMAND_TIMEOUT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 5_000;
const OPEN_TIMEOUT_MS = 10_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;

/**
 * A connection that is not open yet; `openRedis` or the first command opens it. For a cluster address the object is a
 * `Cluster`, which takes the same commands; keys of one script must share a hash tag there. Throws on an address that
 * cannot be read.
 */
export function connectRedis(url: string, options: RedisConnectOptions): Redis {
  const address = parseAddress(url);
  const client = clientFor(address, connectionOptions(address, options), options);
  followState(client, publicAddress(url), options.log);
  return client;
}

function clientFor(address: RedisAddress, base: RedisOptions, options: RedisConnectOptions): Redis {
  if (address.kind === 'single') return new Redis({ ...base, ...address.nodes[0] });
  if (address.kind === 'sentinel') {
    const { sentinelPassword } = options;
    return new Redis({
      ...base,
      sentinels: address.nodes,
      name: address.master ?? '',
      sentinelRetryStrategy: reconnectDelay,
      ...(sentinelPassword ? { sentinelPassword } : {}),
      // `tls` alone would leave both kinds of connections in the clear.
      ...(address.tls ? { enableTLSForSentinelMode: true, sentinelTLS: tlsOf(options) } : {}),
    });
  }
  const { enableAutoPipelining: _, ...redisOptions } = base;
  return new Cluster(address.nodes, {
    redisOptions,
    lazyConnect: true,
    enableOfflineQueue: base.enableOfflineQueue ?? true,
    clusterRetryStrategy: reconnectDelay,
  }) as unknown as Redis;
}

/** Opens a connection and waits until it is usable. Rejects in one clear line; may be repeated after a failure. */
export async function openRedis(client: Redis, url: string): Promise<void> {
  if (client.status === 'ready') return;
  // A refused password or TLS fault reaches the promise as "Connection is closed"; the event says why.
  let told: unknown;
  const onError = (error: unknown): void => void (told = error);
  client.on('error', onError);
  try {
    const opening = client.status === 'wait' || client.status === 'end' ? client.connect() : becomesReady(client);
    await Promise.race([opening, tooLate()]);
  } catch (error) {
    const known = told ?? error;
    const reason = known instanceof Error ? known.message || (known as NodeJS.ErrnoException).code : String(known);
    throw Object.assign(new Error(`no Redis at ${publicAddress(url)}: ${reason}`), { code: codeOf(known) });
  } finally {
    client.off('error', onError);
  }
}

/**
 * Refuses a Redis that may drop keys when memory is full: jobs, leases and the journal live there.
 * The thrown error carries `startRefused`, which ends the service instead of a retry.
 */
export async function requireNoEviction(client: Redis, url: string): Promise<void> {
  const made: unknown = client;
  const nodes = made instanceof Cluster ? made.nodes('master') : [client];
  for (const node of nodes) {
    const memory = await node.info('memory');
    const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1];
    if (policy === undefined || policy === 'noeviction') continue;
    throw Object.assign(
      new Error(`Redis at ${publicAddress(url)} has maxmemory-policy ${policy}; toolfleet needs noeviction`),
      { startRefused: true },
    );
  }
}

/** A connection as a part of a service (`LifecycleComponent` of libs/service): opened, checked, closed. */
export function redisPart(
  client: Redis,
  url: string,
  name = 'redis',
): { name: string; settings: readonly string[]; start(): Promise<void>; ready(): boolean; stop(): Promise<void> } {
  return {
    name,
    settings: ['REDIS_URL', 'REDIS_PASSWORD', 'REDIS_TLS_CA'],
    async start() {
      await openRedis(client, url);
      await requireNoEviction(client, url);
    },
    ready: () => client.status === 'ready',
    stop: () => closeRedis(client),
  };
}

/** Closes a connection after its pending commands; never fails and never waits for a Redis that is away. */
export async function closeRedis(client: Redis): Promise<void> {
  try {
    if (client.status === 'ready') await client.quit();
  } catch {
    // It broke while closing, which is closed as well.
  }
  client.disconnect();
}

function connectionOptions(address: RedisAddress, options: RedisConnectOptions): RedisOptions {
  const password = options.password ?? address.password;
  const isCommands = (options.role ?? 'commands') === 'commands';
  return {
    connectionName: options.name,
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    // A dead peer is noticed by TCP, a hanging one by the command timeout.
    keepAlive: 5_000,
    retryStrategy: reconnectDelay,
    reconnectOnError: afterDemotion,
    maxRetriesPerRequest: isCommands && !options.resend ? 1 : null,
    enableOfflineQueue: !isCommands,
    ...(options.autoPipelining ? { enableAutoPipelining: true } : {}),
    ...(isCommands ? { commandTimeout: options.commandTimeoutMs ?? COMMAND_TIMEOUT_MS } : {}),
    ...(address.username ? { username: address.username } : {}),
    ...(password ? { password } : {}),
    ...(address.db === undefined ? {} : { db: address.db }),
    ...(address.tls ? { tls: tlsOf(options) } : {}),
  };
}

const tlsOf = ({ tlsCa }: RedisConnectOptions) => (tlsCa ? { ca: tlsCa } : {});

const reconnectDelay = (attempt: number): number =>
  Math.min(RECONNECT_MAX_MS, RECONNECT_MIN_MS * 2 ** Math.min(attempt, 10));

/**
 * A primary that a failover made a replica keeps its connections and refuses writes: connect again to the new one. 2: and
 * send the command there, because a refused one has changed nothing (a script is refused at its first write).
 */
const afterDemotion = (error: Error): false | 2 => (error.message.startsWith('READONLY') ? 2 : false);

/** One line per outage; ioredis reports every attempt. */
function followState(client: Redis, address: string, log: RedisLog | undefined): void {
  let wasReady = false;
  let isAway = false;
  client.on('error', (error: Error) => {
    if (!wasReady || isAway) return;
    isAway = true;
    log?.warn(`Redis at ${address} is away: ${error.message || codeOf(error)}`);
  });
  client.on('close', () => {
    if (!wasReady || isAway || client.status === 'end') return;
    isAway = true;
    log?.warn(`Redis at ${address} closed the connection`);
  });
  client.on('ready', () => {
    if (isAway) log?.info(`Redis at ${address} is back`);
    wasReady = true;
    isAway = false;
  });
}

/** A cluster whose nodes give no usable address neither connects nor fails. */
function tooLate(): Promise<never> {
  const signal = AbortSignal.timeout(OPEN_TIMEOUT_MS);
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`not usable within ${OPEN_TIMEOUT_MS} ms`)));
  });
}

function becomesReady(client: Redis): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: unknown): void => {
      client.off('ready', onReady);
      client.off('error', onError);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onReady = (): void => end();
    const onError = (error: unknown): void => end(error);
    client.on('ready', onReady);
    client.on('error', onError);
  });
}

const codeOf = (error: unknown): string => {
  if (typeof error === 'object' && error !== null) {
    if ('code' in error && typeof error.code === 'string') return error.code;
    // WRONGPASS, NOAUTH and NOPERM come as the first word of the message.
    if ('message' in error) return /^(WRONGPASS|NOAUTH|NOPERM)\b/.exec(String(error.message))?.[1] ?? 'REDIS_AWAY';
  }
  return 'REDIS_AWAY';
};
