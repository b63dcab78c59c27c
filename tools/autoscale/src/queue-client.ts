import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { closeRedis, connectRedis, JobQueue, openRedis, RedisTime, ReplyChannel, type JobData } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import type { QueueLook } from './scaling-rule.js';

/** When a job came, began and ended, by the clock of its worker and the server. */
export interface JobTimes {
  waitMs: number;
  serviceMs: number;
}

/** Jobs wait as long as they must: their queue is measured. */
const DEADLINE_MS = 3_600_000;

/** Both sides of a queue as callers see it: submit, look, and read what became of a job. */
export class QueueClient<D extends JobData, R> {
  readonly #clock = new SystemClock();
  readonly #commands;
  readonly #blocking;
  readonly #time: RedisTime;
  readonly #queue: JobQueue<D, R>;
  readonly #replies: ReplyChannel;

  constructor(
    private readonly redisUrl: string,
    private readonly name: string,
  ) {
    this.#commands = connectRedis(redisUrl, { name: 'autoscale', role: 'commands' });
    this.#blocking = connectRedis(redisUrl, { name: 'autoscale-replies', role: 'blocking' });
    this.#time = new RedisTime(this.#commands, this.#clock);
    this.#queue = new JobQueue({ name, redis: this.#commands, time: this.#time, maxLength: 1_000_000 });
    this.#replies = new ReplyChannel({ redis: this.#blocking, queues: [name] });
  }

  async open(): Promise<void> {
    await Promise.all([this.#commands, this.#blocking].map((client) => openRedis(client, this.redisUrl)));
    await this.#time.start();
    await this.#replies.start();
  }

  /** Submits a job and waits for its answer. `jobId` is of the caller's choice. */
  submit(jobId: string, job: D): Promise<R> {
    return this.#replies.submit(this.#queue, job, { jobId, deadlineAt: this.#clock.now() + DEADLINE_MS });
  }

  async look(): Promise<QueueLook> {
    const [counts, oldestAgeMs] = await Promise.all([this.#queue.counts(), this.#queue.oldestAgeMs()]);
    return { waiting: counts.wait + counts.prioritized, running: counts.active, oldestAgeMs };
  }

  /** Times of a finished job, from its record. */
  async timesOf(jobId: string): Promise<JobTimes> {
    const key = `${QUEUE_PREFIX}:${this.name}:${jobId}`;
    const stamps = await this.#commands.hmget(key, 'timestamp', 'processedOn', 'finishedOn');
    const [queued = 0, began = 0, ended = 0] = stamps.map(Number);
    return { waitMs: began - queued, serviceMs: ended - began };
  }

  async close(): Promise<void> {
    await this.#replies.stop();
    await this.#queue.close();
    this.#time.stop();
    await Promise.all([this.#commands, this.#blocking].map((client) => closeRedis(client)));
  }
}
