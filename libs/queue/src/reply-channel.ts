import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { errorFromBody } from '@toolfleet/contracts/wire';
import { onAbort, SystemClock, TimedOut, type CancelTimer, type Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import type { JobQueue } from './job-queue.js';
import {
  answerChannel,
  readMessage,
  replyChannel,
  toJobId,
  type JobData,
  type JobProgress,
  type ReplyMessage,
} from './jobs.js';

interface ReplyChannelOptions {
  /** Connection with role `blocking`; the channel duplicates it to subscribe. */
  redis: Redis;
  /** Names of the queues to which calls are submitted. */
  queues: readonly string[];
  clock?: Clock;
}

interface SubmitOptions {
  /** Deadline by this process's wall clock. */
  deadlineAt: EpochMs;
  signal?: AbortSignal;
  /**
   * Time that a run may take, from the instant at which a worker first had the job; without a result 20 s later the wait ends.
   * Default: until the deadline.
   */
  runMs?: Milliseconds;
  /** Aborted when the job must not start any more. A job that no worker has is removed then; its reason is a ToolError. */
  startUntil?: AbortSignal;
  onProgress?: (progress: JobProgress) => void;
  /**
   * Answers the questions of the job. Questions are repeated: the same one has to get the same answer. `bytes` is the size of
   * the message.
   */
  onAsk?: (question: unknown, bytes: number) => Promise<unknown>;
  /** True: a process that died may have submitted the job before. Names this process to the worker, for its questions. */
  takesOver?: boolean;
  /** Default `<call_id>-<attempt>`. */
  jobId?: string;
}

/** A submitted job without a reply. */
interface PendingJob {
  readonly queue: JobQueue;
  readonly jobId: string;
  readonly since: number;
  readonly onProgress: ((progress: JobProgress) => void) | undefined;
  readonly onAsk: SubmitOptions['onAsk'];
  readonly startUntil: AbortSignal | undefined;
  /** The latest questions by their id, for acknowledged reminders. */
  readonly asked: Map<string, HeldQuestion>;
  missing: number;
  readonly runMs: Milliseconds;
  /** Monotonic instant at which a worker was first seen to have the job. */
  heldSince: number | undefined;
  giveUp(error: ToolError): void;
  resolve(value: unknown): void;
  reject(error: ToolError): void;
}

/** A question of a job. */
interface HeldQuestion {
  /** Absent until it is answered. */
  answer?: { readonly value: unknown };
}

/** A job has at most eight questions open. */
const MAX_HELD = 64;
const CHECK_MS = 2_000;
/** Time for a worker to reply to the cancellation of a running job with the usage up to then. */
const CANCEL_REPLY_MS = 1_000;
/** How often a job that must not start is tried to be removed. */
const WITHDRAW_MS = 250;
/** Time to learn whether a job had begun, before its caller is answered at the deadline. */
const REMOVE_MS = 100;
/** Time to notice that a worker is gone, and for another one to start the job again. */
const RESTART_MS = 20_000;
/** After this many consecutive reads without a record, Redis has lost the job. */
const MISSING_LIMIT = 2;

/**
 * Lifecycle component that submits jobs and waits for their replies, on one Redis channel per queue and process. Workers of a queue may
 * use the channels of this queue only (deploy/redis.acl.template), so they can neither read nor forge replies of another queue.
 *
 * A channel delivers at most once, so the job record is authoritative. It is read after every (re)subscribe for all pending jobs, and
 * every two seconds for jobs pending longer than that. A deadline or an abort cancels the job, not only the wait.
 */
export class ReplyChannel {
  readonly name = 'reply channel';
  /** Channels by queue, and queues by channel. */
  readonly #channels: ReadonlyMap<string, string>;
  readonly #queues: ReadonlyMap<string, string>;
  readonly #clock: Clock;
  readonly #subscriber: Redis;
  /** By `toKey`. */
  readonly #pending = new Map<string, PendingJob>();
  #cancelCheck: CancelTimer | undefined;

  constructor(options: ReplyChannelOptions) {
    this.#clock = options.clock ?? new SystemClock();
    const id = randomUUID();
    this.#channels = new Map(options.queues.map((queue) => [queue, replyChannel(queue, id)]));
    this.#queues = new Map([...this.#channels].map(([queue, channel]) => [channel, queue]));
    this.#subscriber = options.redis.duplicate();
    this.#subscriber.on('error', () => undefined); // the connection it was duplicated from logs outages
    this.#subscriber.on('message', (channel: string, text: string) => this.#received(channel, text));
    // ioredis subscribes again after a reconnect. Replies sent in between are only in the records.
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

  /** Number of pending jobs. */
  get inFlight(): number {
    return this.#pending.size;
  }

  /** Waits until no job is pending. */
  async drain(): Promise<void> {
    while (this.#pending.size > 0) await this.#clock.sleep(20);
  }

  async stop(): Promise<void> {
    this.#cancelCheck?.();
    for (const pending of this.#pending.values()) {
      pending.reject(new ToolError('SERVICE_UNAVAILABLE', { message: 'This service is stopping' }));
    }
    this.#subscriber.disconnect();
  }

  /**
   * Adds a job and waits for its reply.
   * @throws ToolError of the handler; QUEUE_FULL; SERVICE_UNAVAILABLE while Redis is unavailable; DEADLINE_EXCEEDED; CANCELLED when
   *   the signal fires, both with the fact `begun: 'no'` if no worker had taken the job, and
   *   `blame: 'executor'` if none is alive; WORKER_LOST when the workers of the job died or Redis lost it
   */
  async submit<D extends JobData, R>(queue: JobQueue<D, R>, data: D, options: SubmitOptions): Promise<R> {
    const jobId = options.jobId ?? toJobId(data.call_id, data.attempt ?? 1);
    const key = toKey(queue.name, jobId);
    const channel = this.#channels.get(queue.name);
    if (channel === undefined)
      throw new ToolError('INTERNAL', { message: `The reply channel does not include the queue ${queue.name}` });
    if (options.signal?.aborted) throw new ToolError('CANCELLED');
    const remainingMs = options.deadlineAt - this.#clock.now();
    if (remainingMs <= 0) throw new ToolError('DEADLINE_EXCEEDED');
    if (this.#pending.has(key)) throw new ToolError('INTERNAL', { message: `Job ${jobId} is already pending` });

    const reply = new Promise<R>((resolve, reject) => {
      this.#pending.set(key, {
        queue: queue as unknown as JobQueue,
        jobId,
        since: this.#clock.monotonic(),
        onProgress: options.onProgress,
        onAsk: options.onAsk,
        startUntil: options.startUntil,
        asked: new Map(),
        missing: 0,
        runMs: options.runMs ?? Infinity,
        heldSince: undefined,
        giveUp: (error) => giveUp(error),
        resolve: resolve as (value: unknown) => void,
        reject,
      });
    });
    let gaveUp = false;
    const giveUp = (error: ToolError): void => {
      if (gaveUp) return;
      gaveUp = true;
      const reject = (reason: ToolError) => this.#pending.get(key)?.reject(reason);
      const cancelLate = this.#clock.after(REMOVE_MS, () => reject(error));
      // The worker enforces the deadline too; this removes a job that is still waiting and provably never began.
      Promise.all([queue.cancel(jobId), queue.workers()]).then(
        ([outcome, workers]) => {
          cancelLate();
          const pending = this.#pending.get(key);
          if (outcome === 'removed') reject(pending ? neverHeld(pending, error) : error);
          else reject(workers.length > 0 ? error : error.withFacts({ blame: 'executor' }, { reason: 'no_workers' }));
        },
        () => undefined,
      );
    };
    const giveUpLate = (): void => giveUp(new ToolError('DEADLINE_EXCEEDED', { message: 'No result in time' }));
    const cancelTimer = this.#clock.after(remainingMs, giveUpLate);
    let stopWaitingForCancel: CancelTimer = () => {};
    const onCancelled = (): void => {
      if (options.signal?.reason instanceof TimedOut) return giveUpLate();
      const cancelled = new ToolError('CANCELLED', { cause: options.signal?.reason });
      queue.cancel(jobId).then(
        (outcome) => {
          const pending = this.#pending.get(key);
          if (outcome === 'removed') pending?.reject(neverHeld(pending, cancelled));
          else if (outcome === 'finished') giveUp(cancelled);
          else stopWaitingForCancel = this.#clock.after(CANCEL_REPLY_MS, () => giveUp(cancelled));
        },
        () => giveUp(cancelled),
      );
    };
    const stopWatching = options.signal && onAbort(options.signal, onCancelled);
    const onNoStart = (): void => void this.#withdraw(key, options.startUntil?.reason as ToolError);
    const endStart = options.startUntil && onAbort(options.startUntil, onNoStart);
    try {
      const parent = data.traceparent ?? traceparent();
      const job = {
        ...data,
        traceparent: parent || undefined,
        reply_channel: channel,
        deadline_at: queue.time.fromLocal(options.deadlineAt),
      };
      const added = queue.add(jobId, job);
      // A reply or the deadline can arrive while `add` still waits for Redis.
      await Promise.race([
        added,
        reply.then(
          () => undefined,
          () => undefined,
        ),
      ]);
      added.then(
        () => {
          // If the wait ended before the job was added, the cancellation found no job.
          if (gaveUp) queue.cancel(jobId).catch(() => undefined);
          else if (options.onAsk && options.takesOver) this.#announce(queue, jobId).catch(() => undefined);
        },
        () => undefined,
      );
      return await reply;
    } finally {
      cancelTimer();
      stopWaitingForCancel();
      stopWatching?.();
      endStart?.();
      this.#pending.delete(key);
      reply.catch(() => undefined);
    }
  }

  /** Removes a pending job while no worker has it; one that is lost by its worker is removed later. */
  async #withdraw(key: string, reason: ToolError): Promise<void> {
    for (;;) {
      const pending = this.#pending.get(key);
      if (!pending) return;
      // While Redis is unavailable no worker takes it.
      if (await pending.queue.withdraw(pending.jobId).catch(() => false))
        return pending.reject(neverHeld(pending, reason));
      await this.#clock.sleep(WITHDRAW_MS);
    }
  }

  #received(channel: string, text: string): void {
    const message = readMessage(text) as ReplyMessage<unknown>;
    const queue = this.#queues.get(channel);
    const pending = queue && this.#pending.get(toKey(queue, message.job_id));
    if (!pending) return;
    if (message.type === 'result') pending.resolve(message.reply);
    else if (message.type === 'error') pending.reject(errorFromBody(message.error));
    else if (message.type === 'ask') void this.#answer(pending, message, text.length);
    else if (message.type === 'remind') this.#reminded(pending, message);
    else {
      const { message: note, progress, total } = message;
      pending.onProgress?.({ message: note, progress, total });
    }
  }

  async #answer(pending: PendingJob, message: Asking<'ask'>, bytes: number): Promise<void> {
    const { asked, onAsk } = pending;
    const { ask_id, question } = message;
    const known = asked.get(ask_id);
    if (known) return this.#tellAnswer(pending, message, known);
    const held: HeldQuestion = {};
    for (const oldest of asked.size >= MAX_HELD ? asked.keys().take(1) : []) asked.delete(oldest);
    asked.set(ask_id, held);
    try {
      held.answer = { value: await onAsk?.(question, bytes) };
      this.#tellAnswer(pending, message, held);
    } catch {
      // The question stays open; the job asks again.
      asked.delete(ask_id);
    }
  }

  #reminded(pending: PendingJob, message: Asking<'remind'>): void {
    const { job_id, ask_id, answer_channel } = message;
    const held = pending.asked.get(ask_id);
    if (held?.answer) return this.#tellAnswer(pending, message, held);
    pending.queue.tell(answer_channel, { job_id, ask_id, held: held !== undefined }).catch(() => undefined);
  }

  /** Sends an answer that is known. One that is lost is sent again after a reminder. */
  #tellAnswer(
    { queue }: PendingJob,
    { job_id, ask_id, answer_channel }: Asking<'ask' | 'remind'>,
    { answer }: HeldQuestion,
  ) {
    if (answer) queue.tell(answer_channel, { job_id, ask_id, answer: answer.value }).catch(() => undefined);
  }

  #schedule(): void {
    this.#cancelCheck = this.#clock.after(CHECK_MS, () => {
      void this.#readRecords(CHECK_MS).finally(() => this.#schedule());
    });
  }

  /** Reads the records of all jobs pending for at least `minMs`. */
  async #readRecords(minMs: number): Promise<void> {
    const before = this.#clock.monotonic() - minMs;
    const due = [...this.#pending.values()].filter((pending) => pending.since <= before);
    await Promise.all([this.#vouch(due), ...due.map((pending) => this.#readRecord(pending))]);
  }

  /** Says that pending jobs may still start. While Redis is unavailable no worker takes them. */
  async #vouch(pending: readonly PendingJob[]): Promise<void> {
    const may = Map.groupBy(
      pending.filter(({ startUntil }) => !startUntil?.aborted),
      ({ queue }) => queue,
    );
    const said = [...may].map(([queue, jobs]) => queue.vouch(jobs.map(({ jobId }) => jobId)));
    await Promise.all(said).catch(() => undefined);
  }

  /**
   * Names the channel of this process to the worker of a job. The job may have been submitted by a process that died: its worker asks that
   * one, and keeps its slot, until it learns of this one.
   */
  #announce(queue: Pick<JobQueue, 'name' | 'tell'>, jobId: string): Promise<void> {
    const reply_channel = this.#channels.get(queue.name);
    return queue.tell(answerChannel(queue.name, 'all'), { job_id: jobId, reply_channel });
  }

  async #readRecord(pending: PendingJob): Promise<void> {
    try {
      const record = await pending.queue.record(pending.jobId);
      if (record.state === 'completed') return pending.resolve(record.result);
      if (record.state === 'failed') return pending.reject(record.error ?? new ToolError('INTERNAL'));
      pending.missing = record.state === 'unknown' ? pending.missing + 1 : 0;
      const now = this.#clock.monotonic();
      if (record.isHeld) pending.heldSince ??= now;
      // Its worker may be suspended, or wait for something that is gone.
      if (now - (pending.heldSince ?? now) > pending.runMs + RESTART_MS)
        pending.giveUp(
          new ToolError('ATTEMPT_TIMED_OUT', { message: 'The worker of this call gave no result in time' }),
        );
      if (pending.onAsk && record.state === 'active') await this.#announce(pending.queue, pending.jobId);
      if (pending.missing < MISSING_LIMIT) return;
      pending.reject(
        new ToolError('WORKER_LOST', {
          message: 'The queue has no record of this call',
          details: { reason: 'no_record' },
        }),
      );
    } catch {
      // Redis is unavailable. The next check reads the record, and the deadline limits the wait.
    }
  }
}

type Asking<T extends 'ask' | 'remind'> = Extract<ReplyMessage<unknown>, { type: T }>;

/** The error for a job that was removed. One that a worker was seen to have had, and lost, may have begun. */
const neverHeld = ({ heldSince }: PendingJob, error: ToolError): ToolError =>
  heldSince === undefined ? error.withFacts({ begun: 'no' }) : error;

const toKey = (queue: string, jobId: string): string => `${queue}/${jobId}`;
