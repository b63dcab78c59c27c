import type { Sight } from '@toolfleet/access';
import type { CallBody, CallEvent, CallState, EpochMs, JsonObject, ServerTask } from '@toolfleet/contracts';

/** State of an asynchronous call. */
export interface StoredCall {
  callId: string;
  tenantId: string;
  tool: string;
  /** The user it is made for. */
  userId?: string;
  /** `toMaker` of its caller. */
  maker?: string;
  /** The reader's sight; absent in the store. */
  sight?: Sight;
  /** Its reader gets it without arguments and result. */
  isWithheld?: boolean;
  /** Entry point of an asynchronous call, where it is known. */
  entryPoint?: string | undefined;
  /** Session that a kept result is bound to, of the user of the call; absent for asynchronous calls. */
  session?: string;
  /** As sent. Absent when they are longer than `MAX_KEPT_ARGUMENTS`, and for calls that only the journal knows. */
  arguments?: JsonObject;
  state: CallState;
  acceptedAt: EpochMs;
  /** By the clock of the queue; absent for calls that are not in it. */
  deadlineAt?: EpochMs;
  finishedAt?: EpochMs;
  /** Body of the finished call. A refusal is a failure in it. */
  result?: CallBody;
  /** The same as JSON in UTF-8, in place of `result`: only from `getText`. */
  resultText?: Buffer;
  /** The task of an MCP server that the call follows, with the questions that are not answered yet. */
  task?: ServerTask;
  /** Id of the job that runs it, where it is not the call's: a program that waited for people has a new one. */
  jobId?: string;
  /** JSON-RPC code of the error with which the server of the tool ended the call. */
  rpcCode?: number;
}

/** An event before it has an id. */
export type NewCallEvent = CallEvent extends infer E ? (E extends CallEvent ? Omit<E, 'id'> : never) : never;

/** Stores asynchronous calls until `CALL_RESULT_TTL_SECONDS` after their end. */
export abstract class CallStore {
  /** Stores a new call. */
  abstract create(call: StoredCall): Promise<void>;
  /**
   * Stores a call that may be stored already: one that waits for an approval, or that was approved and waits for a worker. A program that
   * runs may wait again, for an approval with another job.
   * @param ttlSeconds how long it is kept if nothing else happens to it; default as for every call
   * @returns false when it is stored in this state or a later one
   */
  abstract enter(call: StoredCall, ttlSeconds?: number): Promise<boolean>;
  /** The call of this id, of any tenant; null if there is none. */
  abstract get(callId: string): Promise<StoredCall | null>;
  /** Like `get`, but a large result stays text: it is sent on without being parsed (10 ms for each megabyte). */
  abstract getText(callId: string): Promise<StoredCall | null>;
  /** Like `get`, without the result (may be megabytes). */
  abstract getState(callId: string): Promise<StoredCall | null>;
  /**
   * Notes that a worker has begun.
   * @returns false if the call has ended: its job was delivered again because the queue missed that end
   */
  abstract begin(callId: string): Promise<boolean>;
  abstract append(callId: string, event: NewCallEvent): Promise<void>;
  /** Stores facts that appear while a call runs. A question that a task no longer asks may be asked, and answered, again. */
  abstract note(callId: string, found: Pick<StoredCall, 'task' | 'rpcCode'>): Promise<void>;
  /** Notes that questions of the task of a call were answered, by their keys. */
  abstract noteAnswers(callId: string, keys: readonly string[]): Promise<void>;
  /** Events after `afterId`, oldest first. */
  abstract events(callId: string, afterId?: string): Promise<CallEvent[]>;
  /** Open calls after their deadline at `now`, at most so many. */
  abstract overdue(now: EpochMs, most: number): Promise<StoredCall[]>;
  /** Ends a call; the first end stays. @returns whether this was the first */
  abstract finish(callId: string, state: CallState, result?: CallBody): Promise<boolean>;
}

/** A job of `tool-calls`: a call request as JSON. Its id is the call id. */
export interface AsyncCallJob {
  call_id: string;
  /** Tenant with the share of the queue that it counts against. */
  tenant_id: string;
  deadline_at: number;
  /** A call that people decided on: its request is in the record of approvals, and this job only wakes it. */
  parked?: boolean;
  /** The approval of a program; absent: the call's. */
  approval_id?: string;
  /** An earlier job of a parked call was lost, and may have begun it. */
  again?: boolean;
  /** Generation of the store when the job was added. A later generation may have lost the record of an earlier run. */
  generation?: string;
  /** The caller's span: the job's own trace is linked to it. */
  traceparent?: string;
  request: JsonObject;
}

const FINAL: ReadonlySet<CallState> = new Set<CallState>([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);

/** Whether a call never leaves this state. */
export const isFinal = (state: CallState): boolean => FINAL.has(state);
