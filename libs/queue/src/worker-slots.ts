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

/** How long a job that found no slot for its share waits before it is taken again; longer each time. */
const PARK_MS = { first: 250, max: 5_000 };
/** Parked jobs that a worker remembers per share. */
const MAX_PARKED = 1_000;

/** A job that was taken and put back. */
interface ParkedJob {
  id?: string;
  /** When it was added. */
  timestamp: number;
  attemptsStarted: number;
  promote(): Promise<void>;
}

/**
 * Divides the slots of one worker between shares such as tenants: one share holds all of them but one, so that a share whose jobs
 * wait for something else leaves a slot to the others. A worker with one slot gives it to any share. A job beyond is parked: it
 * goes back to the queue, and is taken again when its share frees a slot, here or on another worker.
 */
export class SlotShares {
  readonly #max: number;
  readonly #held = new Map<string, number>();
  /** Oldest first. */
  readonly #parked = new Map<string, ParkedJob[]>();

  constructor(slots: number) {
    this.#max = Math.max(1, slots - 1);
  }

  /** Takes a slot, unless the share has as many as it may; then the job has to be put back for the returned time. */
  take(share: string, job: ParkedJob): { parkedMs?: Milliseconds } {
    const held = this.#held.get(share) ?? 0;
    if (held < this.#max) {
      this.#held.set(share, held + 1);
      return {};
    }
    const parked = (this.#parked.get(share) ?? []).filter(({ id }) => id !== job.id);
    const at = parked.findLastIndex(({ timestamp }) => timestamp <= job.timestamp) + 1;
    this.#parked.set(share, parked.toSpliced(at, 0, job).slice(0, MAX_PARKED));
    return { parkedMs: Math.min(PARK_MS.max, PARK_MS.first * 2 ** (job.attemptsStarted - 1)) };
  }

  /** Frees a slot. */
  free(share: string): void {
    const held = (this.#held.get(share) ?? 1) - 1;
    if (held > 0) this.#held.set(share, held);
    else this.#held.delete(share);
    const [next, ...rest] = this.#parked.get(share) ?? [];
    if (rest.length > 0) this.#parked.set(share, rest);
    else this.#parked.delete(share);
    // It may have been taken meanwhile, or removed.
    next?.promote().catch(() => undefined);
  }
}

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
