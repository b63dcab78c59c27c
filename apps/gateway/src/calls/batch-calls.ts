import type { CallRecord, CallRequest, JsonObject } from '@toolfleet/contracts';
import { callRecord, readBatch, runBatch, type BatchAnswer, type BatchItem, type ExecuteCall } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';

/** Makes the request of one item. */
export type RequestMaker = (name: string, args: JsonObject, source: JsonObject) => CallRequest;

/** Batches of every plain door: at most `parallelism` calls at once, answers in order, one failure fails nobody else. */
export class BatchCalls {
  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly parallelism: number,
    private readonly clock: Clock,
  ) {}

  /** @throws ToolError REQUEST_INVALID when the batch itself cannot be read */
  answers(items: unknown, requestFor: RequestMaker): Promise<BatchAnswer[]> {
    const limits = { parallelism: this.parallelism, clock: this.clock };
    const makeRequest = (item: BatchItem, args: JsonObject, index: number) =>
      keyed(requestFor(item.name, args, item.source), item, index);
    return runBatch(this.executeCall, readBatch(items), makeRequest, limits);
  }

  /** The unified call records, in the order asked. */
  async run(items: unknown, requestFor: RequestMaker): Promise<CallRecord[]> {
    return (await this.answers(items, requestFor)).map(callRecord);
  }
}

/** An item's own idempotency key, else that of the whole batch with the item's place: sending the batch again replays it. */
function keyed(request: CallRequest, item: BatchItem, index: number): CallRequest {
  const idempotencyKey =
    item.idempotencyKey ?? (request.idempotencyKey === undefined ? undefined : `${request.idempotencyKey}#${index}`);
  return idempotencyKey === undefined ? request : { ...request, idempotencyKey };
}
