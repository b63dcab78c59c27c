import { toToolError, type EpochMs, type ToolError } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { errorBody, errorFromBody, type ErrorBody } from '@toolfleet/contracts/wire';

/** Fields of a job this library reads; the rest of a job's data is the caller's. `ExecJob` fits. */
export interface JobData {
  call_id: string;
  attempt?: number;
  /** Redis channel of the process that waits; absent when nobody waits (asynchronous calls). */
  reply_channel?: string;
  /** Instant in Redis TIME after which the job is not run any more. */
  deadline_at?: EpochMs;
  /** Instant in Redis TIME at which the job was added. */
  queued_at?: EpochMs;
  traceparent?: string;
}

/** Where a job stands. `unknown`: no record, never added or past its retention. */
export type JobState = 'waiting' | 'active' | 'completed' | 'failed' | 'unknown';

/** A job record as far as readers of results need it. */
export interface JobRecord<R> {
  state: JobState;
  result?: R;
  error?: ToolError;
  /** Epoch ms. */
  finishedAt?: EpochMs;
}

/** Longest time a job record keeps its result: `CALL_RESULT_TTL_SECONDS`. */
export const DEFAULT_RETENTION_SECONDS = 86_400;
/** Most finished records kept per queue: bounds Redis memory when results are large. */
export const DEFAULT_RETENTION_COUNT = 10_000;
/** Longest queue; beyond it adding is refused at once instead of waiting past every deadline. */
export const DEFAULT_MAX_LENGTH = 1_000;

/**
 * Job id of one attempt. The call id alone would dedupe a retry onto the failed first job. BullMQ refuses ids with a colon
 * and ids that are integers.
 */
export function jobIdOf(callId: string, attempt: number): string {
  return `${callId.replaceAll(':', '_')}-${attempt}`;
}

/** Channel on which workers of a queue hear of cancelled jobs. */
export const cancelChannel = (queue: string): string => `${QUEUE_PREFIX}:${queue}:cancel`;

/** Channel on which one waiting process receives the replies of one queue's jobs. */
export const replyChannel = (queue: string, id: string): string => `${QUEUE_PREFIX}:reply:${queue}:${id}`;

/** Redis key of a job record. */
export const jobKey = (queue: string, jobId: string): string => `${QUEUE_PREFIX}:${queue}:${jobId}`;

/** An error as it is kept in BullMQ's `failedReason`, which is a text. */
export function failureText(error: unknown, callId?: string): string {
  return JSON.stringify(errorBody(toToolError(error), callId));
}

/** The error of a failed record. BullMQ's own text for a job that killed its workers becomes WORKER_LOST. */
export function failureOf(reason: string): ToolError {
  if (/stalled more than|started more than/.test(reason)) {
    return errorFromBody({ code: 'WORKER_LOST', error: 'The worker died while running this call' });
  }
  try {
    return errorFromBody(JSON.parse(reason) as ErrorBody);
  } catch {
    return errorFromBody({ code: 'INTERNAL', error: reason });
  }
}
