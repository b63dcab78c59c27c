import type {
  AcceptedBody,
  CallBody,
  CallRequest,
  CallResult,
  CallRecord,
  JsonObject,
  Principal,
} from '@toolfleet/contracts';
import { callBody, type ExecuteCall } from '@toolfleet/engine';
import { callRecord, readBatch, runBatch, type BatchAnswer, type BatchItem } from '@toolfleet/engine/batch';
import type { Clock } from '@toolfleet/resilience';
import type { CallFields } from '@toolfleet/contracts/call-fields';
import { requirePlainId } from '@toolfleet/contracts/text';
import type { AsyncCalls } from './async/async-calls.js';
import type { RequestLimits, ShowAllowance } from './auth/key-limits.js';

/** The answer of a plain door to one call. */
export interface CallAnswer {
  body: CallBody;
  /** True when an earlier call with the same idempotency key gave this outcome. */
  replayed: boolean;
}

/** What every door does with a call request: run it now, or accept it for later. */
export class ToolCalls {
  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly async: AsyncCalls,
    private readonly clock: Clock,
  ) {}

  /** The result of the engine as it is, for doors with a format of their own. @throws ToolError when the call is refused */
  execute(request: CallRequest): Promise<CallResult> {
    return this.executeCall(request);
  }

  /** Runs a call to its end. @throws ToolError when the call is refused */
  async run(request: CallRequest): Promise<CallAnswer> {
    const from = this.clock.monotonic();
    const result = await this.executeCall(request);
    const { idempotent_replay: replayed, replayed_call_id: firstId } = result.metadata;
    // A replay is the first call's answer, its id included.
    const callId = replayed === true && typeof firstId === 'string' ? firstId : request.callId;
    return { body: callBody(callId, result, this.clock.monotonic() - from), replayed: replayed === true };
  }

  /** Stores a call for asynchronous execution; durable when this resolves. @throws ToolError when it is refused */
  async accept(request: CallRequest): Promise<AcceptedBody> {
    // A dry run refuses now what would only fail later: unknown tool, rights, arguments, policy.
    await this.executeCall({ ...request, dryRun: true });
    await this.async.accept(request);
    return { call_id: request.callId, status: 'accepted' };
  }
}

/** Who sent a batch, and where its allowance is shown. */
export interface BatchSender {
  caller: Principal;
  showAllowance?: ShowAllowance;
}

/** Makes the request of one item. `fields` are the item's own over those of the batch; `source` is the item as it came. */
export type RequestMaker = (name: string, args: JsonObject, fields: CallFields, source: JsonObject) => CallRequest;

/** Batches of every plain door: at most `parallelism` calls at once, answers in order, one failure fails nobody else. */
export class BatchCalls {
  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly parallelism: number,
    private readonly clock: Clock,
    private readonly limits: Pick<RequestLimits, 'countBatch'>,
  ) {}

  /** @throws ToolError REQUEST_INVALID when the batch itself cannot be read, RATE_LIMITED when the caller may not make so many */
  async answers(
    items: unknown,
    shared: CallFields,
    from: BatchSender,
    requestFor: RequestMaker,
  ): Promise<BatchAnswer[]> {
    const batch = readBatch(items);
    await this.limits.countBatch(from.caller, batch.length, from.showAllowance);
    const makeRequest = (item: BatchItem, args: JsonObject, index: number) =>
      requestFor(item.name, args, fieldsOfItem(shared, item, index), item.source);
    return runBatch(this.executeCall, batch, makeRequest, { parallelism: this.parallelism, clock: this.clock });
  }

  /** The unified call records, in the order asked. */
  async run(items: unknown, shared: CallFields, from: BatchSender, requestFor: RequestMaker): Promise<CallRecord[]> {
    return (await this.answers(items, shared, from, requestFor)).map(callRecord);
  }
}

/** An item's own idempotency key, else that of the whole batch with the item's place: sending the batch again replays it. */
function fieldsOfItem(shared: CallFields, { fields }: BatchItem, index: number): CallFields {
  const ofPlace = shared.idempotency_key === undefined ? undefined : `${shared.idempotency_key}#${index}`;
  return { ...shared, ...fields, idempotency_key: fields.idempotency_key ?? ofPlace };
}

/** The same calls, refused with REQUEST_INVALID when an id that the caller chose has control characters, on every entry point. */
export function withPlainIds(executeCall: ExecuteCall): ExecuteCall {
  return async (request) => {
    requirePlainIds(request);
    return executeCall(request);
  };
}

function requirePlainIds({ context, requestId, agentId, taskId, idempotencyKey }: CallRequest): void {
  requirePlainId('session_id', context.session_id);
  requirePlainId('user_id', context.user_id);
  requirePlainId('project_id', context.project_id);
  requirePlainId('request_id', requestId);
  requirePlainId('agent_id', agentId);
  requirePlainId('task_id', taskId);
  requirePlainId('idempotency_key', idempotencyKey);
}
