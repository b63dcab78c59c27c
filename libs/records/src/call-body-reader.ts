import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RecordsBodyReply, StoredCall } from '@toolfleet/contracts/records';
import type { BodyAccess } from '@toolfleet/contracts/resources';
import { contentRefusal, toSeenCall, type CallSight } from '@toolfleet/access';
import type { CallRecords } from './call-records.js';
import { type ContentReadings, toReader } from './content-readings.js';

/** Arguments and results of finished calls, for their makers and for callers with the right to read them. */
export class CallBodyReader {
  constructor(
    /** Undefined: no calls are recorded. */
    private readonly records: Pick<CallRecords, 'body'> | undefined,
    private readonly readings: Pick<ContentReadings, 'log'>,
    private readonly sight: CallSight,
  ) {}

  /** Whether the caller reads the body of a call. The token of a call reads results by their handles only. */
  async access(caller: Principal, call: StoredCall): Promise<BodyAccess> {
    if (call.body_bytes === undefined) return 'not_kept';
    const sight = caller.via === 'delegation' ? 'none' : await this.sight.of(caller, toSeenCall(call));
    return sight === 'state' || sight === 'none' ? 'denied' : sight;
  }

  /**
   * The body of a call and who read it. Reading the call of another is in the audit log and in the record before it is answered.
   * @param call one that the caller sees
   * @throws ToolError NOT_FOUND, PERMISSION_DENIED, SERVICE_UNAVAILABLE
   */
  async read(caller: Principal, call: StoredCall): Promise<Required<Pick<RecordsBodyReply, 'body' | 'readings'>>> {
    const { call_id: callId, tenant_id: tenantId } = call;
    if (!this.records) throw new ToolError('NOT_FOUND', { message: `No finished call '${callId}'` });
    const access = await this.access(caller, call);
    if (access === 'denied') throw contentRefusal();
    if (access === 'recorded') this.readings.log(caller, { callId, tenantId });
    const { body, readings, is_unreadable } = await this.records.body({
      tenant_id: tenantId,
      call_id: callId,
      reader: access === 'recorded' ? toReader(caller) : undefined,
    });
    if (is_unreadable)
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: `The service records has another RECORDS_SECRET_KEY than the one that sealed call '${callId}'`,
      });
    if (body) return { body, readings };
    throw new ToolError('NOT_FOUND', {
      message: `Arguments and result of call '${callId}' are not kept; call_bodies of the configuration file says of which calls they are`,
    });
  }
}
