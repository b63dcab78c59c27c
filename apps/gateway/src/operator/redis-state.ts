import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import { Cluster, type Redis } from 'ioredis';

const REFRESH_MS = 15_000;
/** Older values are not shown. */
const STALE_MS = 3 * REFRESH_MS;

/**
 * Keeps the metrics of Redis: `toolfleet_redis_memory_…`, of the fullest primary, because a full Redis refuses every write
 * (`noeviction`); `toolfleet_redis_replicas` and `…_replica_lag_seconds`, because a failover loses unreplicated writes.
 */
export function redisState(redis: Redis, metrics: Metrics, clock: Clock): Rounds {
  const { redisMemoryUsed, redisMemoryMax, redisReplicas, redisReplicaLag } = metrics;
  let readAt = 0;
  metrics.onScrape(() => {
    if (clock.monotonic() - readAt <= STALE_MS) return;
    for (const gauge of [redisMemoryUsed, redisMemoryMax, redisReplicas, redisReplicaLag]) gauge.remove({});
  });
  const work = async (): Promise<void> => {
    const made: unknown = redis;
    const nodes = made instanceof Cluster ? made.nodes('master') : [redis];
    const replicas = await Promise.all(nodes.map(async (node) => parseReplicas(await node.info('replication'))));
    redisReplicas.set(Math.min(...replicas.map(({ online }) => online)));
    redisReplicaLag.set(Math.max(...replicas.map(({ lagSeconds }) => lagSeconds)));
    const states = await Promise.all(nodes.map(async (node) => parseMemory(await node.info('memory'))));
    const fullest = states.toSorted((a, b) => b.used / b.max - a.used / a.max)[0];
    if (!fullest) return;
    redisMemoryUsed.set(fullest.used);
    redisMemoryMax.set(fullest.max);
    readAt = clock.monotonic();
  };
  return new Rounds({ name: 'state of redis', clock, firstMs: 0, everyMs: REFRESH_MS, work });
}

/** Online replicas of a primary, and the lag of the slowest: lines such as `slave0:ip=…,port=…,state=online,offset=…,lag=1`. */
function parseReplicas(info: string): { online: number; lagSeconds: number } {
  const lags = [...info.matchAll(/^slave\d+:.*\bstate=online\b.*\blag=(\d+)/gm)].map(([, lag]) => Number(lag));
  return { online: lags.length, lagSeconds: Math.max(0, ...lags) };
}

/** Used and maximum bytes: `maxmemory`, or the memory of the machine if it is not set. */
function parseMemory(info: string): { used: number; max: number } {
  const number = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return { used: number('used_memory'), max: number('maxmemory') || number('total_system_memory') };
}
