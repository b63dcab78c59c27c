/** The messages of a worker: cancellations it receives, and replies it sends. */
import { randomUUID } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import { toExactJson } from '@toolfleet/contracts/json-text';
import { internalErrorBody } from '@toolfleet/contracts/wire';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import {
  answerChannel,
  cancelChannel,
  parseFailure,
  readMessage,
  type JobData,
  type JobProgress,
  type ReplyMessage,
} from './jobs.js';

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
    const error = internalErrorBody(parseFailure(failure.message), call_id);
    this.#publish(job.data, { type: 'error', job_id: job.id as string, call_id, attempt, error });
  }

  progress(job: AnsweredJob<D>, progress: JobProgress): void {
    this.#publish(job.data, { type: 'progress', job_id: job.id as string, call_id: job.data.call_id, ...progress });
  }

  #publish(data: D, message: ReplyMessage<R>): void {
    if (data.reply_channel === undefined) return;
    this.publisher.publish(data.reply_channel, toExactJson(message)).catch(() => undefined);
  }
}

/** A question without an answer. */
interface OpenQuestion<D extends JobData> {
  job: AnsweredJob<D>;
  /** The message as JSON. */
  text: string;
  /** The same without the question. */
  reminder: string;
  /** Whether a reminder was sent and not acknowledged. */
  isReminded: boolean;
  answered: (answer: unknown) => void;
}

/** Messages are delivered at most once, so the waiting process is reminded of a question. */
const REMIND_MS = 2_000;

/**
 * The questions that the running jobs of one worker put to the processes that wait for them. The waiting process is reminded of
 * a question until it answers; the whole question (up to a megabyte) is sent again if the process does not hold it or
 * does not acknowledge the reminder. A process that took over a job from one that died names its own channel on the channel of
 * all workers; open and later questions then go there.
 */
export class JobQuestions<D extends JobData> {
  readonly #own: string;
  readonly #all: string;
  readonly #open = new Map<string, OpenQuestion<D>>();
  /** Reply channels that differ from those in the data of the job, by job id. */
  readonly #moved = new Map<string, string>();
  #cancelTimer: CancelTimer = () => undefined;

  constructor(
    private readonly publisher: Redis,
    private readonly subscriber: Redis,
    queue: string,
    private readonly clock: Clock,
  ) {
    this.#own = answerChannel(queue, randomUUID());
    this.#all = answerChannel(queue, 'all');
    subscriber.on('error', () => undefined); // the connection it was duplicated from logs outages
    subscriber.on('message', (channel: string, text: string) => this.#onMessage(channel, readMessage(text)));
  }

  async start(): Promise<void> {
    if (this.subscriber.status === 'wait') await this.subscriber.connect();
    await this.subscriber.subscribe(this.#own, this.#all);
    this.#repeat();
  }

  stop(): void {
    this.#cancelTimer();
    this.subscriber.disconnect();
  }

  /** Resolves to the answer. Stays pending once the job has ended. */
  ask(job: AnsweredJob<D>, question: unknown): Promise<unknown> {
    const [askId, job_id] = [randomUUID(), job.id as string];
    const ids = { job_id, call_id: job.data.call_id, ask_id: askId, answer_channel: this.#own };
    const text = toExactJson({ type: 'ask', ...ids, question } satisfies ReplyMessage<never>);
    const reminder = JSON.stringify({ type: 'remind', ...ids } satisfies ReplyMessage<never>);
    return new Promise((answered) => {
      const open = { job, text, reminder, isReminded: false, answered };
      this.#open.set(askId, open);
      this.#send(open);
    });
  }

  /** Forgets the questions of a job that has ended. */
  end(jobId: string): void {
    this.#moved.delete(jobId);
    for (const [askId, { job }] of this.#open) if (job.id === jobId) this.#open.delete(askId);
  }

  #send(open: OpenQuestion<D>): void {
    open.isReminded = false;
    this.#publish(open.job, open.text);
  }

  #remind(open: OpenQuestion<D>): void {
    open.isReminded = true;
    this.#publish(open.job, open.reminder);
  }

  #publish(job: AnsweredJob<D>, text: string): void {
    const channel = this.#moved.get(job.id as string) ?? job.data.reply_channel;
    if (channel !== undefined) this.publisher.publish(channel, text).catch(() => undefined);
  }

  #repeat(): void {
    this.#cancelTimer = this.clock.after(REMIND_MS, () => {
      for (const open of this.#open.values()) {
        if (open.isReminded) this.#send(open);
        else this.#remind(open);
      }
      this.#repeat();
    });
  }

  #onMessage(
    channel: string,
    { ask_id: askId, job_id: jobId, reply_channel: moved, answer, held }: Record<string, unknown>,
  ): void {
    if (channel === this.#own) {
      const open = this.#open.get(String(askId));
      if (!open) return;
      if (held === true) open.isReminded = false;
      else if (held === false) this.#send(open);
      else {
        this.#open.delete(String(askId));
        open.answered(answer);
      }
    } else if (typeof jobId === 'string' && typeof moved === 'string' && this.#moved.get(jobId) !== moved) {
      const asked = [...this.#open.values()].filter(({ job }) => job.id === jobId);
      // A job without an open question learns it from the next announcement, every two seconds.
      if (asked.every(({ job }) => job.data.reply_channel === moved)) return;
      this.#moved.set(jobId, moved);
      for (const open of asked) this.#send(open);
    }
  }
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
    /** Running jobs by their id. */
    private readonly running: ReadonlyMap<string, AbortController>,
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
    const { job_id: jobId } = readMessage(text);
    if (typeof jobId !== 'string') return;
    const running = this.running.get(jobId);
    if (running) return running.abort(new ToolError('CANCELLED'));
    const now = this.clock.monotonic();
    for (const [id, until] of this.#early) if (until < now) this.#early.delete(id);
    if (this.#early.size < MAX_EARLY_CANCELS) this.#early.set(jobId, now + EARLY_CANCEL_MS);
  }
}
