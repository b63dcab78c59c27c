import {
  ToolError,
  type AcceptedBody,
  type CallBody,
  type CallMode,
  type CallRequest,
  type CallRecord,
  type EpochMs,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { callBody, type ExecuteCall } from '@toolfleet/engine';
import {
  callRecord,
  readBatch,
  renderAnswers,
  runBatch,
  toResultFormat,
  type BatchAnswer,
  type BatchEntry,
  type ResultFormat,
} from '@toolfleet/engine/batch';
import { CostlyTurns, type Clock } from '@toolfleet/resilience';
import type { CallFields } from '@toolfleet/contracts/call-fields';
import { readParked, type AsyncCalls } from '@toolfleet/results';
import type { Toolsets } from '@toolfleet/catalog';
import type { RequestLimits, ShowAllowance } from '@toolfleet/access';

/** The answer to one call. */
interface CallAnswer {
  body: CallBody;
  /** Whether this is the outcome of an earlier call with the same idempotency key. */
  replayed: boolean;
}

/** Runs a call request now, or accepts it for later, for every entry point. */
export class ToolCalls {
  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly async: AsyncCalls,
    private readonly toolsets: Pick<Toolsets, 'resolve'>,
    private readonly clock: Clock,
  ) {}

  /** Runs a call to its end. @throws ToolError when the call is refused */
  async run(request: CallRequest): Promise<CallAnswer> {
    const from = this.clock.monotonic();
    const result = await this.executeCall(request);
    const { replayOf } = result;
    // A replay has the id of the first call.
    const body = callBody(replayOf ?? request.callId, result, this.clock.monotonic() - from);
    return { body, replayed: replayOf !== undefined };
  }

  /** Like `run`; a call that is parked for an approval is answered at once. @throws ToolError when the call is refused */
  runOrPark(request: CallRequest): Promise<CallAnswer | { waiting: AcceptedBody }> {
    return this.run(request).catch((refusal: unknown) => ({ waiting: toWaiting(refusal) }));
  }

  /** Stores a call for asynchronous execution; durable when this resolves. @throws ToolError when it is refused */
  async accept(request: CallRequest): Promise<AcceptedBody> {
    // Refuses at once what would fail later: unknown tool, permissions, arguments, policy.
    const mode: CallMode = request.mode.kind === 'refused' ? request.mode : { kind: 'admit' };
    try {
      await this.executeCall({ ...request, mode, approval: { asks: false, ...request.approval, parks: true } });
    } catch (refusal) {
      return toWaiting(refusal);
    }
    // The record of the call names the original tool; it decides on sight.
    await this.async.accept(await this.toolsets.resolve(request));
    return { call_id: request.callId, status: 'accepted' };
  }
}

/** The answer to a call that waits for an approval. @throws any other refusal */
function toWaiting(refusal: unknown): AcceptedBody {
  const parked = readParked(refusal);
  if (!parked) throw refusal;
  return { call_id: parked.callId, status: 'awaiting_approval', approval: parked.decision };
}

/** The sender of a batch, when the batch must have ended, and where to show the rest of the sender's request limits. */
export interface BatchSender {
  caller: Principal;
  deadlineAt: EpochMs;
  showAllowance?: ShowAllowance;
}

/** Builds the request of one item. `fields` are the item's over the batch's; `source` is the item as received. */
type RequestMaker = (name: string, args: JsonObject, fields: CallFields, source: JsonObject) => CallRequest;

/** Runs the batches of HTTP and NATS: at most `parallelism` calls at once, answers in order; a failure does not affect other items. */
export class BatchedCalls {
  /** A call that is refused at once has cost a millisecond: a hundred of them would hold the event loop. */
  readonly #turns: CostlyTurns;

  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly parallelism: number,
    private readonly clock: Clock,
    private readonly limits: Pick<RequestLimits, 'countBatch'>,
    /** Largest result of a call in the shape of a model provider that is returned whole. */
    private readonly modelBytes?: number,
  ) {
    this.#turns = new CostlyTurns(clock);
  }

  /**
   * Runs a batch and returns its answers in order, as `renderAnswers` describes.
   * @param shared fields for all items, and how the batch runs (`parallel`, `max_parallel`)
   * @throws ToolError REQUEST_INVALID for a malformed batch, RATE_LIMITED if it exceeds the limits of the caller
   */
  async run<T>(
    items: unknown,
    { parallel, max_parallel: maxParallel, ...shared }: CallFields,
    from: BatchSender,
    requestFor: RequestMaker,
    render: (body: CallBody, answer: BatchAnswer) => T,
    format?: ResultFormat,
  ): Promise<(T | JsonObject)[]> {
    const batch = readBatch(items);
    const parallelism = this.#parallelism(parallel, maxParallel);
    await this.limits.countBatch(from.caller, batch.length, from.showAllowance);
    const makeRequest = (item: BatchEntry, args: JsonObject, index: number) => {
      const request = requestFor(item.name, args, fieldsOfItem(shared, item, index), item.source);
      if (request.limits.inlineBytes !== undefined || !(format ?? toResultFormat(item.source))) return request;
      return { ...request, limits: { ...request.limits, inlineBytes: this.modelBytes } };
    };
    const limits = { parallelism, deadlineAt: from.deadlineAt, clock: this.clock };
    const execute: ExecuteCall = async (request) => {
      await this.#turns.next(from.caller.tenantId);
      return this.executeCall(request);
    };
    return renderAnswers(await runBatch(execute, batch, makeRequest, limits), render, format);
  }

  /** Runs a batch and returns call records, like `run`. */
  records(
    items: unknown,
    shared: CallFields,
    from: BatchSender,
    requestFor: RequestMaker,
    format?: ResultFormat,
  ): Promise<(CallRecord | JsonObject)[]> {
    return this.run(items, shared, from, requestFor, callRecord, format);
  }

  #parallelism(parallel = true, maxParallel?: number): number {
    if (parallel) return Math.min(maxParallel ?? this.parallelism, this.parallelism);
    if (maxParallel === undefined || maxParallel === 1) return 1;
    const message = `Invalid request: max_parallel must be absent or 1 with parallel false, not ${maxParallel}`;
    throw new ToolError('REQUEST_INVALID', { message, details: { fields: ['parallel', 'max_parallel'] } });
  }
}

/** An item without its own idempotency key gets the batch's with its position, so that a repeated batch is replayed. */
function fieldsOfItem(shared: CallFields, { fields }: BatchEntry, index: number): CallFields {
  const ofPosition = shared.idempotency_key === undefined ? undefined : `${shared.idempotency_key}#${index}`;
  return { ...shared, ...fields, idempotency_key: fields.idempotency_key ?? ofPosition };
}
