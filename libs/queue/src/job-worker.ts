/**
 * The working side of a queue. BullMQ delivers at least once: a worker that is stopped longer than its lock (5 s) loses
 * the job to another one, so handlers of tools with an effect claim in the journal first. A result goes to the waiting
 * process's channel at once and into the job record right after: whoever misses the message reads the record. Failures, and
 * results of jobs that were stopped, are sent when the record has them: a worker that is stopping, or has lost its lock,
 * leaves the job to another one and has no last word.
 */
import { DelayedError, Worker, type Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { inLinkedTrace, inTrace, type Metrics } from '@toolfleet/telemetry';
import { CancelledJobs, type StoppableJob } from './cancelled-jobs.js';
import { JobReplies } from './job-replies.js';
import { RetryLater, type JobHandler, type JobRun } from './job-run.js';
import { failureText, type JobData } from './queues.js';
import type { RedisTime } from './redis-time.js';
import { SlotReport } from './worker-slots.js';

/** What a worker needs. */
export interface JobWorkerOptions<D extends JobData, R> {
  queue: string;
  /** Connection with role `blocking`; the worker makes another one from it to wait on. */
  redis: Redis;
  /** Connection with role `commands`, for replies. */
  publisher: Redis;
  time: RedisTime;
  /** Jobs at once. */
  concurrency: number;
  handler: JobHandler<D, R>;
  clock?: Clock;
  metrics?: Metrics;
  /** Time a job of this queue needs at least; a job with less left is dropped when taken. */
  leastMs?: (data: D) => Milliseconds;
  /** Nobody waits for these jobs: each begins a trace of its own, linked to the caller's. Default false: it goes on. */
  startsTrace?: boolean;
  /** Longest wait of `drain` for jobs in work. Default 60,000. */
  drainMs?: Milliseconds;
  /** Hears of handlers that failed with something that is not a ToolError, and of trouble with Redis. */
  onFault?: (error: unknown, jobId?: string) => void;
}

/** A job of a killed worker runs again after about 6.5 s; BullMQ's own 30 s took 61 s. */
const LOCK_MS = 5_000;
const STALLED_CHECK_MS = 2_500;
/** Handlers that do not listen to their signal are left behind after this. */
const STOP_MS = 1_000;
/** Pause after a failed command; BullMQ's own 15 s would leave a worker idle long after Redis is back. */
const RETRY_MS = 1_000;
/** A job that kills its worker a second time fails as WORKER_LOST instead of circling. */
const MAX_STALLED = 1;

/** Work on a job, from its taking on. */
interface Begun<R> {
  abort: AbortController;
  result: Promise<R>;
}

/** Takes jobs of one queue and answers them. A part of a service: `start`, `ready`, `drain`, `stop`. */
export class JobWorker<D extends JobData = JobData, R = unknown> {
  readonly name: string;
  readonly #clock: Clock;
  readonly #worker: Worker<D, R>;
  readonly #running = new Map<string, StoppableJob>();
  readonly #begun = new WeakMap<Job<D, R>, Begun<R>>();
  readonly #replies: JobReplies<D, R>;
  readonly #cancels: CancelledJobs;
  readonly #slots: SlotReport;
  #started = false;
  #closing: Promise<void> | undefined;

  constructor(private readonly options: JobWorkerOptions<D, R>) {
    this.name = `worker of ${options.queue}`;
    this.#clock = options.clock ?? new SystemClock();
    this.#replies = new JobReplies(options.publisher);
    this.#cancels = new CancelledJobs(options.redis.duplicate(), options.queue, this.#clock, this.#running);
    this.#worker = new Worker<D, R>(options.queue, (job, token, signal) => this.#process(job, token, signal), {
      connection: options.redis,
      prefix: QUEUE_PREFIX,
      autorun: false,
      concurrency: options.concurrency,
      lockDuration: LOCK_MS,
      stalledInterval: STALLED_CHECK_MS,
      maxStalledCount: MAX_STALLED,
      runRetryDelay: RETRY_MS,
      skipWaitingForReady: true,
    });
    this.#slots = new SlotReport(options.publisher, options.queue, this.#clock, () => ({
      busy: this.#running.size,
      total: options.concurrency,
      at: options.time.now(),
    }));
    this.#worker.on('active', (job) => void (job.deferredFailure ?? this.#begin(job)));
    this.#worker.on('completed', (job, result) => this.#replies.result(job, result));
    this.#worker.on('failed', (job, error) => job && this.#replies.failure(job, error));
    this.#worker.on('stalled', () => options.metrics?.queueStalled.inc({ queue: options.queue }));
    this.#worker.on('error', (error) => {
      // The connection itself says once that Redis is away; the worker would say it for every try.
      if (options.redis.status === 'ready') options.onFault?.(error);
    });
  }

  /** Jobs in work. */
  get inFlight(): number {
    return this.#running.size;
  }

  async start(): Promise<void> {
    await this.#cancels.start();
    await this.#worker.waitUntilReady();
    this.#worker.run().catch((error: unknown) => this.options.onFault?.(error));
    this.#started = true;
    // From nothing to one is no increase: the series has to be there before.
    this.options.metrics?.queueStalled.inc({ queue: this.options.queue }, 0);
    this.#measureSlots();
    this.#slots.start();
  }

  ready(): boolean {
    return this.#started && this.options.redis.status === 'ready' && !this.#worker.closing;
  }

  /** Takes no more jobs and waits for those in work, at most `drainMs`. */
  async drain(): Promise<void> {
    this.#slots.stop();
    // Closing, not pausing: a paused worker still takes the job its blocking read was waiting for.
    this.#closing = this.#worker.close().catch(() => undefined);
    await Promise.race([this.#closing, this.#clock.sleep(this.options.drainMs ?? 60_000)]);
  }

  /** Ends at once; a job still in work runs again elsewhere after its lock has ended. */
  async stop(): Promise<void> {
    for (const { abort } of this.#running.values()) {
      abort.abort(new ToolError('SERVICE_UNAVAILABLE', { message: 'The worker is stopping' }));
    }
    this.#slots.stop();
    this.#cancels.stop();
    this.#closing ??= this.#worker.close(this.#running.size > 0).catch(() => undefined);
    await Promise.race([this.#closing, this.#clock.sleep(STOP_MS)]);
  }

  async #process(job: Job<D, R>, token: string | undefined, lockLost: AbortSignal | undefined): Promise<R> {
    const { abort, result } = this.#begin(job);
    const onLost = () => abort.abort(new ToolError('CANCELLED', { cause: lockLost?.reason }));
    lockLost?.addEventListener('abort', onLost, { once: true });
    try {
      return await result;
    } catch (error) {
      if (error instanceof RetryLater) {
        await job.moveToDelayed(this.#clock.now() + error.delayMs, token);
        throw new DelayedError();
      }
      if (!(error instanceof ToolError)) this.options.onFault?.(error, job.id);
      throw this.#kept(error, job.data);
    }
  }

  /**
   * Begins a job when it is taken: BullMQ hands it over only after it has asked Redis whether there is another one. A job
   * that BullMQ will fail without running it (it killed its workers) is never begun.
   */
  #begin(job: Job<D, R>): Begun<R> {
    const known = this.#begun.get(job);
    if (known) return known;
    const abort = new AbortController();
    const begun = { abort, result: this.#run(job, abort) };
    begun.result.catch(() => undefined); // heard by #process, which comes later
    this.#begun.set(job, begun);
    return begun;
  }

  async #run(job: Job<D, R>, abort: AbortController): Promise<R> {
    const { data } = job;
    const jobId = job.id as string;
    const { time, metrics, queue } = this.options;
    const queuedMs = data.queued_at === undefined ? 0 : Math.max(0, time.now() - data.queued_at);
    metrics?.queueWait.observe({ queue }, queuedMs / 1_000);
    const leftMs = data.deadline_at === undefined ? undefined : time.msUntil(data.deadline_at);
    if (leftMs !== undefined && leftMs <= (this.options.leastMs?.(data) ?? 0)) {
      metrics?.shed.inc({ executor: queue, reason: 'deadline' });
      throw new ToolError('DEADLINE_EXCEEDED', { message: `The call waited ${queuedMs} ms for a worker` });
    }
    const cancelTimer =
      leftMs === undefined
        ? () => undefined
        : this.#clock.after(leftMs, () => abort.abort(new ToolError('DEADLINE_EXCEEDED')));
    this.#running.set(jobId, { callId: data.call_id, abort });
    if (this.#cancels.overtook(jobId)) abort.abort(new ToolError('CANCELLED'));
    this.#measureSlots();
    try {
      const run: JobRun<D> = {
        jobId,
        data,
        signal: abort.signal,
        deadlineAt: leftMs === undefined ? undefined : this.#clock.now() + leftMs,
        queuedMs,
        isRepeated: job.stalledCounter > 0,
        progress: (progress) => this.#replies.progress(job, progress),
      };
      const headers = { get: (name: string) => (name === 'traceparent' ? data.traceparent : undefined) };
      const follow = this.options.startsTrace ? inLinkedTrace : inTrace;
      const result = await follow(`job ${queue}`, headers, () => this.options.handler(run));
      if (!abort.signal.aborted) this.#replies.result(job, result);
      return result;
    } finally {
      cancelTimer();
      this.#running.delete(jobId);
      this.#measureSlots();
    }
  }

  /** The error in the form the job record keeps. */
  #kept(error: unknown, data: D): Error {
    const kept = new Error(failureText(error, data.call_id));
    kept.stack = '';
    return kept;
  }

  #measureSlots(): void {
    const { metrics, queue, concurrency } = this.options;
    metrics?.workerSlots.set({ executor: queue, state: 'busy' }, this.#running.size);
    metrics?.workerSlots.set({ executor: queue, state: 'total' }, concurrency);
  }
}
