import { errorBody } from '@toolfleet/contracts/wire';
import type { Redis } from 'ioredis';
import type { JobProgress, ReplyMessage } from './job-run.js';
import { failureOf, type JobData } from './queues.js';

/** What of a job its answer needs; BullMQ's `Job` fits. */
export interface AnsweredJob<D extends JobData> {
  id?: string | undefined;
  data: D;
}

/**
 * Sends what becomes of jobs to the processes that wait for them, at most once: whoever misses a message reads the job
 * record. Jobs nobody waits for (no `reply_channel`) send nothing.
 */
export class JobReplies<D extends JobData, R> {
  readonly #answered = new WeakSet<AnsweredJob<D>>();

  constructor(private readonly publisher: Redis) {}

  /** The reply of a job; the second one of the same job is not sent. */
  result(job: AnsweredJob<D>, reply: R): void {
    if (this.#answered.has(job)) return;
    this.#answered.add(job);
    const { call_id, attempt = 1 } = job.data;
    this.#publish(job.data, { type: 'result', job_id: job.id as string, call_id, attempt, reply });
  }

  /** The failure of a job, in the form its record keeps. */
  failure(job: AnsweredJob<D>, kept: Error): void {
    const { call_id, attempt = 1 } = job.data;
    const error = errorBody(failureOf(kept.message), call_id);
    this.#publish(job.data, { type: 'error', job_id: job.id as string, call_id, attempt, error });
  }

  progress(job: AnsweredJob<D>, progress: JobProgress): void {
    this.#publish(job.data, {
      type: 'progress',
      job_id: job.id as string,
      call_id: job.data.call_id,
      ...progress,
    });
  }

  #publish(data: D, message: ReplyMessage<R>): void {
    if (data.reply_channel === undefined) return;
    this.publisher.publish(data.reply_channel, JSON.stringify(message)).catch(() => undefined);
  }
}
