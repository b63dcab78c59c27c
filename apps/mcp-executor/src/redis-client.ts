import { StartRefused, type ServicePart } from '@toolfleet/service';
import { Cluster, Redis, type RedisOptions } from 'ioredis';

/** A connection to one server or to a cluster; the stores use only what both offer. */
export type RedisClient = Redis | Cluster;

/** Longest pause between two attempts to connect again. */
const MAX_RECONNECT_MS = 1_000;

/**
 * A connection that is opened by its part. While Redis is away commands fail at once, and calls that need the journal are refused. Commands
 * that were on the way when the connection broke are sent again; every script of the journal may be repeated.
 */
export function createRedis(url: string, password: string | undefined): { redis: RedisClient; part: ServicePart } {
  const redis = clientOf(url, password);
  // Failures reach callers by their commands and `ready` by the status; without a listener ioredis prints each of them.
  redis.on('error', () => undefined);
  return {
    redis,
    part: {
      name: 'redis',
      start: async () => {
        if (redis.status === 'wait' || redis.status === 'end' || redis.status === 'close') await redis.connect();
        await refuseEviction(redis);
      },
      ready: () => redis.status === 'ready',
      stop: async () => redis.disconnect(),
    },
  };
}

function clientOf(url: string, password: string | undefined): RedisClient {
  const [scheme = 'redis', kind] = url.slice(0, url.indexOf(':')).split('+');
  const nodes = url.split(',').map((node) => new URL(`${scheme}://${node.trim().replace(/^[a-z+]+:\/\//i, '')}`));
  const first = nodes[0] ?? new URL('redis://127.0.0.1:6379');
  const secret = password ?? (decodeURIComponent(first.password) || undefined);
  const options: RedisOptions = {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    connectionName: 'toolfleet-mcp-executor',
    retryStrategy: (attempt) => Math.min(50 * attempt, MAX_RECONNECT_MS),
    ...(first.username ? { username: decodeURIComponent(first.username) } : {}),
    ...(secret ? { password: secret } : {}),
    ...(scheme === 'rediss' ? { tls: {} } : {}),
  };
  const addresses = nodes.map((node) => ({ host: node.hostname, port: Number(node.port || 6379) }));
  if (kind === 'cluster') {
    return new Cluster(addresses, { lazyConnect: true, enableOfflineQueue: false, redisOptions: options });
  }
  const db = Number(first.pathname.slice(1)) || 0;
  if (kind === 'sentinel') {
    return new Redis({ ...options, sentinels: addresses, name: first.searchParams.get('name') ?? 'mymaster', db });
  }
  return new Redis({ ...options, ...addresses[0], db });
}

/** A Redis that evicts keys would silently forget calls. */
async function refuseEviction(redis: RedisClient): Promise<void> {
  const memory = await redis.info('memory');
  const policy = /maxmemory_policy:(\S+)/.exec(memory)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    throw new StartRefused(`Redis has maxmemory-policy ${policy}; the call journal needs noeviction`);
  }
}
