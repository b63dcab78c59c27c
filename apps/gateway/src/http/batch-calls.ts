import type { CallRecord, CallRequest, JsonObject, Principal } from '@toolfleet/contracts';
import type { CallFields } from '@toolfleet/contracts/call-fields';
import { callRecord, readBatch, runBatch, type BatchAnswer, type BatchItem, type ExecuteCall } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { CountCalls, ShowAllowance } from '../auth/key-limit.guard.js';

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
    private readonly countCalls: CountCalls,
  ) {}

  /** @throws ToolError REQUEST_INVALID when the batch itself cannot be read, RATE_LIMITED when the caller may not make so many */
  async answers(
    items: unknown,
    shared: CallFields,
    from: BatchSender,
    requestFor: RequestMaker,
  ): Promise<BatchAnswer[]> {
    const batch = readBatch(items);
    await this.countCalls(from.caller, batch.length, from.showAllowance);
    const limits = { parallelism: this.parallelism, clock: this.clock };
    const makeRequest = (item: BatchItem, args: JsonObject, index: number) =>
      requestFor(item.name, args, fieldsOfItem(shared, item, index), item.source);
    return runBatch(this.executeCall, batch, makeRequest, limits);
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
