/** Compares the data of a Redis before and after a restart. */
import type { RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';

/** Keys with their content as JSON and the instant of their expiry, -1 if they do not expire. */
export type RedisContents = Record<string, { content: string; expiresAt: number }>;

/** How a server ended before it was started again. */
export type RedisEnd = 'a clean shutdown' | 'SIGKILL';

/** Restarts a server on its data. */
export async function restartRedis(server: RedisServer, after: RedisEnd): Promise<void> {
  if (after === 'SIGKILL') await server.kill();
  await server.restart();
}

/** Reads all keys of all types, in an order that a restart does not change. */
export async function redisContents(redis: Redis): Promise<RedisContents> {
  const read = async (key: string) => {
    const [content, expiresAt] = await Promise.all([contentOf(redis, key), redis.pexpiretime(key)]);
    return [key, { content: JSON.stringify(content), expiresAt }] as const;
  };
  return Object.fromEntries(await Promise.all((await redis.keys('*')).map(read)));
}

/** Without keys that have expired, also those that did while they were read (expiry -2). */
export const unexpired = (contents: RedisContents, now: number): RedisContents =>
  Object.fromEntries(Object.entries(contents).filter(([, { expiresAt }]) => expiresAt === -1 || expiresAt > now));

async function contentOf(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  if (type === 'hash') return Object.entries(await redis.hgetall(key)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (type === 'set') return (await redis.smembers(key)).toSorted();
  if (type === 'zset') return redis.zrange(key, '0', '-1', 'WITHSCORES');
  if (type === 'list') return redis.lrange(key, 0, -1);
  return type === 'stream' ? redis.xrange(key, '-', '+') : redis.get(key);
}
