import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import { Cluster, type Redis } from 'ioredis';

const REFRESH_MS = 15_000;

/**
 * Keeps `toolfleet_redis_memory_used_bytes` and `toolfleet_redis_memory_max_bytes`, of the fullest primary: a full
 * Redis refuses every write (`noeviction`).
 */
export class RedisMemory {
  readonly name = 'redis memory';
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly metrics: Metrics,
    private readonly clock: Clock,
  ) {}

  async start(): Promise<void> {
    await this.refresh().catch(() => undefined);
    this.#cancel = this.clock.after(REFRESH_MS, () => void this.start());
  }

  async stop(): Promise<void> {
    this.#cancel?.();
  }

  /** Reads the memory of all primaries now. */
  async refresh(): Promise<void> {
    const made: unknown = this.redis;
    const nodes = made instanceof Cluster ? made.nodes('master') : [this.redis];
    const states = await Promise.all(nodes.map(async (node) => parseMemory(await node.info('memory'))));
    const fullest = states.toSorted((a, b) => b.used / b.max - a.used / a.max)[0];
    if (!fullest) return;
    this.metrics.redisMemoryUsed.set(fullest.used);
    this.metrics.redisMemoryMax.set(fullest.max);
  }
}

/** Used and maximum bytes: `maxmemory`, or the memory of the machine if it is not set. */
function parseMemory(info: string): { used: number; max: number } {
  const number = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return { used: number('used_memory'), max: number('maxmemory') || number('total_system_memory') };
}
