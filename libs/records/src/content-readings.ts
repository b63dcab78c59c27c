import type { Principal } from '@toolfleet/contracts';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import type { CallRecords } from './call-records.js';

/** A call with content that is read. */
interface ReadCall {
  callId: string;
  tenantId: string;
}

/** Records who reads the content of the calls of others (`Sight`: `recorded`). */
export class ContentReadings {
  constructor(
    /** Undefined: no calls are recorded. */
    private readonly records: Pick<CallRecords, 'noteReading'> | undefined,
    private readonly logger: Pick<Logger, 'info'>,
  ) {}

  /** A line of the audit log. */
  log({ tenantId: tenant_id, userId: user_id, keyId: key_id }: Principal, { callId, tenantId }: ReadCall): void {
    const read = { read_call: callId, read_tenant: tenantId };
    this.logger.info({ audit: CHAINED, tenant_id, user_id, key_id, ...read }, 'arguments and result of a call read');
  }

  /** A line of the audit log, and an entry in the record of the call if it has one. @throws ToolError SERVICE_UNAVAILABLE */
  async note(caller: Principal, call: ReadCall): Promise<void> {
    this.log(caller, call);
    await this.records?.noteReading({
      tenant_id: call.tenantId,
      call_id: call.callId,
      reader: toReader(caller),
    });
  }
}

/** The reader of a call as the service `records` stores it. */
export const toReader = ({ tenantId: tenant_id, userId: user_id, keyId: key_id }: Principal) => ({
  tenant_id,
  user_id,
  key_id,
});
