import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import { toExactJson } from '@toolfleet/contracts/json-text';
import type { Redis } from 'ioredis';
import { NoPlace } from './fair-share.js';
import {
  cancelChannel,
  DEFAULT_MAX_LENGTH,
  DEFAULT_RETENTION_COUNT,
  DEFAULT_RETENTION_SECONDS,
  type JobData,
  type JobRecord,
} from './jobs.js';
import { ALL_STATES, QueueShard, type ShardRecord } from './queue-shard.js';
import { ShardNumbers, shardOf } from './shard-numbers.js';
import type { RedisTime } from './redis-time.js';
import { orUnavailable } from './store-health.js';
import { vouchFor } from './vouched-jobs.js';
import { readSlots, type WorkerSlots } from './worker-slots.js';

interface JobQueueOptions<D extends JobData = JobData> {
  name: string;
  /** Connection with role `commands`, so that adding fails at once while Redis is unavailable. */
  redis: Redis;
  time: RedisTime;
  /** Hash tags over which the jobs are spread (shard-numbers.ts). Default 1. */
  shards?: number;
  /**
   * Jobs that may wait, divided between the shards; more are refused as QUEUE_FULL. With `shareOf`, 10 % more are accepted from shares
   * with fewer than ten waiting jobs. Default 1,000.
   */
  maxLength?: number;
  /** Bytes of the jobs of a share above 64 KiB, from their addition to their end, divided between the shards. Default 64 MiB. */
  maxShareBytes?: number;
  /** How long finished records are kept. Default 86,400 s. */
  retentionSeconds?: number;
  /** How long records of successful jobs are kept. Default `retentionSeconds`. */
  completedSeconds?: number;
  retentionCount?: number;
  /** The share of a job, such as its tenant. Jobs are taken in fair order between shares, in each shard. */
  shareOf?: (data: D) => string;
}

type JobStateCounted = (typeof ALL_STATES)[number];

/** How long the reservation of an id outlives the deadline of its job, and of a job without a deadline. */
const RESERVED_MS = { pastDeadline: 600_000, without: 3_600_000 };
/** Reservations that refer to each other would be a defect. */
const MAX_MOVES = 4;
const RETRY_AFTER_MS = 1_000;
const MAX_SHARE_BYTES = 64 * 1024 * 1024;

/** Adds jobs to a queue, cancels them and reads their records. Hides BullMQ. */
export class JobQueue<D extends JobData = JobData, R = unknown> {
  readonly name: string;
  readonly time: RedisTime;
  readonly #redis: Redis;
  readonly #maxLength: number;
  readonly #maxShareBytes: number;
  readonly #count: number;
  readonly #numbers: ShardNumbers;
  readonly #shards: QueueShard<R>[] = [];

  constructor(private readonly options: JobQueueOptions<D>) {
    const { name, redis, time, shards = 1, maxLength = DEFAULT_MAX_LENGTH, maxShareBytes = MAX_SHARE_BYTES } = options;
    this.name = name;
    this.time = time;
    this.#redis = redis;
    this.#count = shards;
    this.#maxShareBytes = maxShareBytes;
    this.#maxLength = Math.ceil(maxLength / shards);
    const onNoted = (numbers: readonly number[]): void => this.#cleanFormer(numbers);
    this.#numbers = new ShardNumbers({ redis, queue: name, time, own: shards, onNoted });
  }

  /**
   * Adds a job; adding the same id twice gives one job. The record of a job with `removeWhenDone` goes when it has succeeded.
   * @throws ToolError QUEUE_FULL, or SERVICE_UNAVAILABLE while Redis is unavailable
   */
  async add(jobId: string, data: D, options: { removeWhenDone?: boolean } = {}): Promise<void> {
    const queued = { ...data, queued_at: data.queued_at ?? this.time.now() };
    const share = this.options.shareOf?.(data);
    const limits = { most: this.#maxLength, mostBytes: Math.ceil(this.#maxShareBytes / this.#count) };
    const job = { ...options, ...limits, jobId, data: queued, share };
    await this.#reach(async () => {
      let shard = await this.#reserve(jobId, data);
      for (let moves = 0; shard !== undefined; moves += 1) {
        if (moves > MAX_MOVES) throw new Error(`The reservations of job ${jobId} refer to each other`);
        shard = await this.#shard(shard).add(job);
      }
    });
  }

  /**
   * Cancels a job: a waiting one is removed (`removed`), the worker of a running one is notified (`signalled`), a finished one stays as it
   * ended (`finished`).
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async cancel(jobId: string): Promise<'removed' | 'signalled' | 'finished'> {
    return this.#reach(async () => {
      const { shard, record } = await this.#find(jobId);
      if (record.state !== 'waiting' && record.state !== 'active') return 'finished';
      // A worker may hold the lock only since the record was read.
      if (await shard.remove(jobId)) return 'removed';
      await this.#redis.publish(cancelChannel(this.name), JSON.stringify({ job_id: jobId }));
      return 'signalled';
    });
  }

  /** Removes a job that no worker has; false when one has it or it has ended. @throws ToolError SERVICE_UNAVAILABLE */
  async withdraw(jobId: string): Promise<boolean> {
    return this.#reach(async () => {
      const { shard, record } = await this.#find(jobId);
      return (record.state === 'waiting' || record.state === 'active') && (await shard.remove(jobId));
    });
  }

  /**
   * Removes a job with its data and result, whatever its state. A running one is cancelled and stays until it has ended.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async discard(jobId: string): Promise<void> {
    await this.#reach(async () => {
      const { shard } = await this.#find(jobId);
      if (await shard.remove(jobId)) return;
      await this.#redis.publish(cancelChannel(this.name), JSON.stringify({ job_id: jobId }));
    });
  }

  /** Publishes a message for workers, delivered at most once. @throws ToolError SERVICE_UNAVAILABLE */
  async tell(channel: string, message: object): Promise<void> {
    await this.#reach(async () => this.#redis.publish(channel, toExactJson(message)));
  }

  /** Says that waiting jobs may start; repeated while a process waits for them. @throws ToolError SERVICE_UNAVAILABLE */
  async vouch(jobIds: readonly string[]): Promise<void> {
    await this.#reach(() => vouchFor(this.#redis, this.name, jobIds, this.time.now()));
  }

  /** Removes a share from the fair order; its next job is placed as the first of a new one. */
  async forgetShare(share: string): Promise<void> {
    await Promise.all((await this.#served()).map((shard) => shard.forgetShare(share)));
  }

  /** Reads the record of a job without its data (may be large). @throws ToolError SERVICE_UNAVAILABLE */
  async record(jobId: string): Promise<JobRecord<R>> {
    return this.#reach(async () => (await this.#find(jobId)).record);
  }

  /** Number of jobs by state, in all shards. */
  async counts(): Promise<Record<JobStateCounted, number>> {
    const counts = await Promise.all((await this.#served()).map((shard) => shard.counts()));
    const sum = (state: JobStateCounted): number => counts.reduce((total, each) => total + each[state], 0);
    return Object.fromEntries(ALL_STATES.map((state) => [state, sum(state)])) as Record<JobStateCounted, number>;
  }

  /** Age of the job that has waited longest; 0 if none is waiting. */
  async oldestAgeMs(): Promise<Milliseconds> {
    const added = await Promise.all((await this.#served()).map((shard) => shard.oldestAt()));
    const oldest = Math.min(...added.filter((at) => at !== undefined));
    return Number.isFinite(oldest) ? Math.max(0, this.time.now() - oldest) : 0;
  }

  /** Live workers of this queue with their slots. */
  async workers(): Promise<WorkerSlots[]> {
    return readSlots(this.#redis, this.name, this.time.now());
  }

  /** Closes the queue but not the caller's connection. */
  async close(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.close()));
  }

  async #reach<T>(work: () => Promise<T>): Promise<T> {
    const reached = work().catch((error: unknown) => {
      throw error instanceof NoPlace ? this.#full(error) : error;
    });
    return orUnavailable(`The queue ${this.name}`, reached);
  }

  #full({ of }: NoPlace): ToolError {
    const limit = of === 'jobs' ? (this.options.maxLength ?? DEFAULT_MAX_LENGTH) : this.#maxShareBytes;
    const message = `The large calls of a tenant in the queue ${this.name} may have ${limit} bytes; retry when some have ended`;
    return new ToolError('QUEUE_FULL', {
      message: of === 'jobs' ? `The queue ${this.name} is full` : message,
      details: { queue: this.name, limit },
      retryAfterMs: RETRY_AFTER_MS,
    });
  }

  #shard(index: number): QueueShard<R> {
    const { redis, retentionSeconds = DEFAULT_RETENTION_SECONDS, completedSeconds = retentionSeconds } = this.options;
    const { retentionCount = DEFAULT_RETENTION_COUNT } = this.options;
    while (this.#shards.length <= index) {
      this.#shards.push(
        new QueueShard({
          queue: this.name,
          index: this.#shards.length,
          redis,
          failedSeconds: retentionSeconds,
          completedSeconds,
          retentionCount,
        }),
      );
    }
    return this.#shards[index]!;
  }

  /** All shards that may have jobs. */
  async #served(): Promise<QueueShard<R>[]> {
    const most = Math.max(...(await this.#numbers.list()));
    return Array.from({ length: most }, (_, index) => this.#shard(index));
  }

  /** BullMQ removes records past their time when a job of their shard ends, and here none may end any more. */
  #cleanFormer(numbers: readonly number[]): void {
    for (let index = this.#count; index < Math.max(...numbers); index += 1)
      this.#shard(index)
        .clean()
        .catch(() => undefined);
  }

  /**
   * Reserves an id in the shard that the oldest number of shards gives it, if that is another one.
   * @returns the shard in which the job is to be added; undefined when that shard has it
   */
  async #reserve(jobId: string, { deadline_at: deadlineAt }: D): Promise<number | undefined> {
    const [oldest = this.#count] = await this.#numbers.agree();
    const [own, decider] = [shardOf(jobId, this.#count), shardOf(jobId, oldest)];
    if (own === decider) return own;
    const waitMs =
      deadlineAt === undefined
        ? RESERVED_MS.without
        : Math.max(0, deadlineAt - this.time.now()) + RESERVED_MS.pastDeadline;
    const known = await this.#shard(decider).reserve(jobId, own, Math.ceil(waitMs));
    return known === 'here' ? undefined : (known ?? own);
  }

  /** Looks for a job in the shards that the numbers in use give it, and where reservations of its id refer to. */
  async #find(jobId: string): Promise<{ shard: QueueShard<R>; record: ShardRecord<R> }> {
    const numbers = [this.#count, ...(await this.#numbers.list()).toReversed()];
    let first: { shard: QueueShard<R>; record: ShardRecord<R> } | undefined;
    for (const index of new Set(numbers.map((number) => shardOf(jobId, number)))) {
      let shard = this.#shard(index);
      let record = await shard.record(jobId);
      for (let moves = 0; record.movedTo !== undefined && moves < MAX_MOVES; moves += 1) {
        shard = this.#shard(record.movedTo);
        record = await shard.record(jobId);
      }
      if (record.state !== 'unknown') return { shard, record };
      first ??= { shard, record };
    }
    return first!;
  }
}
