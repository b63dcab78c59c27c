import { Controller } from '@nestjs/common';
import { toInstant, type Principal } from '@toolfleet/contracts';
import { countsAs } from '@toolfleet/contracts/approvals';
import type { ApprovalGrant, RouteInput } from '@toolfleet/contracts/resources';
import { markHidden } from '@toolfleet/contracts/text';
import { ApprovalGrants, type SeenGrant } from '@toolfleet/results';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';

const DEFAULT_LIMIT = 100;

/** What people allow besides the calls that they approved. */
@Controller()
export class ApprovalGrantsController {
  constructor(private readonly grants: ApprovalGrants) {}

  @Serves('GET /api/v1/approval-grants')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/approval-grants'>) {
    const { tool, ended, cursor: before, limit = DEFAULT_LIMIT } = query;
    const { grants, next } = await this.grants.list(caller, { tool, ended, before, limit });
    return { grants: grants.map(shown), next };
  }

  @Serves('GET /api/v1/approval-grants/{id}')
  async one(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/approval-grants/{id}'>) {
    return shown(await this.grants.show(caller, path.id));
  }

  @Serves('DELETE /api/v1/approval-grants/{id}')
  async revoke(@Caller() caller: Principal, @Input() { path }: RouteInput<'DELETE /api/v1/approval-grants/{id}'>) {
    return shown(await this.grants.revoke(caller, path.id));
  }
}

function shown({ grant, end, arguments: args }: SeenGrant): ApprovalGrant {
  const { requester, rule, last_used_at, revoked_at } = grant;
  const marked = args && markHidden(JSON.stringify(args, null, 2));
  return {
    id: grant.grant_id,
    approval_id: grant.call_id,
    state: end ?? 'active',
    for: [...(rule.grant?.for ?? [])],
    tool: grant.tool,
    revision: grant.revision,
    ...requester,
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
