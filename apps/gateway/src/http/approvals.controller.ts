import { Controller } from '@nestjs/common';
import { APPROVAL_STATES, ToolError, toInstant, toUsd, type ApprovalState, type Principal } from '@toolfleet/contracts';
import type { CallApproval, RouteInput } from '@toolfleet/contracts/resources';
import { markHidden } from '@toolfleet/contracts/text';
import { ApprovalDecisions, type SeenApproval } from '@toolfleet/results';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';

const DEFAULT_LIMIT = 100;

/** Calls that people decide on. */
@Controller()
export class ApprovalsController {
  constructor(private readonly decisions: ApprovalDecisions) {}

  @Serves('GET /api/v1/approvals')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/approvals'>) {
    const { approvals, next } = await this.decisions.list(caller, {
      states: readStates(query.state),
      tool: query.tool,
      before: query.cursor,
      limit: query.limit ?? DEFAULT_LIMIT,
    });
    return { approvals: approvals.map(shown), next };
  }

  @Serves('GET /api/v1/approvals/{id}')
  async one(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/approvals/{id}'>) {
    return shown(await this.decisions.show(caller, path.id));
  }

  @Serves('POST /api/v1/approvals/{id}/approve')
  async approve(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'POST /api/v1/approvals/{id}/approve'>,
  ) {
    return shown(await this.decisions.decide(caller, path.id, 'approve', body));
  }

  @Serves('POST /api/v1/approvals/{id}/reject')
  async reject(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'POST /api/v1/approvals/{id}/reject'>) {
    return shown(await this.decisions.decide(caller, path.id, 'reject', body));
  }
}

/** @throws ToolError REQUEST_INVALID that names the unknown state */
function readStates(text: string | undefined): ApprovalState[] | undefined {
  const names = text?.split(',').map((name) => name.trim());
  const unknown = names?.find((name) => !APPROVAL_STATES.some((state) => state === name));
  if (unknown === undefined) return names as ApprovalState[] | undefined;
  throw new ToolError('REQUEST_INVALID', {
    message: `Invalid request: state has no '${unknown.slice(0, 50)}'; states are ${APPROVAL_STATES.join(', ')}`,
    details: { fields: ['state'] },
  });
}

function shown({ approval, decision, refusal, arguments: args }: SeenApproval): CallApproval {
  const { call_id, requester, votes, asked_at, ended_at, micro_usd } = approval;
  const marked = args && markHidden(JSON.stringify(args, null, 2));
  return {
    id: call_id,
    call_id: approval.program_id ?? call_id,
    state: approval.state,
    tool: approval.tool,
    revision: approval.revision,
    decision,
    ...requester,
    acting_user_id: approval.acting_user_id,
    entry_point: approval.entry_point,
    parked: approval.parked,
    max_cost_usd: toUsd(micro_usd),
    asked_at: toInstant(asked_at),
    ended_at: ended_at === undefined ? undefined : toInstant(ended_at),
    code: approval.code,
    grant_id: approval.grant_id,
    votes: votes.map(({ grant, ...vote }) => ({
      ...vote,
      grant: grant && { ...grant, until: toInstant(grant.until) },
      at: toInstant(vote.at),
    })),
    may_decide: refusal === undefined && approval.state === 'pending',
    why_not: refusal,
    arguments: args,
    shown: marked?.text,
    hidden_characters: marked?.count,
  };
}
