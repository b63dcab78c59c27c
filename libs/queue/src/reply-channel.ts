/**
 * The waiting side of queued calls: a Redis channel per queue and process and one table of waiting jobs. Workers of a queue may
 * only use its own channels (deploy/redis.acl.template), so they can neither read nor forge replies of another queue. A channel delivers at
 * most once, so the job record is the truth: it is read after every (re)subscribe for all waiting jobs, and every two
 * seconds for those that wait longer. Giving up (deadline, abort) cancels the job, not only the waiting.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isJsonObject, ToolError, type EpochMs } from '@toolfleet/contracts';
import { errorFromBody } from '@toolfleet/contracts/wire';
import { SystemClock, TimedOut, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import type { JobQueue } from './job-queue.js';
import type { JobProgress, ReplyMessage } from './job-run.js';
import { jobIdOf, replyChannel, type JobData } from './queues.js';

/** What a channel needs. */
export interface ReplyChannelOptions {
  /** Connection with role `blocking`; the channel subscribes on a connection made from it. */
  redis: Redis;
  /** Names of the queues whose jobs are waited for. */
  queues: readonly string[];
  clock?: Clock;
}

/** One queued call. */
export interface SubmitOptions {
  /** The call ends by then, on this process's wall clock. */
  deadlineAt: EpochMs;
  signal?: AbortSignal;
  priority?: number;
  onProgress?: (progress: JobProgress) => void;
  /** Default `<call_id>-<attempt>`. */
  jobId?: string;
}

interface Waiting {
  readonly queue: JobQueue;
  readonly jobId: string;
  readonly since: number;
  readonly onProgress: ((progress: JobProgress) => void) | undefined;
  missing: number;
  resolve(value: unknown): void;
  reject(error: ToolError): void;
}

const CHECK_MS = 2_000;
/** Time a worker has to answer a job that was called off while it ran: with what it used up to then. */
const LAST_WORD_MS = 1_000;
/** A record missing this often in a row is gone: Redis lost it, nobody will ever answer. */
const MISSING_LIMIT = 2;

/** Receives the replies of the jobs this process waits for. A part of a service. */
export class ReplyChannel {
  readonly name = 'reply channel';
  /** Channels by queue; `submit` puts the one of its queue into `reply_channel` of the job. */
  readonly #channels: ReadonlyMap<string, string>;
  readonly #clock: Clock;
  readonly #subscriber: Redis;
  readonly #waiting = new Map<string, Waiting>();
  #cancelCheck: CancelTimer | undefined;

  constructor(options: ReplyChannelOptions) {
    this.#clock = options.clock ?? new SystemClock();
    const id = randomUUID();
    this.#channels = new Map(options.queues.map((queue) => [queue, replyChannel(queue, id)]));
    this.#subscriber = options.redis.duplicate();
    this.#subscriber.on('error', () => undefined); // the shared connection logs the outage
    this.#subscriber.on('message', (channel: string, text: string) => this.#received(channel, text));
    // After a reconnect ioredis subscribes again by itself; replies of the gap are only in the records.
    this.#subscriber.on('ready', () => void this.#readRecords(0));
  }

  async start(): Promise<void> {
    if (this.#subscriber.status === 'wait') await this.#subscriber.connect();
    await this.#subscriber.subscribe(...this.#channels.values());
    if (!this.#cancelCheck) this.#schedule();
  }

  ready(): boolean {
    return this.#subscriber.status === 'ready';
  }

  /** Calls that wait. */
  get inFlight(): number {
    return this.#waiting.size;
  }

  /** Waits until no call waits any more. */
  async drain(): Promise<void> {
    while (this.#waiting.size > 0) await this.#clock.sleep(20);
  }

  async stop(): Promise<void> {
    this.#cancelCheck?.();
    for (const waiting of this.#waiting.values()) {
      waiting.reject(new ToolError('SERVICE_UNAVAILABLE', { message: 'This service is stopping' }));
    }
    this.#subscriber.disconnect();
  }

  /**
   * Adds a job and waits for its reply. Rejects with what the worker threw, QUEUE_FULL, SERVICE_UNAVAILABLE while Redis is
   * away, DEADLINE_EXCEEDED, CANCELLED when the signal fires, WORKER_LOST when the job's workers died.
   */
  async submit<D extends JobData, R>(queue: JobQueue<D, R>, data: D, options: SubmitOptions): Promise<R> {
    const jobId = options.jobId ?? jobIdOf(data.call_id, data.attempt ?? 1);
    const key = `${queue.name}/${jobId}`;
    const channel = this.#channels.get(queue.name);
    if (channel === undefined)
      throw new ToolError('INTERNAL', { message: `Replies of the queue ${queue.name} are not received here` });
    if (options.signal?.aborted) throw new ToolError('CANCELLED');
    const remainingMs = options.deadlineAt - this.#clock.now();
    if (remainingMs <= 0) throw new ToolError('DEADLINE_EXCEEDED');
    if (this.#waiting.has(key)) throw new ToolError('INTERNAL', { message: `Job ${jobId} is already waited for` });

    const reply = new Promise<R>((resolve, reject) => {
      this.#waiting.set(key, {
        queue: queue as unknown as JobQueue,
        jobId,
        since: this.#clock.monotonic(),
        onProgress: options.onProgress,
        missing: 0,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
    });
    let gaveUp = false;
    const giveUp = (error: ToolError): void => {
      gaveUp = true;
      this.#waiting.get(key)?.reject(error);
      // The worker notices its own deadline; this spares it the work when the job still waits.
      queue.cancel(jobId).catch(() => undefined);
    };
    const cancelTimer = this.#clock.after(remainingMs, () =>
      giveUp(new ToolError('DEADLINE_EXCEEDED', { message: 'No result in time' })),
    );
    let cancelLastWord: CancelTimer = () => {};
    const onAbort = (): void => {
      const cancelled = new ToolError('CANCELLED', { cause: options.signal?.reason });
      if (options.signal?.reason instanceof TimedOut) return giveUp(cancelled);
      queue.cancel(jobId).then(
        (outcome) => {
          if (outcome !== 'signalled') giveUp(cancelled);
          else cancelLastWord = this.#clock.after(LAST_WORD_MS, () => giveUp(cancelled));
        },
        () => giveUp(cancelled),
      );
    };
    options.signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const parent = data.traceparent ?? traceparent();
      const job = {
        ...data,
        ...(parent ? { traceparent: parent } : {}),
        reply_channel: channel,
        deadline_at: queue.time.fromLocal(options.deadlineAt),
      };
      const added = queue.add(jobId, job, options.priority === undefined ? {} : { priority: options.priority });
      // A reply or the deadline may come while adding still waits for Redis.
      await Promise.race([
        added,
        reply.then(
          () => undefined,
          () => undefined,
        ),
      ]);
      added.then(
        // Given up before the queue had the job: there was nothing to cancel then.
        () => (gaveUp ? queue.cancel(jobId).catch(() => undefined) : undefined),
        () => undefined,
      );
      return await reply;
    } finally {
      cancelTimer();
      cancelLastWord();
      options.signal?.removeEventListener('abort', onAbort);
      this.#waiting.delete(key);
      reply.catch(() => undefined);
    }
  }

  #received(channel: string, text: string): void {
    const message = parse(text);
    if (!message) return;
    for (const waiting of this.#waiting.values()) {
      if (waiting.jobId !== message.job_id || this.#channels.get(waiting.queue.name) !== channel) continue;
      if (message.type === 'result') waiting.resolve(message.reply);
      else if (message.type === 'error') waiting.reject(errorFromBody(message.error));
      else {
        const { message: note, progress, total } = message;
        waiting.onProgress?.({
          ...(note === undefined ? {} : { message: note }),
          ...(progress === undefined ? {} : { progress }),
          ...(total === undefined ? {} : { total }),
        });
      }
    }
  }

  #schedule(): void {
    this.#cancelCheck = this.#clock.after(CHECK_MS, () => {
      void this.#readRecords(CHECK_MS).finally(() => this.#schedule());
    });
  }

  /** Reads the records of the jobs that wait at least `leastMs`. */
  async #readRecords(leastMs: number): Promise<void> {
    const before = this.#clock.monotonic() - leastMs;
    const due = [...this.#waiting.values()].filter((waiting) => waiting.since <= before);
    await Promise.all(due.map((waiting) => this.#readRecord(waiting)));
  }

  async #readRecord(waiting: Waiting): Promise<void> {
    try {
      const record = await waiting.queue.record(waiting.jobId);
      if (record.state === 'completed') return waiting.resolve(record.result);
      if (record.state === 'failed') return waiting.reject(record.error ?? new ToolError('INTERNAL'));
      waiting.missing = record.state === 'unknown' ? waiting.missing + 1 : 0;
      if (waiting.missing < MISSING_LIMIT) return;
      waiting.reject(
        new ToolError('WORKER_LOST', { message: 'The queue lost this call', details: { reason: 'no_record' } }),
      );
    } catch {
      // Redis is away: the next check reads it, and the deadline bounds the waiting.
    }
  }
}

/** Whoever can publish to Redis can send here; what is no message of ours is nobody's reply. */
function parse(text: string): ReplyMessage<unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? (value as unknown as ReplyMessage<unknown>) : undefined;
  } catch {
    return undefined;
  }
}
