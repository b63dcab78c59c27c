import {
  type CallState,
  ToolError,
  type CallLimits,
  type CallRequest,
  type CallReuse,
  type Json,
  type JsonObject,
  type Principal,
  type EpochMs,
  type CallEvent,
} from '@toolfleet/contracts';
import { actingUserId, callBody } from '@toolfleet/engine';
import type { Journal, KeptResults } from '@toolfleet/journal';
import type { JobQueue, StoreGeneration } from '@toolfleet/queue';
import { CostlyTurns, RecentMap, Semaphore, type Clock } from '@toolfleet/resilience';
import { traceparent } from '@toolfleet/telemetry';
import { orUnavailable } from '@toolfleet/queue/redis';
import { requireRight, toMaker, type CallSight, type Sight } from '@toolfleet/access';
import { requirePlainId } from '@toolfleet/contracts/text';
import { isFinal, type AsyncCallJob, type AcceptedCall, type QueuedRequest } from './call-store.js';
import type { RedisCallStore } from './redis-call-store.js';
import type { LostCalls } from './lost-calls.js';

/** The session that a caller names, and the user it acts for: sessions of the same name of two users are different ones. */
export interface CallerSession {
  id: string;
  userId: string;
}

/** How a caller reads a call. */
interface CallReading {
  /** The caller's session, for results that are bound to one. */
  session?: CallerSession | undefined;
  /** Withholds the content of the calls of others, because reading would be recorded. */
  ownOnly?: boolean;
}

const STORE = 'The store of calls';
/** Results that a tenant reads at a time, the requests that wait for them, and when further ones may try again. */
const READS_PER_TENANT = 3;
const MAX_WAITING_READS = 100;
const READ_RETRY_MS = 1_000;
/** Tenants with turns; the turns of a further one begin anew. */
const MAX_READERS = 1_000;
/** Maximum length of arguments that are kept with a call, as characters of JSON. */
const MAX_KEPT_ARGUMENTS = 16 * 1024;

/** A running call ends within tens of milliseconds of its cancellation, at most after about two seconds. */
const STOP_WAIT_MS = 2_000;
const STOP_POLL_MS = 25;
/** The message that stops a job is delivered at most once, so it is repeated until the call ends. */
const STOP_AGAIN_MS = 500;

/** How the store gives a call with its result. */
type StoreRead = 'get' | 'getText';

interface AsyncCallsDeps {
  queue: JobQueue<AsyncCallJob, unknown>;
  store: RedisCallStore;
  generation: Pick<StoreGeneration, 'read'>;
  /** Finds synchronous calls that had an effect or a key. */
  journal: Pick<Journal, 'read'>;
  results: Pick<KeptResults, 'admit'>;
  /** Ends a call with a lost worker when it is looked at. */
  lost: Pick<LostCalls, 'settle'>;
  sight: CallSight;
  /** Records that a caller reads the content of the call of another. */
  readings: { note(caller: Principal, call: AcceptedCall): Promise<void> };
  /** Calls that wait for an approval, also those that the store does not know. Absent: none wait. */
  parked?: ParkedLookup | undefined;
  clock: Clock;
  /** Maximum duration of a call in ms, queueing included. */
  maxCallMs: number;
}

/** The calls that wait for an approval. */
interface ParkedLookup {
  /** Undefined when there is none. @throws ToolError SERVICE_UNAVAILABLE */
  find(callId: string): Promise<AcceptedCall | undefined>;
  /** Withdraws a call that waits. @returns false when it is decided already */
  cancel(call: AcceptedCall, caller: Principal): Promise<boolean>;
}

/**
 * Calls that run without a waiting connection. They are durable once accepted. Callers follow, read
 * and cancel them until their retention ends, as far as they see them (`Sight`).
 */
export class AsyncCalls {
  /** Turns at reading results, by tenant. */
  private readonly reads = new RecentMap<string, Semaphore>({ max: MAX_READERS });

  /** Turns at writing arguments into a job, by tenant. */
  private readonly writes: CostlyTurns;

  constructor(private readonly deps: AsyncCallsDeps) {
    this.writes = new CostlyTurns(deps.clock);
  }

  /**
   * Stores the call; it is durable when this resolves. Its deadline is counted from now.
   * @throws ToolError SERVICE_UNAVAILABLE, QUEUE_FULL, QUOTA_EXCEEDED
   */
  accept(request: CallRequest): Promise<void> {
    return orUnavailable(STORE, this.enqueue(request));
  }

  /**
   * Adds the job that runs or ends a parked call. Its deadline is counted from now. A call that waits for a worker or has ended does not
   * change.
   * @param again an earlier job was lost, and may have begun the call
   * @throws ToolError SERVICE_UNAVAILABLE, QUEUE_FULL
   */
  wake(call: AcceptedCall, { again }: { again: boolean }): Promise<void> {
    return orUnavailable(STORE, this.enqueueParked(call, again));
  }

  private async enqueueParked(call: AcceptedCall, again: boolean): Promise<void> {
    const { callId: call_id, tenantId: tenant_id, jobId = call_id } = call;
    const deadlineAt = this.deps.queue.time.now() + this.deps.maxCallMs;
    const entered = this.deps.store.enter({ ...call, state: 'accepted', deadlineAt });
    const [generation, isEntered] = await Promise.all([this.deps.generation.read(), entered]);
    if (!isEntered && !(await this.takesOver(call, deadlineAt))) return;
    const parked = { parked: true, approval_id: jobId, again };
    await this.deps.queue.add(jobId, { call_id, tenant_id, generation, deadline_at: deadlineAt, ...parked });
  }

  /**
   * Whether the job of a call that is stored already is the one that runs it. The run of a program that asked may not have ended yet, or a
   * later one have begun; one that ended without a note that the program waits is over.
   */
  private async takesOver(call: AcceptedCall, deadlineAt: EpochMs): Promise<boolean> {
    const { store, queue } = this.deps;
    const { callId, jobId = callId } = call;
    const stored = await store.getState(callId);
    const running = stored?.jobId ?? callId;
    if (!stored || running === jobId) return true;
    if (isFinal(stored.state) || stored.state === 'awaiting_approval') return false;
    const { state } = await queue.record(running);
    if (state === 'waiting' || state === 'active') return false;
    await store.enter({ ...call, state: 'awaiting_approval' });
    return store.enter({ ...call, state: 'accepted', deadlineAt });
  }

  private async enqueue(request: CallRequest): Promise<void> {
    const { callId, principal, target, input, limits } = request;
    await this.deps.results.admit(principal.tenantId);
    const allowedMs = Math.min(limits.timeoutMs ?? this.deps.maxCallMs, this.deps.maxCallMs);
    const acceptedAt = this.deps.clock.now();
    const deadlineAt = this.deps.queue.time.now() + allowedMs;
    const isShort = hasShortJson(input.rawArguments);
    const created = this.deps.store.create({
      callId,
      tenantId: principal.tenantId,
      tool: target.toolName,
      maker: toMaker(principal),
      arguments: isShort ? input.rawArguments : undefined,
      userId: actingUserId(request),
      state: 'accepted',
      acceptedAt,
      deadlineAt,
      entryPoint: request.entryPoint,
    });
    const [generation] = await Promise.all([this.deps.generation.read(), created]);
    const parent = traceparent();
    const job = {
      call_id: callId,
      tenant_id: principal.tenantId,
      traceparent: parent,
      generation,
      deadline_at: deadlineAt,
      request: toQueued(request, acceptedAt),
    };
    if (!isShort) await this.writes.next(principal.tenantId);
    // The record of the call says how it ended, and a job that is done still has its arguments.
    await this.deps.queue.add(callId, job, { removeWhenDone: !isShort });
  }

  /**
   * The call with its result, and with its arguments where it is the caller's own or shared. From a caller that sees its state only, its
   * content is withheld; a reading that is recorded is recorded first.
   * @throws ToolError NOT_FOUND, also for calls that the caller does not see; SERVICE_UNAVAILABLE
   */
  get(caller: Principal, callId: string, reading: CallReading = {}): Promise<AcceptedCall> {
    return orUnavailable(STORE, this.findWithResult(caller, callId, 'get', reading));
  }

  /**
   * Like `get`, but a large result stays JSON text.
   * @throws ToolError as `get`
   */
  getText(caller: Principal, callId: string, reading: CallReading): Promise<AcceptedCall> {
    return orUnavailable(STORE, this.findWithResult(caller, callId, 'getText', reading));
  }

  /**
   * The call without its result, unless only the journal knows it.
   * @throws ToolError as `get`
   */
  getState(caller: Principal, callId: string): Promise<AcceptedCall & { sight: Sight }> {
    return orUnavailable(STORE, this.find(caller, callId));
  }

  private async findWithResult(
    caller: Principal,
    callId: string,
    read: StoreRead,
    { session, ownOnly }: CallReading,
  ): Promise<AcceptedCall> {
    const call = await this.find(caller, callId, session);
    const { sight } = call;
    if (sight === 'state' || (sight === 'recorded' && ownOnly)) return { ...call, result: undefined, isWithheld: true };
    const stored = {
      ...call,
      ...(await (isFinal(call.state) ? this.readInTurn(call, read) : this.deps.store[read](callId))),
    };
    if (sight !== 'recorded') return stored;
    if (stored.result ?? stored.resultText) await this.deps.readings.note(caller, stored);
    return { ...stored, arguments: undefined };
  }

  /**
   * The call with its result. A result may have megabytes, and parsing it holds the event loop, so a tenant reads few at a time.
   * @throws ToolError QUEUE_FULL
   */
  private async readInTurn({ callId, tenantId }: AcceptedCall, how: StoreRead): Promise<AcceptedCall | null> {
    const turns = this.reads.get(tenantId) ?? new Semaphore(READS_PER_TENANT, MAX_WAITING_READS);
    this.reads.set(tenantId, turns);
    const read = turns.run(() => this.deps.store[how](callId));
    if (read) return read;
    const message = `${MAX_WAITING_READS} requests of your tenant are already waiting to read results; retry later`;
    throw new ToolError('QUEUE_FULL', { message, retryAfterMs: READ_RETRY_MS });
  }

  private async find(
    caller: Principal,
    callId: string,
    session?: CallerSession,
  ): Promise<AcceptedCall & { sight: Sight }> {
    requirePlainId('call_id', callId);
    const call =
      (await this.deps.store.getState(callId)) ??
      (await this.journalled(callId)) ??
      (await this.deps.parked?.find(callId));
    const sight = call ? await this.deps.sight.of(caller, call) : 'none';
    if (!call || sight === 'none' || !isOfSession(call, sight, session)) {
      throw new ToolError('NOT_FOUND', { message: `No call '${callId}'` });
    }
    if (isFinal(call.state)) return { ...call, sight };
    await this.deps.lost.settle(call);
    return { ...((await this.deps.store.getState(callId)) ?? call), sight };
  }

  /**
   * Cancels a waiting or running call; a finished call does not change.
   * @throws ToolError NOT_FOUND, PERMISSION_DENIED, SERVICE_UNAVAILABLE
   * @returns the state in which the call ended, or `claimed` if a running call has not stopped after two seconds
   */
  cancel(caller: Principal, callId: string): Promise<CallState> {
    return orUnavailable(STORE, this.stop(caller, callId));
  }

  private async stop(caller: Principal, callId: string): Promise<CallState> {
    const call = await this.find(caller, callId);
    if (call.sight === 'shared')
      requireRight(caller, 'all_calls', 'Cancelling the call of another key or user', call.tenantId);
    const { jobId = callId } = call;
    if (isFinal(call.state)) return call.state;
    if (call.state === 'awaiting_approval' && (await this.deps.parked?.cancel(call, caller))) {
      await this.deps.store.enter(call);
      await this.deps.store.finish(callId, 'cancelled');
      return 'cancelled';
    }
    // A running call ends with its own outcome; one that waited has none.
    if ((await this.deps.queue.cancel(jobId)) === 'removed') await this.deps.store.finish(callId, 'cancelled');
    const until = this.deps.clock.monotonic() + STOP_WAIT_MS;
    let againAt = this.deps.clock.monotonic() + STOP_AGAIN_MS;
    for (;;) {
      const state = (await this.deps.store.getState(callId))?.state ?? 'cancelled';
      const now = this.deps.clock.monotonic();
      if (isFinal(state) || now >= until) return state;
      if (now >= againAt) {
        await this.deps.queue.cancel(jobId);
        againAt = now + STOP_AGAIN_MS;
      }
      await this.deps.clock.sleep(STOP_POLL_MS);
    }
  }

  /** Notes that the caller answered questions of the task that its call follows. @throws ToolError SERVICE_UNAVAILABLE */
  noteAnswers(callId: string, keys: readonly string[]): Promise<void> {
    return orUnavailable(STORE, this.deps.store.noteAnswers(callId, keys));
  }

  /**
   * Whether a caller that follows a call gets its events without their content. Reading another's is recorded first.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async isWithheld(caller: Principal, call: AcceptedCall, { ownOnly }: CallReading): Promise<boolean> {
    if (call.sight === 'own' || call.sight === 'shared') return false;
    if (call.sight !== 'recorded' || ownOnly) return true;
    await this.deps.readings.note(caller, call);
    return false;
  }

  /** Events after `afterId`; the last one of a finished call is `done`. */
  events(callId: string, afterId?: string): Promise<CallEvent[]> {
    return this.deps.store.events(callId, afterId);
  }

  /** A call that did not go through the queue, from the journal. */
  private async journalled(callId: string): Promise<AcceptedCall | undefined> {
    const record = await this.deps.journal.read(callId);
    if (!record) return undefined;
    const { tenantId, userId, maker, tool, state, acceptedAt, endedAt, outcome } = record;
    return {
      callId,
      tenantId,
      userId,
      maker,
      tool,
      state,
      acceptedAt,
      finishedAt: endedAt > 0 ? endedAt : undefined,
      result: outcome && callBody(callId, outcome, Math.max(0, endedAt - acceptedAt)),
    };
  }
}

/** Whether arguments have at most `MAX_KEPT_ARGUMENTS` characters as JSON. Texts of megabytes are not encoded to find out. */
function hasShortJson(args: JsonObject): boolean {
  const open: Json[] = [args];
  let left = MAX_KEPT_ARGUMENTS;
  for (let item = open.pop(); item !== undefined && left >= 0; item = open.pop()) {
    if (typeof item === 'string') left -= item.length;
    else if (typeof item === 'object' && item !== null) {
      for (const [name, member] of Object.entries(item)) {
        left -= name.length;
        if (member !== undefined) open.push(member);
      }
    }
  }
  return left >= 0 && JSON.stringify(args).length <= MAX_KEPT_ARGUMENTS;
}

/** A result of a session is read in it: by its user, or with the right to all calls by those that name the session. */
function isOfSession({ session, userId }: AcceptedCall, sight: Sight, named: CallerSession | undefined): boolean {
  if (session === undefined) return true;
  return session === named?.id && (userId === named.userId || sight === 'recorded' || sight === 'state');
}

/** A request as a job has it. */
export function toQueued(request: CallRequest, acceptedAt: EpochMs): QueuedRequest {
  const { signal: _signal, onProgress: _progress, target, input, limits, reuse, mode, ...rest } = request;
  const { approval, personInput, ...caller } = rest;
  const { deadlineAt: _deadline, ...bounds } = limits;
  return {
    ...caller,
    ...target,
    ...input,
    ...bounds,
    ...reuse,
    input: personInput,
    acceptedAt,
    approved: approval?.given,
    dryRun: mode.kind === 'dry' || undefined,
  };
}

/** The request of a job. @param now decisions of the job itself */
export function fromQueued(
  queued: QueuedRequest,
  now: Pick<CallRequest, 'signal' | 'onProgress' | 'mode'> &
    Pick<CallLimits, 'deadlineAt'> &
    Pick<CallReuse, 'idempotencyWaitMs'>,
): CallRequest {
  const { toolName, view, definition, rawArguments, select, timeoutMs, noRetry, inlineBytes, ...more } = queued;
  const {
    idempotencyKey,
    keyForEffects,
    cache,
    repeats,
    input,
    acceptedAt: _at,
    approved,
    dryRun: _dry,
    ...caller
  } = more;
  const { deadlineAt, idempotencyWaitMs, ...run } = now;
  return {
    ...caller,
    ...run,
    entryPoint: 'queue',
    target: { toolName, view, definition },
    input: { rawArguments, select },
    limits: { deadlineAt, timeoutMs, noRetry, inlineBytes },
    reuse: { idempotencyKey, keyForEffects, idempotencyWaitMs, cache, repeats },
    approval: approved && { asks: false, given: approved },
    personInput: input,
  };
}
