import { Controller } from '@nestjs/common';
import type { SpendMessage, SpendReply } from '@toolfleet/contracts/budget';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { SpendSlices } from '../engine/spend-slices.js';
import { SPEND_SCHEMA } from './call.schema.js';
import { NatsCalls } from './nats-calls.js';

/** `tool.spend`: for tools of the fleet that spend as they go. It has no subject per tenant: tenants hold no slices. */
@Controller()
export class SpendEndpoint {
  constructor(
    private readonly nats: NatsCalls,
    private readonly slices: SpendSlices,
  ) {}

  @Endpoint(SUBJECTS.toolSpend, { schema: SPEND_SCHEMA })
  async spend(message: SpendMessage, context: EndpointContext): Promise<SpendReply> {
    const caller = await this.nats.callerOf(context);
    return this.slices.spend(caller, message, context.timeLeftMs, context.signal);
  }
}
