import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { ToolError } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { fairQueueBackend, NoPlace, placedBy } from './fair-share.js';
import {
  cancelChannel,
  DEFAULT_MAX_LENGTH,
  DEFAULT_RETENTION_COUNT,
  DEFAULT_RETENTION_SECONDS,
  jobKey,
  parseFailure,
  type JobData,
  type JobRecord,
} from './jobs.js';
import type { RedisTime } from './redis-time.js';
import { vouchFor } from './vouched-jobs.js';
import { readSlots, type WorkerSlots } from './worker-slots.js';

interface JobQueueOptions<D extends JobData = JobData> {
  name: string;
  /** Connection with role `commands`, so that adding fails at once while Redis is unavailable. */
  redis: Redis;
  time: RedisTime;
  /**
   * Jobs that may wait; more are refused as QUEUE_FULL. With `shareOf`, 10 % more are accepted from shares with fewer than ten waiting
   * jobs. Default 1,000.
   */
  maxLength?: number;
  /** How long finished records are kept. Default 86,400 s. */
  retentionSeconds?: number;
  /** How long records of successful jobs are kept. Default `retentionSeconds`. */
  completedSeconds?: number;
  retentionCount?: number;
  /** The share of a job, such as its tenant. Jobs without a priority are taken in fair order between shares. */
  shareOf?: (data: D) => string;
}

/** Number of jobs by BullMQ's states. */
type QueueCounts = Record<'wait' | 'prioritized' | 'active' | 'delayed' | 'completed' | 'failed', number>;

const WAITING_STATES = ['wait', 'prioritized', 'delayed'] as const;
export const ALL_STATES = [...WAITING_STATES, 'active', 'completed', 'failed'] as const;
const RETRY_AFTER_MS = 1_000;

/** Adds jobs to a queue, cancels them and reads their records. Hides BullMQ. */
export class JobQueue<D extends JobData = JobData, R = unknown> {
  readonly name: string;
  readonly time: RedisTime;
  readonly #redis: Redis;
  #bullmq: Queue | undefined;
  readonly #maxLength: number;
  /** Jobs that this process is adding, which the last count does not include. */
  #adding = 0;
  #counting: Promise<number> | undefined;

  constructor(private readonly options: JobQueueOptions<D>) {
    this.name = options.name;
    this.time = options.time;
    this.#redis = options.redis;
    this.#maxLength = options.maxLength ?? DEFAULT_MAX_LENGTH;
  }

  /**
   * BullMQ's queue, created at first use. Its constructor asks the server for its version, and a failure (Redis is not running yet) would
   * be permanent.
   */
  get #queue(): Queue {
    if (this.#bullmq) return this.#bullmq;
    const { status, options } = this.#redis;
    if (status !== 'ready' && !options.enableOfflineQueue)
      throw unavailable(this.name, new Error(`connection: ${status}`));
    const age = this.options.retentionSeconds ?? DEFAULT_RETENTION_SECONDS;
    const count = this.options.retentionCount ?? DEFAULT_RETENTION_COUNT;
    this.#bullmq = new Queue(
      this.name,
      {
        connection: this.#redis,
        prefix: QUEUE_PREFIX,
        skipWaitingForReady: true,
        // Events would repeat every return value, and nothing reads them.
        streams: { events: { maxLen: 0 } },
        defaultJobOptions: {
          attempts: 1,
          stackTraceLimit: 0,
          removeOnComplete: { age: this.options.completedSeconds ?? age, count },
          removeOnFail: { age, count },
        },
      },
      fairQueueBackend,
    );
    this.#bullmq.on('error', () => undefined); // every failing command rejects to its caller
    return this.#bullmq;
  }

  /**
   * Adds a job; adding the same id twice gives one job. `priority` 1 is taken first. Jobs without a priority come before all others, so
   * a queue uses priorities for all jobs or for none.
   * @throws ToolError QUEUE_FULL, or SERVICE_UNAVAILABLE while Redis is unavailable
   */
  async add(jobId: string, data: D, options: { priority?: number } = {}): Promise<void> {
    this.#adding++;
    try {
      const { shareOf } = this.options;
      const queued = { ...data, queued_at: data.queued_at ?? this.time.now() };
      const entry = { jobId, timestamp: queued.queued_at };
      if (shareOf && options.priority === undefined) {
        const request = { share: shareOf(data), adding: this.#adding, most: this.#maxLength };
        await this.#queue.add(this.name, queued, { ...entry, ...placedBy(request) });
        return;
      }
      if ((await this.#waiting()) + this.#adding > this.#maxLength) throw this.#full();
      await this.#queue.add(this.name, queued, { ...entry, ...options });
    } catch (error) {
      throw error instanceof NoPlace ? this.#full() : unavailable(this.name, error);
    } finally {
      this.#adding--;
    }
  }

  /**
   * Cancels a job: a waiting one is removed (`removed`), the worker of a running one is notified (`signalled`), a finished one stays as it
   * ended (`finished`).
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async cancel(jobId: string): Promise<'removed' | 'signalled' | 'finished'> {
    try {
      const state = (await this.record(jobId)).state;
      if (state === 'completed' || state === 'failed' || state === 'unknown') return 'finished';
      // 0: a worker holds the lock, possibly only since `record` was read.
      if ((await this.#queue.remove(jobId)) === 1) return 'removed';
      await this.#redis.publish(cancelChannel(this.name), JSON.stringify({ job_id: jobId }));
      return 'signalled';
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /** Removes a job that no worker has; false when one has it or it has ended. @throws ToolError SERVICE_UNAVAILABLE */
  async withdraw(jobId: string): Promise<boolean> {
    const { state } = await this.record(jobId);
    if (state !== 'waiting' && state !== 'active') return false;
    try {
      return (await this.#queue.remove(jobId)) === 1;
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /**
   * Removes a job with its data and result, whatever its state. A running one is cancelled and stays until it has ended.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async discard(jobId: string): Promise<void> {
    try {
      if ((await this.#queue.remove(jobId)) === 1) return;
      await this.#redis.publish(cancelChannel(this.name), JSON.stringify({ job_id: jobId }));
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /** Publishes a message for workers, delivered at most once. @throws ToolError SERVICE_UNAVAILABLE */
  async tell(channel: string, message: object): Promise<void> {
    try {
      await this.#redis.publish(channel, JSON.stringify(message));
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /** Says that waiting jobs may start; repeated while a process waits for them. @throws ToolError SERVICE_UNAVAILABLE */
  async vouch(jobIds: readonly string[]): Promise<void> {
    try {
      await vouchFor(this.#redis, this.name, jobIds, this.time.now());
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /** Removes what the fair order knows of a share; its next job is placed as the first of a new one. */
  async forgetShare(share: string): Promise<void> {
    await this.#redis.hdel(this.#queue.toKey('places'), `s:${share}`);
  }

  /** Reads the record of a job without its data, which may be large. */
  async record(jobId: string): Promise<JobRecord<R>> {
    try {
      const key = jobKey(this.name, jobId);
      const [[value, reason, finishedOn, processedOn, timestamp], locks] = await Promise.all([
        this.#redis.hmget(key, 'returnvalue', 'failedReason', 'finishedOn', 'processedOn', 'timestamp'),
        this.#redis.exists(`${key}:lock`),
      ]);
      const isHeld = locks > 0;
      if (finishedOn) {
        const finishedAt = Number(finishedOn);
        if (reason) return { state: 'failed', isHeld, error: parseFailure(reason), finishedAt };
        return { state: 'completed', isHeld, result: parse<R>(value), finishedAt };
      }
      if (!timestamp) return { state: 'unknown', isHeld };
      return { state: processedOn ? 'active' : 'waiting', isHeld };
    } catch (error) {
      throw unavailable(this.name, error);
    }
  }

  /** Number of jobs by state. */
  async counts(): Promise<QueueCounts> {
    const counts = await this.#queue.getJobCounts(...ALL_STATES);
    return Object.fromEntries(ALL_STATES.map((state) => [state, counts[state] ?? 0])) as QueueCounts;
  }

  /** Age in ms of the job that has waited longest; 0 if none is waiting. */
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

  /** Live workers of this queue with their slots. */
  async workers(): Promise<WorkerSlots[]> {
    return readSlots(this.#redis, this.name, this.time.now());
  }

  /** Closes the queue but not the connection, which belongs to the caller. */
  async close(): Promise<void> {
    await this.#bullmq?.close().catch(() => undefined);
  }

  #full(): ToolError {
    return new ToolError('QUEUE_FULL', {
      message: `The queue ${this.name} is full`,
      details: { queue: this.name, limit: this.#maxLength },
      retryAfterMs: RETRY_AFTER_MS,
    });
  }

  /** Number of waiting jobs; concurrent adds share one request. */
  #waiting(): Promise<number> {
    this.#counting ??= Promise.resolve(this.#queue.getJobCountByTypes(...WAITING_STATES)).finally(
      () => (this.#counting = undefined),
    );
    return this.#counting;
  }
}

function parse<R>(value: string | null | undefined): R {
  return (value ? JSON.parse(value) : null) as R;
}

function unavailable(queue: string, cause: unknown): ToolError {
  if (cause instanceof ToolError) return cause;
  return new ToolError('SERVICE_UNAVAILABLE', { message: `The queue ${queue} is unavailable; retry later`, cause });
}
