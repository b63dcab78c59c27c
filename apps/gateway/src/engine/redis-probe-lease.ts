import type { Cluster, Redis } from 'ioredis';
import type { Clock, ProbeLease } from '@toolfleet/resilience';
import { StoreHealth } from './store-health.js';

const PATIENCE_MS = 100;
/** A probe that has said nothing for so long has failed; the next process may try. */
const LEASE_MS = 5_000;

/**
 * One half-open probe in the whole fleet: the process that sets the key sends it. While Redis is away
 * each gateway sends its own.
 */
export function redisProbeLease(redis: Redis | Cluster, clock: Clock): ProbeLease {
  const trust = new StoreHealth(clock, PATIENCE_MS);
  return async (name, forMs) => {
    if (redis.status !== 'ready') return true;
    const set = await trust.ask(async () => ({
      mine: (await redis.set(`probe:${name}`, '1', 'PX', Math.min(forMs, LEASE_MS), 'NX')) === 'OK',
    }));
    return set?.mine ?? true;
  };
}
