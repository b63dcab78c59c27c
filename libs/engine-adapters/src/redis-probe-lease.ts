import type { Cluster, Redis } from 'ioredis';
import type { Clock, ProbeLease } from '@toolfleet/resilience';
import { StoreHealth } from '@toolfleet/queue/redis';

const REDIS_TIMEOUT_MS = 100;
/** A probe without a result for this long counts as failed; the next gateway may probe. */
const PROBE_LEASE_MS = 5_000;

/**
 * Allows one half-open probe in the whole fleet: the gateway that sets the key in Redis sends it. While Redis is unavailable
 * each gateway sends its own.
 */
export function redisProbeLease(redis: Redis | Cluster, clock: Clock): ProbeLease {
  const health = new StoreHealth(clock, REDIS_TIMEOUT_MS);
  return async (name, forMs) => {
    if (redis.status !== 'ready') return true;
    const reply = await health.run(async () => ({
      acquired: (await redis.set(`probe:${name}`, '1', 'PX', Math.min(forMs, PROBE_LEASE_MS), 'NX')) === 'OK',
    }));
    return reply?.acquired ?? true;
  };
}
