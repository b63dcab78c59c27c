import { ToolCaller, type CallerGrant } from '@toolfleet/builtin-tools';
import type { CallBody, CallMessage, JsonObject } from '@toolfleet/contracts';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';

/** Calls tools through the gateway's NATS door with the delegation token of the call that is being served. */
export class NatsToolCaller extends ToolCaller {
  constructor(private readonly nats: NatsClient) {
    super();
  }

  override list(grant: CallerGrant): Promise<JsonObject[]> {
    return this.nats.request<JsonObject[]>(SUBJECTS.toolList, {}, optionsOf(grant));
  }

  override call(message: CallMessage, grant: CallerGrant): Promise<CallBody> {
    return this.nats.request<CallBody>(SUBJECTS.toolCall, message, optionsOf(grant));
  }
}

function optionsOf({ delegationToken, deadlineAt, signal }: CallerGrant) {
  return { deadlineAt, signal, headers: { [HEADERS.authorization]: `Bearer ${delegationToken}` } };
}
