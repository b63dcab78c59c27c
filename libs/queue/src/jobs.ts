import {
  isJsonObject,
  toToolError,
  type EpochMs,
  type JsonObject,
  type Milliseconds,
  type ToolError,
} from '@toolfleet/contracts';
import { parseExact } from '@toolfleet/contracts/json-text';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { shardPrefix } from './shard-numbers.js';
import { errorFromBody, internalErrorBody, type InternalErrorBody } from '@toolfleet/contracts/wire';

/** The fields of a job's data that this library uses. `ExecJob` of libs/contracts is such a job. */
export interface JobData {
  call_id: string;
  attempt?: number;
  /** Redis channel of the process that waits for the reply; absent for asynchronous calls. */
  reply_channel?: string;
  /** Deadline by the clock of Redis; the job does not start after it. */
  deadline_at?: EpochMs;
  /** When the job was added, by the clock of Redis. */
  queued_at?: EpochMs;
  traceparent?: string;
}

/** State of a job. `unknown`: it has no record, because it was never added or its retention has ended. */
type JobState = 'waiting' | 'active' | 'completed' | 'failed' | 'unknown';

/** The record of a job. */
export interface JobRecord<R> {
  state: JobState;
  /** Whether a worker has the job now; false also for a job that was taken and put back, or lost its worker. */
  isHeld: boolean;
  result?: R;
  error?: ToolError;
}

/** A running job, as its handler sees it. */
export interface JobRun<D extends JobData> {
  readonly jobId: string;
  readonly data: D;
  /**
   * Aborted at the deadline, on cancellation and when the worker stops. The reason is a ToolError. A run without its lock goes
   * on until the job has ended: its result is sent, and another worker may run the job as well.
   */
  readonly signal: AbortSignal;
  /** Deadline by this process's wall clock; undefined if the job has none. */
  readonly deadlineAt: EpochMs | undefined;
  /** Time the job waited in the queue. */
  readonly queuedMs: Milliseconds;
  /** True if an earlier worker started this job and was lost. */
  readonly isRepeated: boolean;
  /** Sends progress to the waiting process, at most once. */
  progress(progress: JobProgress): void;
  /**
   * Asks the waiting process something and resolves to its answer. A question that is lost, or lost its waiting process, is
   * repeated, so the other side has to answer a repeated one the same way. Stays pending when the run is aborted.
   */
  ask(question: unknown): Promise<unknown>;
}

/** Progress of a job. */
export interface JobProgress {
  message?: string;
  progress?: number;
  total?: number;
}

/** Thrown by a handler that cannot start yet. The job returns to the queue for the delay and keeps its deadline. */
export class RetryLater extends Error {
  constructor(readonly delayMs: Milliseconds) {
    super(`retry in ${delayMs} ms`);
  }
}

/** Runs one job and returns its reply. The code of a thrown ToolError is kept in the job record. */
export type JobHandler<D extends JobData, R> = (run: JobRun<D>) => Promise<R>;

/** Messages on a reply channel. */
export type ReplyMessage<R> =
  | { type: 'result'; job_id: string; call_id: string; attempt: number; reply: R }
  | { type: 'error'; job_id: string; call_id: string; attempt: number; error: InternalErrorBody }
  | ({ type: 'progress'; job_id: string; call_id: string } & JobProgress)
  | { type: 'ask'; job_id: string; call_id: string; ask_id: string; answer_channel: string; question: unknown }
  /** Instead of a question that was sent before and has no answer yet: questions may be large. */
  | { type: 'remind'; job_id: string; call_id: string; ask_id: string; answer_channel: string };

/** A message of a channel; one without members for text that is not a JSON object. */
export function readMessage(text: string): JsonObject {
  try {
    const { value } = parseExact(text);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** How long a job record is kept (`CALL_RESULT_TTL_SECONDS`). */
export const DEFAULT_RETENTION_SECONDS = 86_400;
/** Most finished records per queue; bounds the memory of Redis when results are large. */
export const DEFAULT_RETENTION_COUNT = 10_000;
/** Longest queue. A longer one would only hold jobs that miss their deadline. */
export const DEFAULT_MAX_LENGTH = 1_000;

/**
 * Job id of one attempt. With the call id alone, BullMQ would take a retry for the failed first job. BullMQ refuses ids that contain
 * a colon or are integers.
 */
export function toJobId(callId: string, attempt: number): string {
  return `${callId.replaceAll(':', '_')}-${attempt}`;
}

/** Channel on which the workers of a queue receive cancellations. */
export const cancelChannel = (queue: string): string => `${QUEUE_PREFIX}:${queue}:cancel`;

/** Channel on which one process receives the replies of the jobs of one queue. */
export const replyChannel = (queue: string, id: string): string => `${QUEUE_PREFIX}:reply:${queue}:${id}`;

/** Channel on which one worker process receives answers to the questions of its jobs; `all` reaches the workers of the queue. */
export const answerChannel = (queue: string, worker: string): string => `${QUEUE_PREFIX}:${queue}:answers:${worker}`;

/** Redis key of a job record. */
export const jobKey = (queue: string, jobId: string, shard = 0): string => `${shardPrefix(shard)}:${queue}:${jobId}`;

/** An error as text for BullMQ's `failedReason`. */
export function formatFailure(error: unknown, callId?: string): string {
  return JSON.stringify(internalErrorBody(toToolError(error), callId));
}

/** The error in a `failedReason`. BullMQ's own texts for a job that lost its workers become WORKER_LOST. */
export function parseFailure(reason: string): ToolError {
  if (/stalled more than|started more than/.test(reason)) {
    return errorFromBody({ code: 'WORKER_LOST', error: 'The worker died while running this call' });
  }
  try {
    return errorFromBody(JSON.parse(reason) as InternalErrorBody);
  } catch {
    return errorFromBody({ code: 'INTERNAL', error: reason });
  }
}
