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

/** Longest wait of a taken job for a slot of its share, and how long after a slot was freed another one is expected. */
const HOLD_MS = 50;
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

/** The slots of one share. */
interface Share {
  held: number;
  /** When one was freed. */
  freedAt: Milliseconds;
  /** Taken jobs that wait for a slot, oldest first: each takes it over. */
  readonly waiting: (() => void)[];
  /** Oldest first. */
  parked: ParkedJob[];
}

/**
 * Divides the slots of one worker between shares such as tenants: one share holds all of them but one, so that a share with jobs that
 * wait for something else leaves a slot to the others. A worker with one slot gives it to any share. A job beyond waits a moment if the
 * jobs of its share are short. Otherwise it is parked: it goes back to the queue, and is taken again when its share frees a slot, here
 * or on another worker.
 */
export class SlotShares {
  readonly #max: number;
  readonly #shares = new Map<string, Share>();

  constructor(
    slots: number,
    private readonly clock: Clock,
  ) {
    this.#max = Math.max(1, slots - 1);
  }

  /** Takes a slot, unless the share has as many as it may; then the job has to be put back for the returned time. */
  async take(name: string, job: ParkedJob): Promise<{ parkedMs?: Milliseconds }> {
    let share = this.#shares.get(name);
    if (!share) this.#shares.set(name, (share = { held: 0, freedAt: -Infinity, waiting: [], parked: [] }));
    if (share.held < this.#max) {
      share.held += 1;
      return {};
    }
    if (this.clock.monotonic() - share.freedAt < HOLD_MS && (await this.#takeOver(share))) return {};
    const parked = share.parked.filter(({ id }) => id !== job.id);
    const at = parked.findLastIndex(({ timestamp }) => timestamp <= job.timestamp) + 1;
    share.parked = parked.toSpliced(at, 0, job).slice(0, MAX_PARKED);
    return { parkedMs: Math.min(PARK_MS.max, PARK_MS.first * 2 ** (job.attemptsStarted - 1)) };
  }

  /** Whether a share has parked jobs and no slot for them. */
  get hasParked(): boolean {
    return this.#shares.values().some(({ held, parked }) => held >= this.#max && parked.length > 0);
  }

  /** Waits for a slot that is freed; false when none is. */
  #takeOver({ waiting }: Share): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.clock.after(HOLD_MS, () => {
        waiting.splice(waiting.indexOf(taken), 1);
        resolve(false);
      });
      const taken = (): void => {
        cancel();
        resolve(true);
      };
      waiting.push(taken);
    });
  }

  /** Frees a slot, for a job that waits for it. A parked job is taken again, so that its turn comes next. */
  free(name: string): void {
    const share = this.#shares.get(name);
    if (!share) return;
    share.freedAt = this.clock.monotonic();
    const takeOver = share.waiting.shift();
    if (takeOver) takeOver();
    else share.held -= 1;
    // It may have been taken meanwhile, or removed.
    share.parked
      .shift()
      ?.promote()
      .catch(() => undefined);
    if (share.held === 0 && share.parked.length === 0) this.#shares.delete(name);
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
