import type { Sight } from '@toolfleet/access';
import type {
  Approval,
  CallBody,
  CallEvent,
  CallInput,
  CallLimits,
  CallRequest,
  CallReuse,
  CallState,
  CallTarget,
  EpochMs,
  JsonObject,
  PersonInput,
  ServerTask,
} from '@toolfleet/contracts';

/** State of an asynchronous call. */
export interface AcceptedCall {
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
  /** Absent in the job of a parked call. */
  request?: QueuedRequest;
}

type Omitted = 'target' | 'input' | 'limits' | 'reuse' | 'mode' | 'signal' | 'onProgress' | 'approval' | 'personInput';

/**
 * A request as a job has it, without groups: everything but the signal, the deadline and callbacks. Its names stay as they are, because
 * jobs wait while releases change.
 */
export type QueuedRequest = Omit<CallRequest, Omitted> &
  CallTarget &
  CallInput &
  Omit<CallLimits, 'deadlineAt'> &
  CallReuse & { input?: PersonInput; acceptedAt: EpochMs; approved?: Approval; dryRun?: boolean };

const FINAL: ReadonlySet<CallState> = new Set<CallState>([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);

/** Whether a call never leaves this state. */
export const isFinal = (state: CallState): boolean => FINAL.has(state);
