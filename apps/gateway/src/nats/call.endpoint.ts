import { Controller } from '@nestjs/common';
import type { AcceptedBody, CallBody, CallMessage, CallRecord, CallState, JsonObject } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { findTools, formatTool, ToolList, ToolSearch } from '@toolfleet/catalog';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import type { SpendMessage, SpendReply } from '@toolfleet/contracts/budget';
import { AsyncCalls } from '@toolfleet/results';
import { readBatchBody } from '@toolfleet/engine/batch';
import { BatchedCalls, ToolCalls } from '../calls/tool-calls.js';
import {
  BATCH_SCHEMA,
  CALL_SCHEMA,
  CANCEL_SCHEMA,
  LIST_SCHEMA,
  type CancelMessage,
  type ListMessage,
  SPEND_SCHEMA,
} from './call.schema.js';
import { NatsCalls, toOrigin } from './nats-calls.js';
import { SpendSlices } from '@toolfleet/engine-adapters';

/**
 * `tool.*` for callers in any language: plain JSON, a key in `Authorization`, or the tenant's own
 * subject `tool.<verb>.<tenant>`; the NATS server lets only that tenant publish it.
 */
@Controller()
export class CallEndpoint {
  constructor(
    private readonly nats: NatsCalls,
    private readonly calls: ToolCalls,
    private readonly batches: BatchedCalls,
    private readonly list: ToolList,
    private readonly search: ToolSearch,
    private readonly async: AsyncCalls,
  ) {}

  @Endpoint(SUBJECTS.toolCall, { schema: CALL_SCHEMA })
  async call(message: CallMessage, context: EndpointContext): Promise<CallBody | AcceptedBody> {
    const request = this.nats.toCallRequest(this.nats.caller(context), message, context);
    if (message.mode === 'async' && !message.dry_run) return this.calls.accept(request);
    const answer = await this.calls.runOrPark(request);
    return 'waiting' in answer ? answer.waiting : answer.body;
  }

  @Endpoint(`${SUBJECTS.toolCall}.*`, { schema: CALL_SCHEMA })
  tenantCall(message: CallMessage, context: EndpointContext) {
    return this.call(message, context);
  }

  @Endpoint(SUBJECTS.toolBatch, { schema: BATCH_SCHEMA })
  async batch(message: JsonObject | JsonObject[], context: EndpointContext): Promise<(CallRecord | JsonObject)[]> {
    const sender = this.nats.batchSender(context);
    const { calls, fields } = readBatchBody(message, 'nats-batch');
    return this.batches.records(calls, fields, sender, (name, args, own) =>
      this.nats.toCallRequest(sender.caller, { ...own, name, arguments: args }, context),
    );
  }

  @Endpoint(`${SUBJECTS.toolBatch}.*`, { schema: BATCH_SCHEMA })
  tenantBatch(message: JsonObject | JsonObject[], context: EndpointContext) {
    return this.batch(message, context);
  }

  @Endpoint(SUBJECTS.toolList, { schema: LIST_SCHEMA })
  async tools(message: ListMessage | undefined, context: EndpointContext): Promise<JsonObject[]> {
    const caller = this.nats.caller(context);
    const { tools } = await findTools(
      {
        list: async () => (await this.list.all(caller, toOrigin(caller))).tools,
        search: (...wanted) => this.search.rank(caller, ...wanted),
      },
      message ?? {},
    );
    return tools.map((tool) => formatTool(tool, 'native'));
  }

  @Endpoint(`${SUBJECTS.toolList}.*`, { schema: LIST_SCHEMA })
  tenantTools(message: ListMessage | undefined, context: EndpointContext) {
    return this.tools(message, context);
  }

  @Endpoint(SUBJECTS.toolCancel, { schema: CANCEL_SCHEMA })
  async cancel(message: CancelMessage, context: EndpointContext): Promise<{ call_id: string; state: CallState }> {
    const caller = this.nats.caller(context);
    return { call_id: message.call_id, state: await this.async.cancel(caller, message.call_id) };
  }

  @Endpoint(`${SUBJECTS.toolCancel}.*`, { schema: CANCEL_SCHEMA })
  tenantCancel(message: CancelMessage, context: EndpointContext) {
    return this.cancel(message, context);
  }
}

/** `tool.spend`, for tools of the fleet that spend while they run. Tenants hold no slices and have no subject of their own for it. */
@Controller()
export class SpendEndpoint {
  constructor(
    private readonly nats: NatsCalls,
    private readonly slices: SpendSlices,
  ) {}

  @Endpoint(SUBJECTS.toolSpend, { schema: SPEND_SCHEMA })
  async spend(message: SpendMessage, context: EndpointContext): Promise<SpendReply> {
    const caller = await this.nats.caller(context);
    return this.slices.spend(caller, message, context.timeLeftMs, context.signal);
  }
}
