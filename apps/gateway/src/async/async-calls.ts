import {
  type CallBody,
  type CallProgress,
  type CallState,
  type EpochMs,
  ToolError,
  type CallRequest,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { callBody } from '@toolfleet/engine';
import type { Journal, KeptResults } from '@toolfleet/journal';
import type { JobQueue, StoreGeneration } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import { orUnavailable } from '../engine/store-health.js';
import { toMaker, type CallAccess } from '../auth/call-access.js';
import { requirePlainId } from '@toolfleet/contracts/text';

/** What is known of an asynchronous call. */
export interface StoredCall {
  callId: string;
  tenantId: string;
  tool: string;
  /** Who made it (`toMaker`); absent for calls that only the journal knows. */
  maker?: string;
  state: CallState;
  acceptedAt: EpochMs;
  finishedAt?: EpochMs;
  /** Body of the finished call; a refusal is in it as a failure, too. */
  result?: CallBody;
}

/**
 * One event of a call, in order; `id` is what `Last-Event-ID` resumes after. The body in `done` goes without rich content, of
 * which it has the number in `metadata.content_blocks`: that is in the record.
 */
export type CallEvent =
  | { id: string; type: 'accepted' | 'started' }
  | ({ id: string; type: 'progress' } & CallProgress)
  | { id: string; type: 'done'; state: CallState; result?: CallBody };

/** An event before it has an id. */
export type NewCallEvent = CallEvent extends infer E ? (E extends CallEvent ? Omit<E, 'id'> : never) : never;

/** Where asynchronous calls are kept for their readers, until `CALL_RESULT_TTL_SECONDS` after their end. */
export abstract class CallStore {
  /** Enters a call. */
  abstract create(call: StoredCall): Promise<void>;
  /** The call of this id, whoever owns it; null when there is none. */
  abstract get(callId: string): Promise<StoredCall | null>;
  /** Like `get`, without the result, which may be megabytes. */
  abstract getState(callId: string): Promise<StoredCall | null>;
  /**
   * Notes that a worker has begun. False when the call has ended already: its job was delivered again because the queue did
   * not hear of that end, and nothing is left to do.
   */
  abstract begin(callId: string): Promise<boolean>;
  abstract append(callId: string, event: NewCallEvent): Promise<void>;
  /** Events after `afterId`, oldest first. */
  abstract events(callId: string, afterId?: string): Promise<CallEvent[]>;
  /** Ends a call once: the first end stays. True when this was it. */
  abstract finish(callId: string, state: CallState, result?: CallBody): Promise<boolean>;
}

/** A job of `tool-calls`: a call request as JSON. Its id is the call id. */
export interface AsyncCallJob {
  call_id: string;
  /** Whose turn it counts as. */
  tenant_id: string;
  deadline_at: number;
  /** Generation of the store when the job was added; a later one may have lost the record of its first run. */
  generation?: string;
  /** The caller's span: the job's own trace is linked to it. */
  traceparent?: string;
  request: JsonObject;
}

const STORE = 'The store of calls';

/** A running call that is told to stop ends in some hundredths of a second, at most in about two. */
const STOP_WAIT_MS = 2_000;
const STOP_LOOK_MS = 25;
/** The message that stops a job is delivered at most once: while nothing ends it is sent again. */
const STOP_AGAIN_MS = 500;

const FINAL: ReadonlySet<CallState> = new Set<CallState>([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'outcome_unknown',
]);

/** Calls that run while nobody waits: durable when accepted, readable until their retention ends by whom `CallAccess` admits. */
export class AsyncCalls {
  constructor(
    private readonly queue: JobQueue<AsyncCallJob, unknown>,
    private readonly store: CallStore,
    private readonly generation: Pick<StoreGeneration, 'read'>,
    /** Synchronous calls with an effect or a key can be looked up, too. */
    private readonly journal: Pick<Journal, 'read'>,
    private readonly results: Pick<KeptResults, 'admit'>,
    private readonly access: CallAccess,
    private readonly clock: Clock,
    /** Longest call in ms, queueing included. */
    private readonly maxCallMs: number,
  ) {}

  /** Stores the call; when this resolves it is durable. The deadline starts anew: nobody holds a connection for it. */
  accept(request: CallRequest): Promise<void> {
    return orUnavailable(STORE, this.enqueue(request));
  }

  private async enqueue(request: CallRequest): Promise<void> {
    const { callId, principal, toolName } = request;
    await this.results.admit(principal.tenantId);
    const allowedMs = Math.min(request.timeoutMs ?? this.maxCallMs, this.maxCallMs);
    const created = this.store.create({
      callId,
      tenantId: principal.tenantId,
      tool: toolName,
      maker: toMaker(principal),
      state: 'accepted',
      acceptedAt: this.clock.now(),
    });
    const [generation] = await Promise.all([this.generation.read(), created]);
    const parent = traceparent();
    await this.queue.add(callId, {
      call_id: callId,
      tenant_id: principal.tenantId,
      ...(parent === undefined ? {} : { traceparent: parent }),
      generation,
      deadline_at: this.queue.time.now() + allowedMs,
      request: serialised(request),
    });
  }

  /** @throws ToolError NOT_FOUND, also for calls the caller has no access to; SERVICE_UNAVAILABLE */
  get(caller: Principal, callId: string): Promise<StoredCall> {
    return orUnavailable(STORE, this.findWithResult(caller, callId));
  }

  /**
   * The call without its result, unless only the journal knows it.
   * @throws ToolError as `get`
   */
  getState(caller: Principal, callId: string): Promise<StoredCall> {
    return orUnavailable(STORE, this.find(caller, callId));
  }

  private async findWithResult(caller: Principal, callId: string): Promise<StoredCall> {
    const call = await this.find(caller, callId);
    return (await this.store.get(callId)) ?? call;
  }

  private async find(caller: Principal, callId: string): Promise<StoredCall> {
    requirePlainId('call_id', callId);
    const call = (await this.store.getState(callId)) ?? (await this.journalled(callId));
    if (!call || !(await this.access.may(caller, call))) {
      throw new ToolError('NOT_FOUND', { message: `No call '${callId}'` });
    }
    if (isFinal(call.state)) return call;
    await this.settleLost(call);
    return (await this.store.getState(callId)) ?? call;
  }

  /**
   * Stops a call wherever it is; a finished one stays as it is. Returns its state afterwards: that of a running call is the
   * one it ended in, or `claimed` when it has not ended after two seconds, but has been told to.
   */
  cancel(caller: Principal, callId: string): Promise<CallState> {
    return orUnavailable(STORE, this.stop(caller, callId));
  }

  private async stop(caller: Principal, callId: string): Promise<CallState> {
    const call = await this.find(caller, callId);
    if (isFinal(call.state)) return call.state;
    // A running call ends by itself with its own outcome; one that waited has none.
    if ((await this.queue.cancel(callId)) === 'removed') await this.store.finish(callId, 'cancelled');
    const until = this.clock.monotonic() + STOP_WAIT_MS;
    let againAt = this.clock.monotonic() + STOP_AGAIN_MS;
    for (;;) {
      const state = (await this.store.getState(callId))?.state ?? 'cancelled';
      const now = this.clock.monotonic();
      if (isFinal(state) || now >= until) return state;
      if (now >= againAt) {
        await this.queue.cancel(callId);
        againAt = now + STOP_AGAIN_MS;
      }
      await this.clock.sleep(STOP_LOOK_MS);
    }
  }

  /** Events after `afterId`; the last one of a finished call is `done`. */
  events(callId: string, afterId?: string): Promise<CallEvent[]> {
    return this.store.events(callId, afterId);
  }

  /** A call that went through the journal and no queue. */
  private async journalled(callId: string): Promise<StoredCall | undefined> {
    const record = await this.journal.read(callId);
    if (!record) return undefined;
    const { tenantId, tool, state, acceptedAt, endedAt, outcome } = record;
    return {
      callId,
      tenantId,
      tool,
      state,
      acceptedAt,
      ...(endedAt > 0 ? { finishedAt: endedAt } : {}),
      ...(outcome ? { result: callBody(callId, outcome, Math.max(0, endedAt - acceptedAt)) } : {}),
    };
  }

  /** A job that ended without its worker telling (killed twice, dropped at its deadline) ends its call here. */
  private async settleLost(call: StoredCall): Promise<void> {
    const record = await this.queue.record(call.callId);
    if (record.state !== 'failed') return;
    await this.store.finish(call.callId, record.error?.code === 'DEADLINE_EXCEEDED' ? 'expired' : 'failed', {
      success: false,
      output: null,
      text: '',
      error: record.error?.message ?? 'The call was lost',
      metadata: { code: record.error?.code ?? 'WORKER_LOST' },
      execution_time_ms: 0,
      usage: { tokens: 0, cost_usd: 0 },
      call_id: call.callId,
    });
  }
}

/** True for states a call never leaves. */
export const isFinal = (state: CallState): boolean => FINAL.has(state);

/** What of a request survives the queue: everything but the signal, the deadline and callbacks. */
function serialised({
  signal: _signal,
  onProgress: _progress,
  deadlineAt: _deadline,
  ...rest
}: CallRequest): JsonObject {
  return { ...rest } as unknown as JsonObject;
}
