/**
 * Takes the jobs of one shard of a queue: a BullMQ worker with a loop that shares slots with other shards (`ShardSlots`), and that
 * asks for a further job only if one may wait.
 *
 * BullMQ's scripts leave a marker for a further job with each job that they give away, without looking: after each job that came alone, a
 * worker asked twice for nothing, or woke another worker to ask. Here the same scripts say that a job was the last one
 * (`lua/forget-marker.lua`), and the worker waits for the next marker at once.
 *
 * After a large job it asks for the next one when the event loop has served everything else for as long as it took to parse: the arguments of
 * a job may have 8 MB. A job that is taken is not kept waiting, because its lock is not renewed before it runs.
 */
import { readFileSync } from 'node:fs';
import { parseExact, toExactJson, toMarked } from '@toolfleet/contracts/json-text';
import type { Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import { isNotConnectionError, Worker, type IRedisClient, type Job, type Processor, type WorkerOptions } from 'bullmq';
import type { JobData } from './jobs.js';
import { defineAround } from './redis-scripts.js';
import type { ShardSlots } from './shard-slots.js';

const FORGET_MARKER = readFileSync(new URL('../lua/forget-marker.lua', import.meta.url), 'utf8');
/** BullMQ's scripts that give a job to a worker, with the number of their keys. */
const GIVING = { moveToActive: 11, moveToFinished: 14 };
/** Seconds after a job is due at which a worker without a slot for it looks. */
const LATER_S = 0.05;

/** Data of more bytes take more than a millisecond to parse. */
const LARGE_DATA = 64 * 1024;

/** The part of BullMQ's worker that waits for jobs. */
interface Waiting {
  /** No job was there when it last asked. */
  drained: boolean;
  /** When the next delayed job is due; 0 if none is known. */
  blockUntil: number;
  /** Waits for a marker, and resolves to the new `blockUntil`: 0 if a job may wait, `Infinity` when the worker closes. */
  waitForJob(blockUntil: number): Promise<number>;
}

interface TakingWorkerOptions extends WorkerOptions {
  connection: Redis;
  /** Pause after a failed request. */
  runRetryDelay: number;
}

/** Shared by the takers of a worker. */
interface WorkerState {
  clock: Pick<Clock, 'now' | 'monotonic' | 'sleep'>;
  slots: ShardSlots;
  /** Whether the worker has no slot for jobs that it took before. */
  hasPutBack(): boolean;
}

export class TakingWorker<D extends JobData, R> extends Worker<D, R> {
  /** Id of the latest job that was the last one when this worker got it. */
  #lastId: string | undefined;
  /** Monotonic instant from which the next job may be taken. */
  #restsUntil = 0;

  constructor(
    name: string,
    processor: Processor<D, R>,
    private readonly options: TakingWorkerOptions,
    private readonly worker: WorkerState,
  ) {
    super(name, processor, options);
    const backend = this.getBackend();
    const toArgs = backend.moveToCompletedArgs.bind(backend);
    // BullMQ wrote the result with JSON.stringify, which loses the type of large integers.
    backend.moveToCompletedArgs = (job, json, ...rest) =>
      toArgs(job, toMarked(job.returnvalue) === job.returnvalue ? json : toExactJson(job.returnvalue), ...rest);
    const run = backend.execCommand.bind(backend);
    backend.execCommand = async (client, command, args) => {
      if (command !== 'moveToActive' && command !== 'moveToFinished') return run(client, command, args);
      const script = `${command}ForgettingMarker`;
      defineAround(client as IRedisClient, script, {
        command,
        keys: GIVING[command],
        around: (lua) => `local taken = (function()\n${lua}\nend)()\n${FORGET_MARKER}`,
      });
      const taken: unknown = await (client as IRedisClient).runCommand(script, args);
      if (Array.isArray(taken) && taken[4] === 1) this.#lastId = String(taken[1]);
      return taken;
    };
  }

  /** @returns seconds; the worker looks for jobs when they are over */
  protected override getBlockTimeout(dueAt: number): number {
    const timeout = super.getBlockTimeout(dueAt);
    return dueAt && this.worker.hasPutBack() ? Math.max(0, timeout) + LATER_S : timeout;
  }

  /** Takes jobs until the worker closes and its jobs have ended. */
  override async run(): Promise<void> {
    await this.startStalledCheckTimer();
    this.mainLoopRunning = this.#takeJobs();
    await this.mainLoopRunning;
  }

  async #takeJobs(): Promise<void> {
    const running = new Set<Promise<void>>();
    for (let index = 0; !this.closing; index += 1) {
      if (this.#restMs > 0) await this.worker.clock.sleep(this.#restMs);
      if (!(await this.#takeSlot())) continue;
      const token = `${this.id}:${index}`;
      const job = await this.#ask(token);
      if (!job) continue;
      const run = this.#run(job, token).finally(() => running.delete(run));
      running.add(run);
    }
    await Promise.all(running);
  }

  /** Takes a slot when a job may wait; false when none does, or the worker closes. */
  async #takeSlot(): Promise<boolean> {
    const waiting = this as unknown as Waiting;
    if (!waiting.drained) {
      await this.worker.slots.take(this);
      return true;
    }
    await this.worker.slots.untilSpare(this);
    if (this.closing) return false;
    waiting.blockUntil = await waiting.waitForJob(waiting.blockUntil);
    if (waiting.blockUntil - this.worker.clock.now() >= 1) return false;
    if (this.worker.slots.tryTake(this)) return true;
    // The other shards have all slots. The marker was for one worker, so it goes to one that has a slot.
    await this.options.connection.zadd(this.toKey('marker'), 0, '0').catch(() => undefined);
    await this.worker.slots.take(this);
    return true;
  }

  /** Asks for a job, with a slot; returns the slot if there is none. */
  async #ask(token: string): Promise<Job<D, R> | undefined> {
    let failure: unknown;
    const job = await this.getNextJob(token, { block: false }).catch((error: unknown) => void (failure = error));
    if (job) return job;
    this.worker.slots.give(this);
    if (failure === undefined || this.closing) return undefined;
    if (failure instanceof Error && isNotConnectionError(failure)) this.emit('error', failure);
    await this.delay(this.options.runRetryDelay);
    return undefined;
  }

  /** Runs a job, and others in its slot as long as there are some and the slot may be kept. */
  async #run(job: Job<D, R>, token: string): Promise<void> {
    let next: Job<D, R> | void = job;
    try {
      const mayGoOn = (): boolean => this.#restMs <= 0 && this.worker.slots.mayKeep(this);
      while (next) next = await this.processJob(next, token, mayGoOn);
    } catch (error) {
      if (error instanceof Error) this.emit('error', error);
    } finally {
      this.worker.slots.give(this);
    }
  }

  get #restMs(): number {
    return this.#restsUntil - this.worker.clock.monotonic();
  }

  /** The job starts before `nextJobFromJobData` returns it. */
  protected override createJob(...[json, id]: Parameters<Worker<D, R>['createJob']>): Job<D, R> {
    const job = super.createJob({ ...json, data: '{}' }, id);
    job.data = parseExact<D>(json.data || '{}').value;
    return job;
  }

  /** BullMQ waits for a marker when it has seen the queue empty. */
  protected override async nextJobFromJobData(
    ...[data, jobId, token]: Parameters<Worker<D, R>['nextJobFromJobData']>
  ): Promise<Job<D, R>> {
    const { clock } = this.worker;
    const from = clock.monotonic();
    const job = await super.nextJobFromJobData(data, jobId, token);
    const isLarge = String(data?.data ?? '').length > LARGE_DATA;
    if (isLarge) this.#restsUntil = 2 * clock.monotonic() - from;
    if (job && jobId === this.#lastId) Object.assign(this, { drained: true });
    return job;
  }
}
