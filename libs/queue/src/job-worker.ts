import { DelayedError, type Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import { SystemClock, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { inLinkedTrace, inTrace, type Metrics } from '@toolfleet/telemetry';
import { formatFailure, RetryLater, type JobData, type JobHandler, type JobRun } from './jobs.js';
import { servedShards, shardPrefix } from './shard-numbers.js';
import type { RedisTime } from './redis-time.js';
import { ShardSlots } from './shard-slots.js';
import { TakingWorker } from './taking-worker.js';
import { CancelledJobs, JobQuestions, JobReplies } from './worker-messages.js';
import { isVouched, VOUCHED_MS } from './vouched-jobs.js';
import { SlotReport, SlotShares } from './worker-slots.js';

interface JobWorkerOptions<D extends JobData, R> {
  queue: string;
  /** Connection with role `blocking`; the worker duplicates it to wait for jobs. */
  redis: Redis;
  /** Connection with role `commands`, for replies. */
  publisher: Redis;
  time: RedisTime;
  /** Jobs of all shards that run at the same time. */
  concurrency: number;
  handler: JobHandler<D, R>;
  clock?: Clock;
  metrics?: Metrics;
  /**
   * The share of a job, such as its tenant. One share holds at most all slots but one; set it for jobs that hold their slot while
   * they wait for something else.
   */
  shareOf?: (data: D) => string;
  /** Shortest time that a job needs; a job with less time left fails with DEADLINE_EXCEEDED when it is taken. */
  leastMs?: (data: D) => Milliseconds;
  /** How often a job may lose its worker before it fails as WORKER_LOST. Default 1: a job may be what ends workers. */
  maxLost?: number;
  /** Each job starts its own trace, linked to the caller's; for jobs without a waiting process. Default false: it continues the trace. */
  startsTrace?: boolean;
  /** Aborted when the service begins to drain: no job is taken from then on, even while other components still drain. */
  draining?: AbortSignal;
  /** Jobs of this queue may ask the process that waits for them. Default false. */
  asks?: boolean;
  /** Called when a handler fails with an error other than a ToolError, and on errors of Redis. */
  onFault?: (error: unknown, jobId?: string) => void;
}

/** With these times a job of a killed worker runs again after about 6.5 s; with BullMQ's default of 30 s it took 61 s. */
const LOCK_MS = 5_000;
const RENEW_MS = 1_500;
const STALLED_CHECK_MS = 2_500;
/** How often a worker looks for shards that have come into use. */
const SHARDS_CHECK_MS = 2_000;
/** Longest wait of `stop` for handlers that ignore their signal. */
const STOP_MS = 1_000;
/** Pause after a failed command. With BullMQ's default of 15 s a worker would stay idle long after an outage of Redis. */
const RETRY_MS = 1_000;
/** Pause before a job is taken again without a recent word of its submitter that it may start. */
const UNVOUCHED_MS = 1_000;
/** A job that lost its worker twice fails as WORKER_LOST instead of being retried indefinitely. */
const MAX_LOST = 1;

/**
 * Lifecycle component that runs the jobs of one queue, from all its shards. BullMQ delivers at least once: a worker that is suspended
 * longer than its lock (5 s) loses the job to another one, so handlers of tools with effects claim the call in the journal first.
 *
 * A result is sent to the waiting process at once and written to the job record right after; a process that misses the message reads
 * the record. Failures, and results of aborted jobs, are sent only after BullMQ has written them to the record: a worker that is stopping
 * or has lost its lock leaves the job to another worker, and must not send an outcome.
 */
export class JobWorker<D extends JobData = JobData, R = unknown> {
  readonly name: string;
  readonly #clock: Clock;
  /** One for each shard. */
  readonly #takers: TakingWorker<D, R>[] = [];
  readonly #shardSlots: ShardSlots;
  #cancelShardsCheck: CancelTimer = () => undefined;
  readonly #running = new Map<string, AbortController>();
  readonly #startedJobs = new WeakMap<Job<D, R>, Promise<R>>();
  /** Runs in this process by job id. */
  readonly #runs = new Map<string, Promise<R>>();
  readonly #replies: JobReplies<D, R>;
  readonly #cancels: CancelledJobs;
  readonly #questions: JobQuestions<D> | undefined;
  readonly #slots: SlotReport;
  readonly #shares: SlotShares;
  #started = false;
  #closing: Promise<void> | undefined;

  constructor(private readonly options: JobWorkerOptions<D, R>) {
    this.name = `worker of ${options.queue}`;
    this.#clock = options.clock ?? new SystemClock();
    this.#replies = new JobReplies(options.publisher);
    this.#cancels = new CancelledJobs(options.redis.duplicate(), options.queue, this.#clock, this.#running);
    if (options.asks)
      this.#questions = new JobQuestions(options.publisher, options.redis.duplicate(), options.queue, this.#clock);
    this.#shardSlots = new ShardSlots(options.concurrency);
    this.#shares = new SlotShares(options.concurrency, this.#clock);
    this.#slots = new SlotReport(options.publisher, options.queue, this.#clock, () => ({
      busy: this.#running.size,
      total: options.concurrency,
      at: options.time.now(),
    }));
    options.draining?.addEventListener('abort', () => void this.drain(), { once: true });
  }

  /** Number of running jobs. */
  get inFlight(): number {
    return this.#running.size;
  }

  async start(): Promise<void> {
    await this.#cancels.start();
    await this.#questions?.start();
    await this.#serveShards();
    this.#started = true;
    // Prometheus sees no increase in a series that starts above 0.
    this.options.metrics?.queueStalled.inc({ queue: this.options.queue }, 0);
    this.#measureSlots();
    this.#slots.start();
  }

  ready(): boolean {
    return this.#started && this.options.redis.status === 'ready' && this.#closing === undefined;
  }

  /** Takes no more jobs and waits for running ones. The service bounds the wait by `DRAIN_TIMEOUT_MS` and then calls `stop`. */
  async drain(): Promise<void> {
    this.#slots.stop();
    // Not `pause`: a paused worker still takes a job from its pending blocking read.
    await this.#close(false);
  }

  /** Aborts running jobs. A job with an endless handler runs again on another worker after its lock expires. */
  async stop(): Promise<void> {
    for (const running of this.#running.values()) {
      running.abort(new ToolError('SERVICE_UNAVAILABLE', { message: 'The worker is stopping' }));
    }
    this.#slots.stop();
    this.#cancels.stop();
    this.#questions?.stop();
    await Promise.race([this.#close(this.#running.size > 0), this.#clock.sleep(STOP_MS)]);
  }

  /** @param force does not wait for running jobs */
  #close(force: boolean): Promise<void> {
    this.#cancelShardsCheck();
    const closed = () => Promise.all(this.#takers.map((taker) => taker.close(force).catch(() => undefined)));
    this.#closing ??= closed().then(() => undefined);
    return this.#closing;
  }

  /** Takes jobs from all shards in use, and goes on looking for further ones. A shard is served until the worker stops. */
  async #serveShards(): Promise<void> {
    const { publisher, queue, onFault } = this.options;
    // While Redis is unavailable no shard comes into use.
    const shards = await servedShards(publisher, queue).catch(() => 1);
    while (this.#takers.length < shards && !this.#closing) {
      const taker = this.#newTaker(this.#takers.length);
      this.#takers.push(taker);
      try {
        await taker.waitUntilReady();
      } catch (error) {
        this.#takers.pop();
        await taker.close(true).catch(() => undefined);
        throw error;
      }
      taker.run().catch((error: unknown) => onFault?.(error));
    }
    if (this.#closing) return;
    const serve = (): void => void this.#serveShards().catch((error: unknown) => onFault?.(error));
    this.#cancelShardsCheck = this.#clock.after(SHARDS_CHECK_MS, serve);
  }

  #newTaker(shard: number): TakingWorker<D, R> {
    const { queue, redis, concurrency, metrics, maxLost = MAX_LOST } = this.options;
    const process = (job: Job<D, R>, token: string | undefined) => this.#process(job, token);
    const options = {
      connection: redis,
      prefix: shardPrefix(shard),
      autorun: false,
      concurrency,
      lockDuration: LOCK_MS,
      // BullMQ renews locks by job id. A suspended worker that loses a job and takes it again would end the renewal of the second
      // lock with the first.
      skipLockRenewal: true,
      stalledInterval: STALLED_CHECK_MS,
      maxStalledCount: maxLost,
      runRetryDelay: RETRY_MS,
      skipWaitingForReady: true,
    };
    const taker = new TakingWorker<D, R>(queue, process, options, {
      clock: this.#clock,
      slots: this.#shardSlots,
      hasPutBack: () => this.#shares.hasParked,
    });
    taker.on('active', (job) => void (job.deferredFailure ?? this.#start(job)));
    taker.on('completed', (job, result) => this.#replies.result(job, result));
    taker.on('failed', (job, error) => job && this.#replies.failure(job, error));
    taker.on('stalled', () => metrics?.queueStalled.inc({ queue }));
    taker.on('error', (error) => {
      // The connection logs an outage of Redis once; the worker would report every retry.
      if (redis.status === 'ready') this.options.onFault?.(error);
    });
    return taker;
  }

  async #process(job: Job<D, R>, token: string | undefined): Promise<R> {
    const stopRenewing = this.#renewLock(job, token ?? '');
    try {
      return await this.#start(job);
    } catch (error) {
      if (error instanceof RetryLater) {
        await job.moveToDelayed(this.#clock.now() + error.delayMs, token);
        throw new DelayedError();
      }
      if (!(error instanceof ToolError)) this.options.onFault?.(error, job.id);
      const failure = new Error(formatFailure(error, job.data.call_id));
      failure.stack = '';
      throw failure;
    } finally {
      stopRenewing();
    }
  }

  /**
   * Renews the lock of a job until the returned function is called. When the lock is lost, the run goes on while another worker may
   * need its result; it is aborted once the job has ended, because no process answers its questions then and it would keep its slot.
   */
  #renewLock(job: Job<D, R>, token: string): CancelTimer {
    let cancelTimer: CancelTimer = () => undefined;
    let isOver = false;
    let isHeld = true;
    const check = async (): Promise<void> => {
      // While Redis is unavailable the lock may expire; the next renewal tells.
      if (isHeld) isHeld = (await job.extendLock(token, LOCK_MS).catch(() => 1)) === 1;
      else if (await this.#hasEnded(job)) return this.#abortLost(job);
      if (!isOver) schedule();
    };
    const schedule = (): void => {
      cancelTimer = this.#clock.after(RENEW_MS, () => void check());
    };
    schedule();
    return () => {
      isOver = true;
      cancelTimer();
    };
  }

  /** Whether a job that another process waited for has ended, on another worker or by its cancellation. */
  async #hasEnded({ id, data, prefix }: Job<D, R>): Promise<boolean> {
    if (data.reply_channel === undefined) return false;
    const { publisher, queue } = this.options;
    const read = publisher.hmget(`${prefix}:${queue}:${id as string}`, 'timestamp', 'finishedOn');
    return read.then(
      ([timestamp, finishedOn]) => !timestamp || Boolean(finishedOn),
      () => false,
    );
  }

  #abortLost({ id }: Job<D, R>): void {
    const reason = new ToolError('CANCELLED', { message: 'The job has ended on another worker' });
    this.#running.get(id as string)?.abort(reason);
  }

  /**
   * Starts a job as soon as it is taken. BullMQ calls the processor only after another request to Redis for the next job. A job that
   * BullMQ will fail without running it (its workers died) is never started. A worker that was suspended, lost a job and takes it
   * again still runs it; the second taking shares that run.
   */
  #start(job: Job<D, R>): Promise<R> {
    const jobId = job.id as string;
    const known = this.#startedJobs.get(job) ?? this.#runs.get(jobId);
    if (known) {
      this.#startedJobs.set(job, known);
      return known;
    }
    const result = this.#runInSlot(job).finally(() => this.#runs.delete(jobId));
    result.catch(() => undefined); // `#process` awaits the result later
    this.#startedJobs.set(job, result);
    this.#runs.set(jobId, result);
    return result;
  }

  /** @throws RetryLater when the share of the job has all the slots it may have */
  async #runInSlot(job: Job<D, R>): Promise<R> {
    const share = this.options.shareOf?.(job.data);
    if (share === undefined) return this.#run(job);
    const { parkedMs } = await this.#shares.take(share, job);
    if (parkedMs !== undefined) throw new RetryLater(parkedMs);
    try {
      return await this.#run(job);
    } finally {
      this.#shares.free(share);
    }
  }

  async #run(job: Job<D, R>): Promise<R> {
    const { data } = job;
    const abort = new AbortController();
    const jobId = job.id as string;
    const { time, metrics, queue } = this.options;
    const queuedMs = data.queued_at === undefined ? 0 : Math.max(0, time.now() - data.queued_at);
    metrics?.queueWait.observe({ queue }, queuedMs / 1_000);
    const leftMs = data.deadline_at === undefined ? undefined : time.msUntil(data.deadline_at);
    if (leftMs !== undefined && leftMs <= (this.options.leastMs?.(data) ?? 0)) {
      metrics?.shed.inc({ executor: queue, reason: 'deadline' });
      throw new ToolError('DEADLINE_EXCEEDED', { message: `The call waited ${queuedMs} ms for a worker` });
    }
    if (!(await this.#mayStart(job, queuedMs))) throw new RetryLater(UNVOUCHED_MS);
    const cancelTimer =
      leftMs === undefined
        ? () => undefined
        : this.#clock.after(leftMs, () => abort.abort(new ToolError('DEADLINE_EXCEEDED')));
    this.#running.set(jobId, abort);
    if (this.#cancels.takeEarly(jobId)) abort.abort(new ToolError('CANCELLED'));
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
        ask: (question) =>
          this.#questions?.ask(job, question) ??
          Promise.reject(new ToolError('INTERNAL', { message: `Jobs of ${queue} do not ask` })),
      };
      const headers = { get: (name: string) => (name === 'traceparent' ? data.traceparent : undefined) };
      const follow = this.options.startsTrace ? inLinkedTrace : inTrace;
      const result = await follow(`job ${queue}`, headers, () => this.options.handler(run));
      if (!abort.signal.aborted) this.#replies.result(job, result);
      return result;
    } finally {
      cancelTimer();
      this.#running.delete(jobId);
      this.#questions?.end(jobId);
      this.#measureSlots();
    }
  }

  /** Whether the process that waits for a job is alive. No process waits for jobs without a reply channel; their handlers decide. */
  async #mayStart({ id, data }: Job<D, R>, queuedMs: Milliseconds): Promise<boolean> {
    const { publisher, queue, time } = this.options;
    if (data.reply_channel === undefined || queuedMs <= VOUCHED_MS) return true;
    return isVouched(publisher, queue, id as string, time.now()).catch(() => false);
  }

  #measureSlots(): void {
    const { metrics, queue, concurrency } = this.options;
    metrics?.workerSlots.set({ executor: queue, state: 'busy' }, this.#running.size);
    metrics?.workerSlots.set({ executor: queue, state: 'total' }, concurrency);
  }
}
