import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RecordsBodyReply, StoredCall } from '@toolfleet/contracts/records';
import type { BodyAccess } from '@toolfleet/contracts/resources';
import { hasRight, isMaker, toMaker } from '@toolfleet/access';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import type { CallRecords } from './call-records.js';

/** Whether a caller may read the arguments and result of a call that it sees. */
export function bodyAccess(
  caller: Principal,
  { tenant_id, tool, key_id, user_id, body_bytes }: StoredCall,
): BodyAccess {
  if (body_bytes === undefined) return 'not_kept';
  const maker = toMaker(key_id === undefined ? { userId: user_id } : { keyId: key_id, userId: user_id });
  if (isMaker(caller, { tenantId: tenant_id, tool, maker })) return 'own';
  return hasRight(caller, 'read_bodies', tenant_id) ? 'recorded' : 'denied';
}

/** Arguments and results of finished calls, for their makers and for callers with the right to read them. */
export class CallBodyReader {
  constructor(
    /** Undefined: no calls are recorded. */
    private readonly records: Pick<CallRecords, 'body'> | undefined,
    private readonly logger: Pick<Logger, 'info'>,
  ) {}

  /**
   * The body of a call and who read it. Reading the call of another is in the audit log and in the record before it is answered.
   * @param call one that the caller sees
   * @throws ToolError NOT_FOUND, PERMISSION_DENIED, SERVICE_UNAVAILABLE
   */
  async read(caller: Principal, call: StoredCall): Promise<Required<Pick<RecordsBodyReply, 'body' | 'readings'>>> {
    const { call_id: callId } = call;
    if (!this.records) throw new ToolError('NOT_FOUND', { message: `No finished call '${callId}'` });
    const access = bodyAccess(caller, call);
    if (access === 'denied')
      throw new ToolError('PERMISSION_DENIED', {
        message:
          'Arguments and results are for the key or user that made the call, and for the right read_bodies, for example by the role auditor.',
        details: { role: 'auditor', right: 'read_bodies' },
      });
    const { tenantId: tenant_id, userId: user_id, keyId: key_id } = caller;
    if (access === 'recorded') {
      const read = { read_call: callId, read_tenant: call.tenant_id };
      this.logger.info({ audit: CHAINED, tenant_id, user_id, key_id, ...read }, 'arguments and result of a call read');
    }
    const { body, readings, is_unreadable } = await this.records.body({
      tenant_id: call.tenant_id,
      call_id: callId,
      ...(access === 'recorded' && { reader: { tenant_id, user_id, key_id } }),
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
