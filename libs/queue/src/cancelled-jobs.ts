import { isJsonObject, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import { cancelChannel } from './queues.js';

/** A job in work, as far as it can be stopped. */
export interface StoppableJob {
  callId: string;
  abort: AbortController;
}

/** Longest time between a worker's taking of a job and its beginning, with a slow network. */
const EARLY_CANCEL_MS = 10_000;
const MAX_EARLY_CANCELS = 10_000;

/** Stops the jobs of one worker that are cancelled. A message can overtake its job: then the job stops as it begins. */
export class CancelledJobs {
  /** Jobs this worker may be about to begin, with the instant they are forgotten. */
  readonly #early = new Map<string, number>();

  constructor(
    private readonly subscriber: Redis,
    private readonly queue: string,
    private readonly clock: Clock,
    private readonly running: ReadonlyMap<string, StoppableJob>,
  ) {
    subscriber.on('error', () => undefined); // the connection it was made from logs the outage
    subscriber.on('message', (_channel: string, text: string) => this.#cancelled(text));
  }

  async start(): Promise<void> {
    if (this.subscriber.status === 'wait') await this.subscriber.connect();
    await this.subscriber.subscribe(cancelChannel(this.queue));
  }

  stop(): void {
    this.subscriber.disconnect();
  }

  /** Whether a job that begins now was cancelled before; true once. */
  overtook(jobId: string): boolean {
    return this.#early.delete(jobId);
  }

  #cancelled(text: string): void {
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
