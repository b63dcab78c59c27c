import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { ErrorBody } from '@toolfleet/contracts/wire';
import type { JobData } from './queues.js';

/** One job in work. */
export interface JobRun<D extends JobData> {
  readonly jobId: string;
  readonly data: D;
  /** Aborted at the deadline, on cancellation and when the lock is lost, with a ToolError as reason. */
  readonly signal: AbortSignal;
  /** Instant of the deadline on this process's wall clock; undefined when the job has none. */
  readonly deadlineAt: EpochMs | undefined;
  /** Milliseconds the job waited in the queue. */
  readonly queuedMs: Milliseconds;
  /** True when an earlier worker began this job and was lost. */
  readonly isRepeated: boolean;
  /** Tells the waiting process how far the work is; at most once. */
  progress(progress: JobProgress): void;
}

/** How far a job is. */
export interface JobProgress {
  message?: string;
  progress?: number;
  total?: number;
}

/** Thrown by a handler that cannot begin yet: the job goes back and is taken again after the delay, its deadline kept. */
export class RetryLater extends Error {
  constructor(readonly delayMs: Milliseconds) {
    super(`postponed by ${delayMs} ms`);
  }
}

/** Does the work of one job. What it returns is the reply; a thrown ToolError is kept with its code. */
export type JobHandler<D extends JobData, R> = (run: JobRun<D>) => Promise<R>;

/** Messages on a reply channel. */
export type ReplyMessage<R> =
  | { type: 'result'; job_id: string; call_id: string; attempt: number; reply: R }
  | { type: 'error'; job_id: string; call_id: string; attempt: number; error: ErrorBody }
  | ({ type: 'progress'; job_id: string; call_id: string } & JobProgress);
