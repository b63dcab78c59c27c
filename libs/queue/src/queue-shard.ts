import { readFileSync } from 'node:fs';
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Milliseconds } from '@toolfleet/contracts';
import { parseExact, toMarked } from '@toolfleet/contracts/json-text';
import { fairQueueBackend, MovedJob, NoPlace, placedBy } from './fair-share.js';
import { jobKey, parseFailure, type JobData, type JobRecord } from './jobs.js';
import { shardPrefix } from './shard-numbers.js';
import { defineScript, type Script } from './redis-scripts.js';

const RESERVE_ID = readFileSync(new URL('../lua/reserve-id.lua', import.meta.url), 'utf8');

interface QueueShardOptions {
  queue: string;
  /** Number of this shard, from 0. */
  index: number;
  redis: Redis;
  /** How long records of failed and of successful jobs are kept. */
  failedSeconds: number;
  completedSeconds: number;
  /** Maximum number of records of each kind. */
  retentionCount: number;
}

/** State of an id in one shard. */
export interface ShardRecord<R> extends JobRecord<R> {
  /** The shard in which the job is instead. */
  movedTo?: number;
}

/** A job to add. */
interface NewJob {
  jobId: string;
  data: JobData;
  /** Its record goes when it has succeeded. */
  removeWhenDone?: boolean | undefined;
  /** Places the job in fair order; absent in a queue without shares. */
  share?: string | undefined;
  /** Jobs that may wait, and bytes of the large jobs of a share. */
  most: number;
  mostBytes: number;
}

/** Records that are removed at a time. */
const MAX_CLEANED = 1_000;
const WAITING_STATES = ['wait', 'prioritized', 'delayed'] as const;
export const ALL_STATES = [...WAITING_STATES, 'active', 'completed', 'failed'] as const;

/** Number of jobs by BullMQ's states. */
type QueueCounts = Record<(typeof ALL_STATES)[number], number>;

/** One shard of a queue: a BullMQ queue under a hash tag. Its methods reject as Redis does. */
export class QueueShard<R> {
  readonly index: number;
  readonly #reserve: Script<string | null>;
  #bullmq: Queue | undefined;
  /** Jobs that this process is adding since the last count. */
  #adding = 0;
  #counting: Promise<number> | undefined;

  constructor(private readonly options: QueueShardOptions) {
    this.index = options.index;
    this.#reserve = defineScript(options.redis, 'reserveId', 1, RESERVE_ID);
  }

  /**
   * BullMQ's queue, created at first use. Its constructor asks the server for its version, and a failure (Redis is not running yet) would
   * be permanent.
   */
  get #queue(): Queue {
    if (this.#bullmq) return this.#bullmq;
    const { queue, index, redis, failedSeconds, completedSeconds, retentionCount: count } = this.options;
    if (redis.status !== 'ready' && !redis.options.enableOfflineQueue) throw new Error(`connection: ${redis.status}`);
    const prefix = shardPrefix(index);
    this.#bullmq = new Queue(
      queue,
      {
        connection: redis,
        prefix,
        skipWaitingForReady: true,
        // Events would repeat every return value, and nothing reads them.
        streams: { events: { maxLen: 0 } },
        defaultJobOptions: {
          attempts: 1,
          stackTraceLimit: 0,
          removeOnComplete: { age: completedSeconds, count },
          removeOnFail: { age: failedSeconds, count },
        },
      },
      fairQueueBackend(prefix),
    );
    this.#bullmq.on('error', () => undefined); // every failing command rejects to its caller
    return this.#bullmq;
  }

  /**
   * Adds a job, unless its id is known here.
   * @returns the shard in which the job has to be added instead; undefined when it is here
   * @throws NoPlace when the queue is full
   */
  async add({ jobId, removeWhenDone, share, most, mostBytes, ...job }: NewJob): Promise<number | undefined> {
    const { queue, redis, index } = this.options;
    const data = toMarked(job.data);
    this.#adding++;
    try {
      const entry = { jobId, timestamp: data.queued_at, ...(removeWhenDone && { removeOnComplete: true }) };
      if (share !== undefined) {
        const place = { share, adding: this.#adding, most, most_bytes: mostBytes };
        await this.#queue.add(queue, data, { ...entry, ...placedBy(place) });
        return undefined;
      }
      if ((await this.#waiting()) + this.#adding > most) throw new NoPlace('jobs');
      await this.#queue.add(queue, data, entry);
      return toShard(await redis.hget(jobKey(queue, jobId, index), 'moved'));
    } catch (error) {
      if (error instanceof MovedJob) return error.shard;
      throw error;
    } finally {
      this.#adding--;
    }
  }

  /**
   * Reserves the id of a job that is in another shard, for as long as the job waits and its record stays.
   * @returns the holder of the id: this shard, or the shard of an earlier reservation
   */
  async reserve(jobId: string, shard: number, ms: Milliseconds): Promise<'here' | number | undefined> {
    const known = await this.#reserve(jobKey(this.options.queue, jobId, this.index), shard, ms);
    return known === 'here' ? known : toShard(known);
  }

  /** Reads the record of a job without its data (may be large). */
  async record(jobId: string): Promise<ShardRecord<R>> {
    const { queue, redis } = this.options;
    const key = jobKey(queue, jobId, this.index);
    const [[value, reason, finishedOn, processedOn, timestamp, moved], locks] = await Promise.all([
      redis.hmget(key, 'returnvalue', 'failedReason', 'finishedOn', 'processedOn', 'timestamp', 'moved'),
      redis.exists(`${key}:lock`),
    ]);
    const isHeld = locks > 0;
    if (finishedOn && reason) return { state: 'failed', isHeld, error: parseFailure(reason) };
    if (finishedOn) return { state: 'completed', isHeld, result: parse<R>(value) };
    if (!timestamp) return { state: 'unknown', isHeld, movedTo: toShard(moved) };
    return { state: processedOn ? 'active' : 'waiting', isHeld };
  }

  /** Removes a job; false while a worker has it, and for an unknown one. */
  async remove(jobId: string): Promise<boolean> {
    return (await this.#queue.remove(jobId)) === 1;
  }

  /** Removes a share from the fair order. */
  async forgetShare(share: string): Promise<void> {
    const { redis } = this.options;
    await Promise.all([
      redis.hdel(this.#queue.toKey('places'), `s:${share}`),
      redis.del(this.#queue.toKey(`large:${share}`)),
    ]);
  }

  /** Removes records of finished jobs past their time. */
  async clean(): Promise<void> {
    const { completedSeconds, failedSeconds } = this.options;
    await this.#queue.clean(completedSeconds * 1_000, MAX_CLEANED, 'completed');
    await this.#queue.clean(failedSeconds * 1_000, MAX_CLEANED, 'failed');
  }

  async counts(): Promise<QueueCounts> {
    const counts = await this.#queue.getJobCounts(...ALL_STATES);
    return Object.fromEntries(ALL_STATES.map((state) => [state, counts[state] ?? 0])) as QueueCounts;
  }

  /** When the job that has waited longest was added, by the clock of Redis; undefined if none is waiting. */
  async oldestAt(): Promise<number | undefined> {
    const { queue, redis } = this.options;
    const prefix = `${shardPrefix(this.index)}:${queue}`;
    const [last, first] = await Promise.all([
      redis.lindex(`${prefix}:wait`, -1),
      redis.zrange(`${prefix}:prioritized`, '0', '0'),
    ]);
    const ids = [last, first[0]].filter((id): id is string => typeof id === 'string');
    const stamps = await Promise.all(ids.map((id) => redis.hget(jobKey(queue, id, this.index), 'timestamp')));
    const known = stamps.map(Number).filter((at) => at > 0);
    return known.length === 0 ? undefined : Math.min(...known);
  }

  /** Closes the queue but not the connection. */
  async close(): Promise<void> {
    await this.#bullmq?.close().catch(() => undefined);
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
  return value ? parseExact<R>(value).value : (null as R);
}

const toShard = (text: string | null | undefined): number | undefined => (text ? Number(text) : undefined);
