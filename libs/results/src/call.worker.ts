import {
  isToolError,
  ToolError,
  toMaker,
  toToolError,
  type CallMode,
  type CallProgress,
  type CallRequest,
  type CallResult,
  type CallState,
  type EntryPoint,
  type ErrorCode,
  type Milliseconds,
} from '@toolfleet/contracts';
import { callBody, explainFailure, failed, type ExecuteCall } from '@toolfleet/engine';
import type { Journal } from '@toolfleet/journal';
import { RetryLater, type JobRun, type StoreGeneration } from '@toolfleet/queue';
import { AbortSource, onAbort, type Clock } from '@toolfleet/resilience';
import type { CredentialStatus } from '@toolfleet/access';
import { fromQueued } from './async-calls.js';
import { readParked, type ParkedCalls } from './parked-calls.js';
import { isFinal, type AsyncCallJob, type QueuedRequest } from './call-store.js';
import type { RedisCallStore } from './redis-call-store.js';
import { CallEnds, stateOf, type PublishBody } from './call-ends.js';

interface CallWorkerDeps {
  executeCall: ExecuteCall;
  store: RedisCallStore;
  /** Whether the credential that made a call may still be used. */
  status: Pick<CredentialStatus, 'findRefusal'>;
  /** Shows whether the effect of a call that runs again may have begun. */
  journal: Pick<Journal, 'read'>;
  /** Whether a tool may run twice; false for a tool that no longer exists. */
  isIdempotent(toolName: string, tenantId: string): Promise<boolean>;
  /** Whether Redis may have lost writes since a job was added. */
  generation: Pick<StoreGeneration, 'read'>;
  clock: Clock;
  publish: PublishBody;
  /** The calls that people decide on; absent: there are none. */
  parked?: Pick<ParkedCalls, 'begin' | 'end'> | undefined;
}

/** How a parked call ends that was not approved, where it is not `failed`. */
const STATE_OF_REFUSAL: Partial<Record<ErrorCode, CallState>> = { APPROVAL_EXPIRED: 'expired', CANCELLED: 'cancelled' };

/** Maximum time to store an outcome: a failover of Redis takes seconds. After it the outcome is lost and the job runs again. */
const KEEP_MS = 30_000;
const KEEP_PAUSE_MS = 250;
/** Pause before a job without an available record is taken again. */
const BEGIN_PAUSE_MS = 1_000;

/**
 * Handles the jobs of the queue `tool-calls`: runs each call through the engine like every other entry point, stores its outcome
 * and publishes it on NATS. The handler throws `RetryLater` if a store is unavailable before the call has begun.
 */
export function callWorker(deps: CallWorkerDeps): (run: JobRun<AsyncCallJob>) => Promise<JobEnd> {
  const worker = new CallWorker(deps);
  return (run) => worker.run(run);
}

type JobEnd = CallState | 'ended before';

class CallWorker {
  private readonly ends: CallEnds;

  constructor(private readonly deps: CallWorkerDeps) {
    this.ends = new CallEnds(deps.store, deps.publish);
  }

  async run({ data, signal, deadlineAt, queuedMs, isRepeated }: JobRun<AsyncCallJob>): Promise<JobEnd> {
    const { executeCall, store, clock, generation } = this.deps;
    const { approval_id: approvalId = data.call_id } = data;
    const parked = data.parked ? await this.deps.parked?.begin(approvalId).catch(retryLater) : undefined;
    const sent = data.parked ? parked?.request : data.request;
    if (!sent) return this.endUnread(data, parked?.refusal);
    const mayHaveBegun =
      isRepeated || data.again === true || (await isOlderThanStore(data, generation).catch(retryLater));
    const refusal = parked?.refusal ?? (await findRefusal(this.deps, sent, mayHaveBegun).catch(retryLater));
    const isOpen = await (refusal ? hasNotEnded(store, sent.callId) : store.begin(sent.callId)).catch(retryLater);
    if (!isOpen) return 'ended before';
    const from = clock.monotonic();
    // The time that a caller allows counts from here: the gateway that woke a parked call does not know it.
    const allowedMs = (parked && sent.timeoutMs) ?? Infinity;
    const endsAt = Math.min(deadlineAt ?? clock.now(), clock.now() + allowedMs);
    const request = fromQueued(sent, {
      signal: cancellation(signal),
      mode: refusal ? { kind: 'refused', reason: refusal } : toMode(sent, mayHaveBegun),
      deadlineAt: endsAt,
      // No connection is held, so a duplicate of a running call may wait for its outcome until the deadline.
      idempotencyWaitMs: Math.max(0, endsAt - clock.now()),
      onProgress: (progress) => this.noteProgress(sent.callId, progress),
    });
    const outcome = await executeCall(request).catch(toToolError);
    if (readParked(outcome)?.isProgram) {
      // It is stored that it waits; the next decision wakes it.
      if (parked) await this.endApproval(approvalId, undefined);
      return 'awaiting_approval';
    }
    const shownName = sent.view?.shownName ?? sent.toolName;
    const result = withQueueTime(isToolError(outcome) ? explainFailure(shownName, failed(outcome)) : outcome, queuedMs);
    const state = parked?.refusal ? (STATE_OF_REFUSAL[parked.refusal.code] ?? 'failed') : toCallState(result, signal);
    await this.storeEnd(request, sent.entryPoint, state, result, clock.monotonic() - from + queuedMs);
    // If this fails, the end is noted when the call is woken again.
    if (parked) await this.endApproval(approvalId, result.failure?.code);
    // Not the result: it is in the store already.
    return state;
  }

  /** Ends a parked call without a request that could be run or recorded: it has ended before, or its seal cannot be opened. */
  private async endUnread(
    { call_id: callId, tenant_id: tenantId, approval_id: approvalId = callId }: AsyncCallJob,
    refusal: ToolError | undefined,
  ): Promise<JobEnd> {
    if (!refusal) return 'ended before';
    const body = callBody(callId, explainFailure('', failed(refusal)), 0);
    await retryUntilStored(this.deps.clock, () => this.ends.end({ callId, tenantId }, 'failed', body));
    await this.endApproval(approvalId, refusal.code);
    return 'failed';
  }

  private async endApproval(approvalId: string, code: ErrorCode | undefined): Promise<void> {
    await this.deps.parked?.end(approvalId, code).catch(() => undefined);
  }

  private noteProgress(callId: string, { task, ...progress }: CallProgress): void {
    const { store } = this.deps;
    const note = task ? store.note(callId, { task }) : Promise.resolve();
    const isSeen = Object.keys(progress).length > 0;
    const event = isSeen ? store.append(callId, { type: 'progress', ...progress }) : undefined;
    // A report that is lost is repeated, or replaced by a newer one.
    void Promise.all([note, event]).catch(() => undefined);
  }

  private storeEnd(
    { callId, principal }: CallRequest,
    entryPoint: EntryPoint,
    state: CallState,
    result: CallResult,
    totalMs: Milliseconds,
  ): Promise<void> {
    const call = { callId, tenantId: principal.tenantId, maker: toMaker(principal), entryPoint };
    const body = callBody(callId, result, totalMs);
    const rpcCode = result.failure?.code === 'UPSTREAM_ERROR' ? result.failure.facts?.rpcCode : undefined;
    return retryUntilStored(this.deps.clock, async () => {
      if (rpcCode !== undefined) await this.deps.store.note(callId, { rpcCode });
      await this.ends.end(call, state, body);
    });
  }
}

const retryLater = (): never => {
  throw new RetryLater(BEGIN_PAUSE_MS);
};

/**
 * Why an accepted call may not start: its credential was revoked or has expired. A call that an earlier run has claimed is not
 * refused: the journal knows how it ends. If an earlier run may have begun and its record was lost, a refusal would deny an
 * effect that may have happened, so the outcome of a tool that must not run twice is OUTCOME_UNKNOWN.
 */
async function findRefusal(
  { status, journal, isIdempotent }: Pick<CallWorkerDeps, 'status' | 'journal' | 'isIdempotent'>,
  { callId, principal, toolName }: Pick<QueuedRequest, 'callId' | 'principal' | 'toolName'>,
  mayHaveBegun: boolean,
): Promise<ToolError | undefined> {
  const refusal = await status.findRefusal(principal);
  if (!refusal) return undefined;
  const state = (await journal.read(callId))?.state;
  if (state === 'accepted') return refusal;
  if (state !== undefined) return undefined;
  if (!mayHaveBegun || (await isIdempotent(toolName, principal.tenantId))) return refusal;
  return new ToolError('OUTCOME_UNKNOWN', {
    message: `It is not known whether '${toolName}' took effect: ${refusal.message}`,
    details: { call_id: callId, after: refusal.code },
  });
}

const hasNotEnded = async (store: RedisCallStore, callId: string): Promise<boolean> => {
  const call = await store.get(callId);
  return !call || !isFinal(call.state);
};

/**
 * Whether the store restarted or failed over since the job was added. Among the writes that were lost then may be some of an
 * earlier run, and the queue's note that the job was taken.
 */
async function isOlderThanStore({ generation }: AsyncCallJob, store: Pick<StoreGeneration, 'read'>): Promise<boolean> {
  return generation !== undefined && generation !== (await store.read());
}

function toMode({ dryRun, acceptedAt }: QueuedRequest, mayHaveBegun: boolean): CallMode {
  return dryRun ? { kind: 'dry' } : { kind: 'resume', acceptedAt, mayHaveBegun };
}

/** Repeats failing work: the call has run and is charged, so its outcome must survive an outage of the store. */
async function retryUntilStored<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
  const until = clock.monotonic() + KEEP_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (clock.monotonic() > until) throw error;
      await clock.sleep(KEEP_PAUSE_MS);
    }
  }
}

function withQueueTime(result: CallResult, queuedMs: number): CallResult {
  return { ...result, timing: { ...result.timing, queue_ms: result.timing.queue_ms + queuedMs } };
}

/**
 * The signal of a job without its deadline: the engine ends a call at that instant itself, and would take an abort for a
 * cancellation by the caller.
 */
function cancellation(signal: AbortSignal): AbortSignal {
  const cancelled = new AbortSource();
  const follow = () => codeOf(signal) !== 'DEADLINE_EXCEEDED' && cancelled.abort(signal.reason);
  if (signal.aborted) follow();
  else onAbort(signal, follow);
  return cancelled.signal;
}

const codeOf = ({ reason }: AbortSignal): unknown => (isToolError(reason) ? reason.code : undefined);

function toCallState(result: CallResult, signal: AbortSignal): CallState {
  const state = stateOf(result);
  return state !== 'succeeded' && state !== 'outcome_unknown' && codeOf(signal) === 'CANCELLED' ? 'cancelled' : state;
}
