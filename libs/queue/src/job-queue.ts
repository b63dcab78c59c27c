import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { ToolError } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { fairQueueBackend, NoPlace, placedBy } from './fair-queue-backend.js';
import {
  cancelChannel,
  DEFAULT_MAX_LENGTH,
  DEFAULT_RETENTION_COUNT,
  DEFAULT_RETENTION_SECONDS,
  failureOf,
  jobKey,
  type JobData,
  type JobRecord,
} from './queues.js';
import type { RedisTime } from './redis-time.js';
import { readSlots, type WorkerSlots } from './worker-slots.js';

/** What a queue needs. */
export interface JobQueueOptions<D extends JobData = JobData> {
  name: string;
  /** Connection with role `commands`: adding fails at once while Redis is away. */
  redis: Redis;
  time: RedisTime;
  /**
   * Jobs that may wait; more are refused as QUEUE_FULL. With shares a tenth more is kept for those that have fewer than ten
   * jobs waiting: a flood of one locks no other out. Default 1,000.
   */
  maxLength?: number;
  /** How long finished records stay readable. Default 86,400 s. */
  retentionSeconds?: number;
  /** The same for jobs that succeeded; default as `retentionSeconds`. */
  completedSeconds?: number;
  retentionCount?: number;
  /** Whose share a job counts against: jobs without a priority of their own are taken in fair order between shares. */
  shareOf?: (data: D) => string;
}

/** Jobs by state, in BullMQ's words. */
export type QueueCounts = Record<'wait' | 'prioritized' | 'active' | 'delayed' | 'completed' | 'failed', number>;

const WAITING_STATES = ['wait', 'prioritized', 'delayed'] as const;
const ALL_STATES = [...WAITING_STATES, 'active', 'completed', 'failed'] as const;
const RETRY_AFTER_MS = 1_000;

/** The adding and reading side of a queue. Hides BullMQ. */
export class JobQueue<D extends JobData = JobData, R = unknown> {
  readonly name: string;
  readonly time: RedisTime;
  readonly #redis: Redis;
  #made: Queue | undefined;
  readonly #maxLength: number;
  /** Adds of this process that the last count has not seen. */
  #adding = 0;
  #counting: Promise<number> | undefined;

  constructor(private readonly options: JobQueueOptions<D>) {
    this.name = options.name;
    this.time = options.time;
    this.#redis = options.redis;
    this.#maxLength = options.maxLength ?? DEFAULT_MAX_LENGTH;
  }

  /**
   * BullMQ's queue, made when it is first used: it asks the server for its version at once, and a refusal (Redis is not
   * there yet) would stay for ever.
   */
  get #queue(): Queue {
    if (this.#made) return this.#made;
    const { status, options } = this.#redis;
    if (status !== 'ready' && !options.enableOfflineQueue)
      throw redisAway(this.name, new Error(`connection: ${status}`));
    this.#made = new Queue(
      this.name,
      {
        connection: this.#redis,
        prefix: QUEUE_PREFIX,
        skipWaitingForReady: true,
        // Its events repeat every return value, and nothing reads them.
        streams: { events: { maxLen: 0 } },
        defaultJobOptions: {
          attempts: 1,
          stackTraceLimit: 0,
          removeOnComplete: { ...retention(this.options), ...completedAge(this.options) },
          removeOnFail: retention(this.options),
        },
      },
      fairQueueBackend,
    );
    this.#made.on('error', () => undefined); // every failing command rejects to its caller
    return this.#made;
  }

  /**
   * Adds a job; adding the same id twice is one job. `priority` 1 is taken first; jobs without one come before all that
   * have one, so a queue uses it for all jobs or for none. Throws QUEUE_FULL, or SERVICE_UNAVAILABLE while Redis is away.
   */
  async add(jobId: string, data: D, options: { priority?: number } = {}): Promise<void> {
    this.#adding++;
    try {
      const { shareOf } = this.options;
      const queued = { ...data, queued_at: data.queued_at ?? this.time.now() };
      const entry = { jobId, timestamp: queued.queued_at };
      if (shareOf && options.priority === undefined) {
        const ask = { share: shareOf(data), adding: this.#adding, most: this.#maxLength };
        await this.#queue.add(this.name, queued, { ...entry, ...placedBy(ask) });
        return;
      }
      if ((await this.#waiting()) + this.#adding > this.#maxLength) throw this.#full();
      await this.#queue.add(this.name, queued, { ...entry, ...options });
    } catch (error) {
      throw error instanceof NoPlace ? this.#full() : redisAway(this.name, error);
    } finally {
      this.#adding--;
    }
  }

  /**
   * Stops a job wherever it is: removed while it waits (`removed`), signalled to its worker while it runs (`signalled`),
   * otherwise nothing (`finished`).
   */
  async cancel(jobId: string): Promise<'removed' | 'signalled' | 'finished'> {
    try {
      const state = (await this.record(jobId)).state;
      if (state === 'completed' || state === 'failed' || state === 'unknown') return 'finished';
      // 0: a worker holds its lock, now or since a moment ago.
      if ((await this.#queue.remove(jobId)) === 1) return 'removed';
      await this.#redis.publish(cancelChannel(this.name), JSON.stringify({ job_id: jobId }));
      return 'signalled';
    } catch (error) {
      throw redisAway(this.name, error);
    }
  }

  /** Reads a job's record without its (possibly large) data. */
  async record(jobId: string): Promise<JobRecord<R>> {
    try {
      const [value, reason, finishedOn, processedOn, timestamp] = await this.#redis.hmget(
        jobKey(this.name, jobId),
        'returnvalue',
        'failedReason',
        'finishedOn',
        'processedOn',
        'timestamp',
      );
      if (finishedOn) {
        const finishedAt = Number(finishedOn);
        if (reason) return { state: 'failed', error: failureOf(reason), finishedAt };
        return { state: 'completed', result: parse<R>(value), finishedAt };
      }
      if (!timestamp) return { state: 'unknown' };
      return { state: processedOn ? 'active' : 'waiting' };
    } catch (error) {
      throw redisAway(this.name, error);
    }
  }

  /** Jobs by state. */
  async counts(): Promise<QueueCounts> {
    const counts = await this.#queue.getJobCounts(...ALL_STATES);
    return Object.fromEntries(ALL_STATES.map((state) => [state, counts[state] ?? 0])) as QueueCounts;
  }

  /** Age in ms of the job that waits longest, 0 when none waits. */
  async oldestAgeMs(): Promise<number> {
    const prefix = `${QUEUE_PREFIX}:${this.name}`;
    const [last, first] = await Promise.all([
      this.#redis.lindex(`${prefix}:wait`, -1),
      this.#redis.zrange(`${prefix}:prioritized`, '0', '0'),
    ]);
    const ids = [last, first[0]].filter((id): id is string => typeof id === 'string');
    const stamps = await Promise.all(ids.map((id) => this.#redis.hget(jobKey(this.name, id), 'timestamp')));
    const oldest = Math.min(...stamps.filter((stamp) => stamp !== null).map(Number));
    return Number.isFinite(oldest) ? Math.max(0, this.time.now() - oldest) : 0;
  }

  /** Workers of this queue that are alive, with their slots. */
  async workers(): Promise<WorkerSlots[]> {
    return readSlots(this.#redis, this.name, this.time.now());
  }

  /** Closes the queue; the connection stays its owner's. */
  async close(): Promise<void> {
    await this.#made?.close().catch(() => undefined);
  }

  #full(): ToolError {
    return new ToolError('QUEUE_FULL', {
      message: `The queue ${this.name} is full`,
      details: { queue: this.name, limit: this.#maxLength },
      retryAfterMs: RETRY_AFTER_MS,
    });
  }

  /** Counts once for all adds of this moment. */
  #waiting(): Promise<number> {
    this.#counting ??= Promise.resolve(this.#queue.getJobCountByTypes(...WAITING_STATES)).finally(
      () => (this.#counting = undefined),
    );
    return this.#counting;
  }
}

function retention(options: Pick<JobQueueOptions, 'retentionSeconds' | 'retentionCount'>): {
  age: number;
  count: number;
} {
  return {
    age: options.retentionSeconds ?? DEFAULT_RETENTION_SECONDS,
    count: options.retentionCount ?? DEFAULT_RETENTION_COUNT,
  };
}

function completedAge({ completedSeconds }: Pick<JobQueueOptions, 'completedSeconds'>): { age?: number } {
  return completedSeconds === undefined ? {} : { age: completedSeconds };
}

function parse<R>(value: string | null | undefined): R {
  return (value ? JSON.parse(value) : null) as R;
}

/** A failed command as the fleet's error. */
export function redisAway(queue: string, cause: unknown): ToolError {
  if (cause instanceof ToolError) return cause;
  return new ToolError('SERVICE_UNAVAILABLE', { message: `The queue ${queue} cannot be reached`, cause });
}
