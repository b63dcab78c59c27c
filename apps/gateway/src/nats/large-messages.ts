import type { JsonReading } from '@toolfleet/contracts/json-text';
import type { EndpointContext, LargeMessages } from '@toolfleet/transport';
import type { BodyReader } from '../server/body-reader.js';
import type { MemoryAccount } from '../server/memory-account.js';
import type { NatsCalls } from './nats-calls.js';

/**
 * Lets large NATS messages share the limits of HTTP: the account of memory of each tenant, in which a call is counted until its reply
 * is sent, and the thread that reads bodies.
 */
export class LargeNatsMessages implements LargeMessages {
  constructor(
    private readonly memory: MemoryAccount,
    private readonly bodies: BodyReader,
    private readonly calls: Pick<NatsCalls, 'caller'>,
  ) {}

  hold(context: EndpointContext, bytes: number, of: 'request' | 'reply'): () => void {
    const { tenantId } = this.calls.caller(context);
    const refusal = of === 'request' ? this.memory.refusal(tenantId, bytes) : undefined;
    if (refusal) throw refusal;
    this.memory.hold(tenantId, bytes);
    return () => this.memory.release(tenantId, bytes);
  }

  read(context: EndpointContext, body: Uint8Array): Promise<JsonReading> {
    return this.bodies.read(this.calls.caller(context).tenantId, body);
  }
}
