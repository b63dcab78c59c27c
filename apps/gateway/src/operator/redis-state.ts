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
export class RedisState {
  readonly name = 'state of redis';
  readonly #rounds: Rounds;
  #readAt = 0;

  constructor(
    private readonly redis: Redis,
    private readonly metrics: Metrics,
    private readonly clock: Clock,
  ) {
    this.#rounds = new Rounds({ clock, everyMs: REFRESH_MS, work: () => this.refresh() });
    metrics.onScrape(() => {
      if (clock.monotonic() - this.#readAt > STALE_MS) this.#dropAll();
    });
  }

  async start(): Promise<void> {
    await this.#rounds.run();
    this.#rounds.start();
  }

  async stop(): Promise<void> {
    void this.#rounds.stop();
  }

  /** Reads the memory and the replicas of all primaries now. */
  async refresh(): Promise<void> {
    const made: unknown = this.redis;
    const nodes = made instanceof Cluster ? made.nodes('master') : [this.redis];
    const replicas = await Promise.all(nodes.map(async (node) => parseReplicas(await node.info('replication'))));
    this.metrics.redisReplicas.set(Math.min(...replicas.map(({ online }) => online)));
    this.metrics.redisReplicaLag.set(Math.max(...replicas.map(({ lagSeconds }) => lagSeconds)));
    const states = await Promise.all(nodes.map(async (node) => parseMemory(await node.info('memory'))));
    const fullest = states.toSorted((a, b) => b.used / b.max - a.used / a.max)[0];
    if (!fullest) return;
    this.metrics.redisMemoryUsed.set(fullest.used);
    this.metrics.redisMemoryMax.set(fullest.max);
    this.#readAt = this.clock.monotonic();
  }

  #dropAll(): void {
    const { redisMemoryUsed, redisMemoryMax, redisReplicas, redisReplicaLag } = this.metrics;
    for (const gauge of [redisMemoryUsed, redisMemoryMax, redisReplicas, redisReplicaLag]) gauge.remove({});
  }
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
