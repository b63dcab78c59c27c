/**
 * What the workers of a queue do at the moment, for operators' views: a hash `{fleet}:<queue>:slots` with one field per
 * worker, written every few seconds. Workers of the sandbox speak to nobody but Redis, so this is the one way that
 * reaches every one of them.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isJsonObject, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

const EVERY_MS = 5_000;
/** Three missed writes: the worker is gone. */
const GONE_MS = 3 * EVERY_MS;

/** One worker process of a queue. */
export interface WorkerSlots {
  worker: string;
  busy: number;
  total: number;
}

const keyOf = (queue: string): string => `${QUEUE_PREFIX}:${queue}:slots`;

/** Writes the slots of one worker until it is stopped. Redis being away is nobody's trouble: the next turn writes again. */
export class SlotReport {
  readonly #worker = randomUUID().slice(0, 8);
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly queue: string,
    private readonly clock: Clock,
    /** Slots now, and Redis' own time. */
    private readonly read: () => { busy: number; total: number; at: EpochMs },
  ) {}

  start(): void {
    if (this.redis.status === 'ready') {
      const key = keyOf(this.queue);
      this.redis.hset(key, this.#worker, JSON.stringify(this.read())).catch(() => undefined);
      this.redis.pexpire(key, GONE_MS).catch(() => undefined);
    }
    this.#cancel = this.clock.after(EVERY_MS, () => this.start());
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.redis.status === 'ready') this.redis.hdel(keyOf(this.queue), this.#worker).catch(() => undefined);
  }
}

/**
 * How long the workers of a queue still count as alive, for services that only list what the fleet can do; 0 without any.
 * What they wrote is gone with the last that stops, and ends by itself when they are killed.
 */
export async function workersAliveMs(redis: Redis, queue: string): Promise<Milliseconds> {
  return Math.max(0, await redis.pttl(keyOf(queue)));
}

/** The workers of a queue that wrote lately. Forgets those that were killed. */
export async function readSlots(redis: Redis, queue: string, now: EpochMs): Promise<WorkerSlots[]> {
  const found: WorkerSlots[] = [];
  const gone: string[] = [];
  for (const [worker, text] of Object.entries(await redis.hgetall(keyOf(queue)))) {
    const value: unknown = JSON.parse(text);
    const { busy, total, at } = isJsonObject(value) ? value : {};
    if (typeof busy === 'number' && typeof total === 'number' && typeof at === 'number' && now - at < GONE_MS)
      found.push({ worker, busy, total });
    else gone.push(worker);
  }
  if (gone.length > 0) await redis.hdel(keyOf(queue), ...gone);
  return found;
}
