import { hasRight, mayDecide } from '@toolfleet/access/roles';
import { ToolError, toInstant, type JsonObject, type Principal } from '@toolfleet/contracts';
import { countsAs, toApprovalPerson } from '@toolfleet/contracts/approvals';
import { APPROVAL_GRANT_ROUTES, type ApprovalGrant, type Asked } from '@toolfleet/contracts/resources';
import { markHidden } from '@toolfleet/contracts/text';
import { Clock } from '@toolfleet/resilience';
import { Answers } from '@toolfleet/transport';
import type { GrantRow } from './approval-grant-store.js';
import { RecordedCallStore, STORE_UNAVAILABLE } from './call-store.js';

const PAGE = 100;
const GRANT_ID = /^[0-9a-f-]{36}$/;

/**
 * What people allow besides the calls that they approved (docs/approvals.md). A grant is seen and revoked by its rule's deciders, and by
 * the user whose calls it covers, who sees no arguments.
 */
@Answers(APPROVAL_GRANT_ROUTES, { unavailable: STORE_UNAVAILABLE })
export class ApprovalGrantRoutes {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
  ) {}

  async listApprovalGrants({ principal, query: { cursor, limit = PAGE, ...same } }: Asked<'listApprovalGrants'>) {
    const isEverywhere = hasRight(principal, 'decide_calls') && hasRight(principal, 'all_tenants');
    const tenant_id = isEverywhere ? undefined : principal.tenantId;
    const query = { ...same, tenant_id, before: cursor, limit };
    const { rows, next } = await this.store.grants.list(query, this.clock.now());
    return { grants: rows.filter((one) => sees(principal, one)).map((one) => this.#shown(one)), next };
  }

  async getApprovalGrant({ principal, path }: Asked<'getApprovalGrant'>) {
    const grant = await this.#find(principal, path.id);
    return this.#shown(grant, mayGive(principal, grant) ? await this.store.grants.open(grant) : undefined);
  }

  async revokeApprovalGrant({ principal, path }: Asked<'revokeApprovalGrant'>) {
    const found = await this.#find(principal, path.id);
    const by = toApprovalPerson(principal);
    return this.#shown((await this.store.grants.revoke(path.id, by, this.clock.now())) ?? found);
  }

  /** @throws ToolError NOT_FOUND, also for one that the caller does not see */
  async #find(caller: Principal, id: string): Promise<GrantRow> {
    const found = GRANT_ID.test(id) ? await this.store.grants.find(id) : undefined;
    if (found && sees(caller, found)) return found;
    throw new ToolError('NOT_FOUND', { message: `No grant '${id.slice(0, 100)}'` });
  }

  #shown(grant: GrantRow, args?: JsonObject): ApprovalGrant {
    const { last_used_at, revoked_at } = grant;
    const marked = args && markHidden(JSON.stringify(args, null, 2));
    return {
      id: grant.grant_id,
      approval_id: grant.call_id,
      state: stateOf(grant, this.clock.now()),
      for: [...(grant.rule.grant?.for ?? [])],
      tool: grant.tool,
      revision: grant.revision,
      tenant_id: grant.tenant_id,
      user_id: grant.user_id,
      key_id: grant.key_id,
      acting_user_id: grant.acting_user_id,
      fields: grant.fields,
      granted_by: grant.granted_by.map((by) => countsAs(by).user_id),
      granted_at: toInstant(grant.granted_at),
      until: toInstant(grant.until),
      uses: grant.uses,
      max_uses: grant.max_uses,
      last_used_at: last_used_at === undefined ? undefined : toInstant(last_used_at),
      revoked_at: revoked_at === undefined ? undefined : toInstant(revoked_at),
      revoked_by: grant.revoked_by?.user_id,
      arguments: args,
      shown: marked?.text,
      hidden_characters: marked?.count,
    };
  }
}

/** Why a grant lets no call through any more; `active` while it does. */
function stateOf({ revoked_at, until, uses, max_uses = Infinity }: GrantRow, now: number): ApprovalGrant['state'] {
  if (revoked_at !== undefined) return 'revoked';
  if (until <= now) return 'expired';
  return uses >= max_uses ? 'used_up' : 'active';
}

/** Whether the caller is of the grant's user, or is its credential. */
function isOwner(caller: Principal, { tenant_id, user_id, key_id, acting_user_id }: GrantRow): boolean {
  if (caller.tenantId !== tenant_id) return false;
  if (key_id !== undefined) return caller.keyId === key_id;
  return caller.userId !== '' && [user_id, acting_user_id].includes(caller.userId);
}

const mayGive = (caller: Principal, { tenant_id, rule }: GrantRow): boolean => mayDecide(caller, rule, tenant_id);

const sees = (caller: Principal, grant: GrantRow): boolean =>
  caller.via !== 'delegation' && (isOwner(caller, grant) || mayGive(caller, grant));
