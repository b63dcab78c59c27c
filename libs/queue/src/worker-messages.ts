/** The messages of a worker: cancellations it receives, and replies it sends. */
import { isJsonObject, ToolError } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import type { Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import { cancelChannel, parseFailure, type JobData, type JobProgress, type ReplyMessage } from './jobs.js';

/** The part of BullMQ's `Job` that replies need. */
interface AnsweredJob<D extends JobData> {
  id?: string;
  data: D;
}

/**
 * Sends the results of jobs to the processes that wait for them. Delivery is at most once; a process that misses a message reads the
 * job record. Jobs without a `reply_channel` send nothing.
 */
export class JobReplies<D extends JobData, R> {
  readonly #answered = new WeakSet<AnsweredJob<D>>();

  constructor(private readonly publisher: Redis) {}

  /** Sends the reply of a job; a second one of the same job is ignored. */
  result(job: AnsweredJob<D>, reply: R): void {
    if (this.#answered.has(job)) return;
    this.#answered.add(job);
    const { call_id, attempt = 1 } = job.data;
    this.#publish(job.data, { type: 'result', job_id: job.id as string, call_id, attempt, reply });
  }

  /** Sends the failure of a job. @param failure as stored in the record, see `formatFailure` */
  failure(job: AnsweredJob<D>, failure: Error): void {
    const { call_id, attempt = 1 } = job.data;
    const error = errorBody(parseFailure(failure.message), call_id);
    this.#publish(job.data, { type: 'error', job_id: job.id as string, call_id, attempt, error });
  }

  progress(job: AnsweredJob<D>, progress: JobProgress): void {
    this.#publish(job.data, { type: 'progress', job_id: job.id as string, call_id: job.data.call_id, ...progress });
  }

  #publish(data: D, message: ReplyMessage<R>): void {
    if (data.reply_channel === undefined) return;
    this.publisher.publish(data.reply_channel, JSON.stringify(message)).catch(() => undefined);
  }
}

/** A running job that can be aborted. */
export interface StoppableJob {
  callId: string;
  abort: AbortController;
}

/** Longest time between taking and starting a job on a slow network. */
const EARLY_CANCEL_MS = 10_000;
const MAX_EARLY_CANCELS = 10_000;

/**
 * Aborts the cancelled jobs of one worker. A cancellation can arrive after the worker took the job and before it starts; it is kept for
 * that time, and the job is aborted when it starts.
 */
export class CancelledJobs {
  /** Ids of cancelled jobs that this worker may be about to start, with the monotonic time until which they are kept. */
  readonly #early = new Map<string, number>();

  constructor(
    private readonly subscriber: Redis,
    private readonly queue: string,
    private readonly clock: Clock,
    private readonly running: ReadonlyMap<string, StoppableJob>,
  ) {
    subscriber.on('error', () => undefined); // the connection it was duplicated from logs outages
    subscriber.on('message', (_channel: string, text: string) => this.#onMessage(text));
  }

  async start(): Promise<void> {
    if (this.subscriber.status === 'wait') await this.subscriber.connect();
    await this.subscriber.subscribe(cancelChannel(this.queue));
  }

  stop(): void {
    this.subscriber.disconnect();
  }

  /** Whether a job that starts now was already cancelled; true once. */
  takeEarly(jobId: string): boolean {
    return this.#early.delete(jobId);
  }

  #onMessage(text: string): void {
    const message = parse(text);
    const jobId = message['job_id'];
    for (const [id, { callId, abort }] of this.running) {
      if (jobId === id || message['call_id'] === callId) abort.abort(new ToolError('CANCELLED'));
    }
    if (typeof jobId !== 'string' || this.running.has(jobId)) return;
    const now = this.clock.monotonic();
    for (const [id, until] of this.#early) if (until < now) this.#early.delete(id);
    if (this.#early.size < MAX_EARLY_CANCELS) this.#early.set(jobId, now + EARLY_CANCEL_MS);
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}
