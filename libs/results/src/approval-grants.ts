import { ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { grantEnd, type GrantList, type StoredGrant } from '@toolfleet/contracts/approval-grants';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { hasRight } from '@toolfleet/access';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import type { Clock } from '@toolfleet/resilience';
import { mayDecide } from './approval-decisions.js';
import { isCallId, toApprovalPerson, type ApprovalRecords } from './parked-calls.js';

/** A grant as a caller sees it. */
export interface SeenGrant {
  grant: StoredGrant;
  /** Why it lets no call through any more. */
  end: ReturnType<typeof grantEnd>;
  /** The arguments of its calls; for callers that may give such grants. */
  arguments?: JsonObject;
}

interface ApprovalGrantsDeps {
  /** Absent: calls are not recorded, and there are no grants. */
  records: ApprovalRecords | undefined;
  clock: Pick<Clock, 'now'>;
  logger: Pick<Logger, 'info'>;
}

/**
 * The grants that people gave with their approvals. A grant is seen and revoked by its rule's deciders, and by the user whose
 * calls it covers, who sees no arguments. Every look at the arguments and every revocation is in the audit log.
 */
export class ApprovalGrants {
  constructor(private readonly deps: ApprovalGrantsDeps) {}

  /** The grants that the caller sees, the newest first. Pages may be short. @throws ToolError SERVICE_UNAVAILABLE */
  async list(
    caller: Principal,
    query: Omit<GrantList, 'tenant_id'>,
  ): Promise<{ grants: SeenGrant[]; next?: string | undefined }> {
    if (!this.deps.records) return { grants: [] };
    const everywhere = hasRight(caller, 'decide_calls') && hasRight(caller, 'all_tenants');
    const tenant_id = everywhere ? undefined : caller.tenantId;
    const { grants, next } = await this.deps.records.ask(SUBJECTS.approvalGrantList, { ...query, tenant_id });
    return { grants: grants.filter((one) => sees(caller, one)).map((one) => this.#seen(one)), next };
  }

  /** @throws ToolError NOT_FOUND, also for one that the caller does not see; SERVICE_UNAVAILABLE */
  async show(caller: Principal, id: string): Promise<SeenGrant> {
    const found = isCallId(id)
      ? await this.deps.records?.ask(SUBJECTS.approvalGrantShow, { grant_id: id, with_arguments: true })
      : undefined;
    if (!found?.grant || !sees(caller, found.grant)) throw unknownGrant(id);
    if (!mayDecide(caller, found.grant)) return this.#seen(found.grant);
    this.#audit(caller, found.grant, 'arguments of a grant read');
    return { ...this.#seen(found.grant), arguments: found.arguments };
  }

  /** Ends a grant at once; changes nothing if it has ended. @throws ToolError NOT_FOUND; SERVICE_UNAVAILABLE */
  async revoke(caller: Principal, id: string): Promise<SeenGrant> {
    const found = isCallId(id) ? await this.deps.records?.ask(SUBJECTS.approvalGrantShow, { grant_id: id }) : undefined;
    if (!found?.grant || !sees(caller, found.grant)) throw unknownGrant(id);
    const by = toApprovalPerson(caller);
    const { grant = found.grant, changed } = await this.deps.records!.ask(SUBJECTS.approvalGrantRevoke, {
      grant_id: id,
      by,
    });
    if (changed) this.#audit(caller, grant, 'grant revoked');
    return this.#seen(grant);
  }

  #seen(grant: StoredGrant): SeenGrant {
    return { grant, end: grantEnd(grant, this.deps.clock.now()) };
  }

  #audit(caller: Principal, { grant_id, requester, tool }: StoredGrant, what: string): void {
    const { tenantId: tenant_id, userId: user_id, keyId: key_id } = caller;
    const grant = { approval_grant: grant_id, approval_tenant: requester.tenant_id, tool_name: tool };
    this.deps.logger.info({ audit: CHAINED, tenant_id, user_id, key_id, ...grant }, what);
  }
}

/** Whether the caller is of the grant's user, or is its credential. */
function isOwner(caller: Principal, { requester, acting_user_id: acting }: StoredGrant): boolean {
  if (caller.tenantId !== requester.tenant_id) return false;
  if (requester.key_id !== undefined) return caller.keyId === requester.key_id;
  return caller.userId !== '' && [requester.user_id, acting].includes(caller.userId);
}

const sees = (caller: Principal, grant: StoredGrant): boolean =>
  caller.via !== 'delegation' && (isOwner(caller, grant) || mayDecide(caller, grant));

const unknownGrant = (id: string): ToolError =>
  new ToolError('NOT_FOUND', { message: `No grant '${id.slice(0, 100)}'` });
