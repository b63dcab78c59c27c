/**
 * Busy and total slots of the workers of a queue, for operators' views: a hash `{fleet}:<queue>:slots` with one field per worker,
 * written every few seconds. It is kept in Redis because workers of the sandbox are connected to Redis only.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isJsonObject, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

const EVERY_MS = 5_000;
/** A worker that missed three writes is gone. */
const GONE_MS = 3 * EVERY_MS;

/** One worker process of a queue. */
export interface WorkerSlots {
  worker: string;
  busy: number;
  total: number;
}

const slotsKey = (queue: string): string => `${QUEUE_PREFIX}:${queue}:slots`;

/** Writes the slots of one worker periodically until it is stopped. A failed write is ignored, because the next one repeats it. */
export class SlotReport {
  readonly #worker = randomUUID().slice(0, 8);
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly queue: string,
    private readonly clock: Clock,
    /** Current slots, and the time by the clock of Redis. */
    private readonly read: () => { busy: number; total: number; at: EpochMs },
  ) {}

  start(): void {
    if (this.redis.status === 'ready') {
      const key = slotsKey(this.queue);
      this.redis.hset(key, this.#worker, JSON.stringify(this.read())).catch(() => undefined);
      this.redis.pexpire(key, GONE_MS).catch(() => undefined);
    }
    this.#cancel = this.clock.after(EVERY_MS, () => this.start());
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.redis.status === 'ready') this.redis.hdel(slotsKey(this.queue), this.#worker).catch(() => undefined);
  }
}

/**
 * How long the workers of a queue still count as alive; 0 without any. The last worker that stops removes the hash, and the hash of
 * killed workers expires.
 */
export async function workersAliveMs(redis: Redis, queue: string): Promise<Milliseconds> {
  return Math.max(0, await redis.pttl(slotsKey(queue)));
}

/** Workers that wrote their slots recently. Entries of killed workers are removed. */
export async function readSlots(redis: Redis, queue: string, now: EpochMs): Promise<WorkerSlots[]> {
  const found: WorkerSlots[] = [];
  const gone: string[] = [];
  for (const [worker, text] of Object.entries(await redis.hgetall(slotsKey(queue)))) {
    const value: unknown = JSON.parse(text);
    const { busy, total, at } = isJsonObject(value) ? value : {};
    if (typeof busy === 'number' && typeof total === 'number' && typeof at === 'number' && now - at < GONE_MS)
      found.push({ worker, busy, total });
    else gone.push(worker);
  }
  if (gone.length > 0) await redis.hdel(slotsKey(queue), ...gone);
  return found;
}
