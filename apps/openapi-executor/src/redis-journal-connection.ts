import type { ServicePart } from '@toolfleet/service';
import { Cluster, Redis, type RedisOptions } from 'ioredis';

/** Longest pause between two attempts to connect again. */
const MAX_RECONNECT_MS = 1_000;

/**
 * The connection of the journal, opened by its part. While Redis is away a claim fails at once: a call that must not run
 * twice waits for nothing, its gateway sends it again within the deadline.
 */
export function journalConnection(
  url: string,
  password: string | undefined,
): { redis: Redis | Cluster; part: ServicePart } {
  const redis = connectionOf(url, password);
  // Failures reach callers by their commands and `ready` by the status; without a listener ioredis prints each of them.
  redis.on('error', () => undefined);
  return {
    redis,
    part: {
      name: 'journal',
      start: async () => {
        if (['wait', 'end', 'close'].includes(redis.status)) await redis.connect();
      },
      ready: () => redis.status === 'ready',
      stop: async () => redis.disconnect(),
    },
  };
}

/** `redis://`, `rediss://`, and `redis+cluster://` or `redis+sentinel://` with nodes separated by commas. */
function connectionOf(url: string, password: string | undefined): Redis | Cluster {
  const [scheme = 'redis', kind] = url.slice(0, url.indexOf(':')).split('+');
  const nodes = url.split(',').map((node) => new URL(`${scheme}://${node.trim().replace(/^[a-z+]+:\/\//i, '')}`));
  const first = nodes[0] as URL;
  const secret = password ?? (decodeURIComponent(first.password) || undefined);
  const options: RedisOptions = {
    lazyConnect: true,
    enableOfflineQueue: false,
    connectTimeout: 5_000,
    connectionName: 'toolfleet-openapi-executor',
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
