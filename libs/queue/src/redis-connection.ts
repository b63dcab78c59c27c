/**
 * Connections to Redis (see redis-address.ts for addresses). They are opened lazily, so that a service can be wired before its broker is
 * running, and reconnect without limit. An outage is logged once when it starts and once when it ends.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { TLSSocket } from 'node:tls';
import { isDevelopment } from '@toolfleet/contracts';
import { atTurnEnd, SystemClock } from '@toolfleet/resilience';
import { Cluster, Redis, SentinelConnector, type RedisOptions } from 'ioredis';
import { parseAddress, publicAddress, type RedisAddress } from './redis-address.js';
import { decodeInOneLoop } from './reply-decoder.js';

decodeInOneLoop();

/** Logger of connection states, such as a pino logger. */
interface RedisLog {
  warn(message: string): void;
  info(message: string): void;
}

/**
 * Purpose of a connection. `commands` fails at once while Redis is unavailable, and after `commandTimeoutMs` when it hangs. `blocking`,
 * for workers and subscribers, waits until Redis is available again.
 */
type RedisRole = 'commands' | 'blocking';

interface RedisConnectOptions {
  /** Connection name, shown by `CLIENT LIST`. */
  name: string;
  /** Overrides the user in the URL. */
  username?: string;
  /** Overrides the password in the URL. */
  password?: string;
  /** Password of the Sentinels. */
  sentinelPassword?: string;
  /** CA of the servers in PEM, for addresses with TLS; by default the CAs of the system. */
  tlsCa?: string;
  role?: RedisRole;
  /** `redisComponent` refuses a server that does not keep an append-only file. Default false. */
  requireAof?: boolean;
  /**
   * Repeats commands that were in flight when the connection broke instead of failing them; `commands` only. Use it only for commands
   * that may run twice: reads and idempotent scripts.
   */
  resend?: boolean;
  /** Longest wait for the reply to one command; `commands` only. Default 2,000. */
  commandTimeoutMs?: number;
  log?: RedisLog;
}

/** The settings of a service with which it logs in to Redis (`REDIS_KEYS` of libs/service). */
export interface RedisSettings {
  REDIS_PASSWORD?: string;
  /** Password of the Sentinels. */
  REDIS_SENTINEL_PASSWORD?: string;
  /** File with the CA of the servers. */
  REDIS_TLS_CA?: string;
  /** Refuse a server without an append-only file, unless ENVIRONMENT is one of development. */
  REDIS_REQUIRE_AOF?: boolean;
  ENVIRONMENT?: string;
}

/**
 * Connection options from the settings of a service; an empty value counts as absent.
 * @throws Error with `startRefused` when the CA file cannot be read
 */
export function toRedisOptions(
  settings: RedisSettings,
): Pick<RedisConnectOptions, 'password' | 'sentinelPassword' | 'tlsCa' | 'requireAof'> {
  return {
    requireAof: settings.REDIS_REQUIRE_AOF === true && !isDevelopment(settings.ENVIRONMENT ?? ''),
    password: settings.REDIS_PASSWORD || undefined,
    sentinelPassword: settings.REDIS_SENTINEL_PASSWORD || undefined,
    tlsCa: settings.REDIS_TLS_CA ? readCa(settings.REDIS_TLS_CA) : undefined,
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

const COMMAND_TIMEOUT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 5_000;
const OPEN_TIMEOUT_MS = 10_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;

/** Connections whose server has to keep an append-only file. */
const durable = new WeakSet<Redis>();

/**
 * Creates a connection; `openRedis` or the first command opens it. For a cluster address it is a `Cluster` with the same commands;
 * there, the keys of one script must share a hash tag.
 * @throws Error with `startRefused` for an invalid address
 */
export function connectRedis(url: string, options: RedisConnectOptions): Redis {
  const address = parseAddress(url);
  const client = clientFor(address, connectionOptions(address, options), options);
  followState(client, publicAddress(url), options.log);
  if (options.requireAof) durable.add(client);
  return client;
}

/**
 * Sends all commands of one turn of the event loop in one write. Pipelines of ioredis (`enableAutoPipelining`) cost twice as much per
 * command, and keep the commands of a turn until the pipeline before them is answered.
 */
function writeOncePerTurn(client: Redis, timeoutMs: number | undefined): Redis {
  const send = client.sendCommand.bind(client);
  let held: Redis['stream'] | undefined;
  client.sendCommand = (command, stream) => {
    if (timeoutMs !== undefined) endInTime(command, timeoutMs);
    const socket = client.stream as Redis['stream'] | undefined;
    if (socket && socket !== held) {
      held = socket;
      socket.cork();
      atTurnEnd(() => {
        socket.uncork();
        if (held === socket) held = undefined;
      });
    }
    return send(command, stream);
  };
  return client;
}

const CLOCK = new SystemClock();

/** As `commandTimeout` of ioredis, without a timer of Node for each command. */
function endInTime(command: Parameters<Redis['sendCommand']>[0], timeoutMs: number): void {
  const cancel = CLOCK.after(timeoutMs, () => command.reject(new Error('Command timed out')));
  command.promise.then(cancel, cancel);
}

function clientFor(address: RedisAddress, base: RedisOptions, options: RedisConnectOptions): Redis {
  const { role = 'commands', commandTimeoutMs = COMMAND_TIMEOUT_MS } = options;
  const timeoutMs = role === 'commands' ? commandTimeoutMs : undefined;
  if (address.kind === 'single') return writeOncePerTurn(new Redis({ ...base, ...address.nodes[0] }), timeoutMs);
  if (address.kind === 'sentinel') {
    const client = new Redis({
      ...base,
      sentinels: address.nodes,
      name: address.master ?? '',
      sentinelRetryStrategy: reconnectDelay,
      sentinelPassword: options.sentinelPassword || undefined,
      // `tls` alone would leave the connections to the Sentinels unencrypted.
      enableTLSForSentinelMode: address.tls,
      sentinelTLS: address.tls ? toTlsOptions(options) : undefined,
      Connector: FailoverConnector,
      failoverDetector: true,
    });
    return writeOncePerTurn(client, timeoutMs);
  }
  const cluster = new Cluster(address.nodes, {
    redisOptions: base,
    lazyConnect: true,
    enableOfflineQueue: base.enableOfflineQueue ?? true,
    clusterRetryStrategy: reconnectDelay,
  });
  cluster.on('+node', (node: Redis) => writeOncePerTurn(node, timeoutMs));
  return cluster as unknown as Redis;
}

/**
 * Leaves a primary as soon as a Sentinel announces another one. After a failover on purpose, or behind a partition, the former primary
 * takes writes until Sentinel makes it a replica, seconds later, and then forgets them.
 */
class FailoverConnector extends SentinelConnector {
  constructor(options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0]);
    // ioredis would print every failed attempt to listen at a Sentinel that is down.
    const connect = Reflect.get(this, 'connectToSentinel') as (...args: unknown[]) => Redis;
    const connectToSentinel = (...args: unknown[]): Redis => connect.apply(this, args).on('error', () => undefined);
    Object.assign(this, { connectToSentinel });
  }
}

/** Opens a connection and waits until it is ready. Rejects with a one-line reason; may be called again after a failure. */
export async function openRedis(client: Redis, url: string): Promise<void> {
  if (client.status === 'ready') return;
  // A wrong password or a TLS failure rejects as "Connection is closed"; only the event has the reason.
  let lastError: unknown;
  const onError = (error: unknown): void => void (lastError = error);
  client.on('error', onError);
  try {
    const opening = client.status === 'wait' || client.status === 'end' ? client.connect() : once(client, 'ready');
    await Promise.race([opening, openTimeout()]);
  } catch (error) {
    const known = lastError ?? error;
    const reason = known instanceof Error ? known.message || (known as NodeJS.ErrnoException).code : String(known);
    throw Object.assign(new Error(`no Redis at ${publicAddress(url)}: ${reason}`), { code: errorCode(known) });
  } finally {
    client.off('error', onError);
  }
}

/** Share of `maxmemory` from which on a server counts as full. */
const FULL = 0.95;

/**
 * Finds settings and states with which a server loses or refuses what services store: eviction, no append-only file or one that cannot be
 * written, no free memory. A connection that has seen an append-only file requires it from then on. That the file is synced
 * (`appendfsync`) is checked for logins without a user name, which may read the configuration; a user of `redis.acl.template` may not.
 * @returns one sentence each; a server that is full starts and serves reads
 */
export async function unsafeSettings(client: Redis, url: string): Promise<{ refused: string[]; full: string[] }> {
  const [refused, full]: [string[], string[]] = [[], []];
  const remedy = 'set it, or REDIS_REQUIRE_AOF=false for a server that is durable without it';
  for (const node of primaries(client)) {
    const info = `${await node.info('memory')}${await node.info('persistence')}`;
    const read = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
    const policy = read('maxmemory_policy') ?? 'noeviction';
    if (policy !== 'noeviction') refused.push(`has maxmemory-policy ${policy}; toolfleet needs noeviction`);
    if (read('aof_enabled') === '1') durable.add(client);
    if (durable.has(client)) {
      if (read('aof_enabled') === '0') refused.push(`has no append-only file (appendonly yes); ${remedy}`);
      // Managed servers refuse the command.
      const fsync = node.options.username ? [] : await node.config('GET', 'appendfsync').catch(() => []);
      if ((fsync as string[])[1] === 'no') refused.push(`has appendfsync no (needs everysec or always); ${remedy}`);
    }
    if (read('aof_last_write_status') === 'err') full.push('cannot write its append-only file; free its disk');
    const [used, most] = [Number(read('used_memory')), Number(read('maxmemory'))];
    if (most > 0 && used >= most * FULL)
      full.push(`uses ${toMiB(used)} of ${toMiB(most)} MiB and refuses writes when it is full; raise maxmemory`);
  }
  const named = (what: string) => `Redis at ${publicAddress(url)} ${what}`;
  return { refused: refused.map(named), full: full.map(named) };
}

const toMiB = (bytes: number): number => Math.round(bytes / (1024 * 1024));

function primaries(client: Redis): Redis[] {
  const connection: unknown = client;
  return connection instanceof Cluster ? connection.nodes('master') : [client];
}

/**
 * Lifecycle component (see libs/service) that opens, checks and closes a connection. It is ready while the server answers `PING`: a
 * server that hangs keeps its connections, so their state shows nothing. Of a cluster one primary has to answer, because the keys of the
 * others can still be used.
 */
export function redisComponent(client: Redis, url: string, name = 'redis') {
  let probe: Promise<boolean> | undefined;
  const ping = () =>
    Promise.any(primaries(client).map((node) => node.ping())).then(
      () => true,
      () => false,
    );
  return {
    name,
    settings: ['REDIS_URL', 'REDIS_PASSWORD', 'REDIS_TLS_CA'],
    async start() {
      await openRedis(client, url);
      const [refused] = (await unsafeSettings(client, url)).refused;
      // Ends the service instead of retrying its start.
      if (refused !== undefined) throw Object.assign(new Error(refused), { startRefused: true });
    },
    async ready() {
      if (client.status !== 'ready') return false;
      // Shared, so that probes do not pile up on a connection that hangs; the caller has a deadline.
      return (probe ??= ping().finally(() => (probe = undefined)));
    },
    expiresAt: () => peerExpiry(primaries(client).map((node) => node.stream)),
    stop: () => closeRedis(client),
  };
}

/** When the first certificate that these servers presented expires. */
function peerExpiry(streams: readonly unknown[]): Date | undefined {
  const ends = streams.flatMap((stream) =>
    stream instanceof TLSSocket ? Date.parse(stream.getPeerCertificate().valid_to) : [],
  );
  const valid = ends.filter(Number.isFinite);
  return valid.length === 0 ? undefined : new Date(Math.min(...valid));
}

/** Closes a connection after its pending commands. Never rejects, and does not wait if Redis is unavailable. */
export async function closeRedis(client: Redis): Promise<void> {
  try {
    if (client.status === 'ready') await client.quit();
  } catch {
    // The connection broke, so it is closed.
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
    // TCP keepalive detects a dead peer, the command timeout a hanging one.
    keepAlive: 5_000,
    retryStrategy: reconnectDelay,
    reconnectOnError: afterDemotion,
    maxRetriesPerRequest: isCommands && !options.resend ? 1 : null,
    enableOfflineQueue: !isCommands,
    username: options.username ?? (address.username || undefined),
    password: password || undefined,
    db: address.db,
    tls: address.tls ? toTlsOptions(options) : undefined,
  };
}

const toTlsOptions = ({ tlsCa }: RedisConnectOptions) => (tlsCa ? { ca: tlsCa } : {});

const reconnectDelay = (attempt: number): number =>
  Math.min(RECONNECT_MAX_MS, RECONNECT_MIN_MS * 2 ** Math.min(attempt, 10));

/**
 * A primary that a failover demoted to a replica keeps its connections and refuses writes. 2 tells ioredis to reconnect and to repeat the
 * command. This is safe: a refused command changed nothing, and a script is refused at its first write.
 */
const afterDemotion = (error: Error): false | 2 => (error.message.startsWith('READONLY') ? 2 : false);

/** Logs an outage once, although ioredis reports every attempt. */
function followState(client: Redis, address: string, log: RedisLog | undefined): void {
  let wasReady = false;
  let isAway = false;
  client.on('error', (error: Error) => {
    if (!wasReady || isAway) return;
    isAway = true;
    log?.warn(`Redis at ${address} is unavailable: ${error.message || errorCode(error)}`);
  });
  client.on('close', () => {
    if (!wasReady || isAway || client.status === 'end') return;
    isAway = true;
    log?.warn(`Redis at ${address} closed the connection`);
  });
  client.on('ready', () => {
    if (isAway) log?.info(`Redis at ${address} is available again`);
    wasReady = true;
    isAway = false;
  });
}

/** Rejects after `OPEN_TIMEOUT_MS`. A cluster with nodes that announce unusable addresses neither connects nor fails. */
function openTimeout(): Promise<never> {
  const signal = AbortSignal.timeout(OPEN_TIMEOUT_MS);
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`not usable within ${OPEN_TIMEOUT_MS} ms`)));
  });
}

const errorCode = (error: unknown): string => {
  if (typeof error === 'object' && error !== null) {
    if ('code' in error && typeof error.code === 'string') return error.code;
    // WRONGPASS, NOAUTH and NOPERM come as the first word of the message.
    if ('message' in error) return /^(WRONGPASS|NOAUTH|NOPERM)\b/.exec(String(error.message))?.[1] ?? 'REDIS_AWAY';
  }
  return 'REDIS_AWAY';
};

/**
 * Detects that Redis may have lost acknowledged writes. A primary gets a new replication id when it starts and when a failover promotes
 * it. In both cases writes can be missing: the tail of the append-only file that was not synced, or what had not reached the replica.
 */
export class StoreGeneration {
  constructor(private readonly redis: Redis) {}

  /** The current generation: the replication ids of all primaries. Rejects while one of them is unavailable. */
  async read(): Promise<string> {
    const ids = await Promise.all(
      primaries(this.redis).map(async (node) => replicationId(await node.info('replication'))),
    );
    return ids.toSorted().join(' ');
  }
}

function replicationId(info: string): string {
  const id = /^master_replid:(\S+)/m.exec(info)?.[1];
  if (id === undefined) throw new Error('INFO replication has no master_replid');
  return id;
}
