import type { Schema, Value } from '../json-schema.js';
import * as approvals from './approvals.js';
import * as budget from './budget.js';
import * as execution from './execution.js';
import * as identity from './identity.js';
import * as purge from './purge.js';
import * as records from './records.js';
import * as registry from './registry.js';
import * as signIn from './sign-in.js';
import * as toolsets from '../toolset.js';

/** A request with messages of type `M`. The receiver checks them by `schema`. `answer` only carries the type of the reply. */
interface RequestForm<M, A> {
  readonly schema: Schema<M>;
  readonly answer?: A;
}

/** Two steps, because the reply's type is written and the message's type is inferred. */
const answered =
  <A>() =>
  <M>(schema: Schema<M>): RequestForm<M, A> => ({ schema });

/**
 * Requests between services by subject. The first word of a subject names the service that answers; `exec.mcp` is mcp-executor, and
 * `workspace` the toolset `files`. `NatsClient.ask` sends a request. An endpoint of `endpointsOf` answers it, after a check of
 * the message by `schema`. The compiler checks messages and replies at both sides. A new row needs publish and subscribe permissions in
 * `deploy/nats.conf`. Calls of tools, announcements and prefixes are in `SUBJECTS`.
 */
export const REQUESTS = {
  'registry.definition.get': answered<registry.DefinitionGetReply>()(registry.DEFINITION_GET),
  'registry.definition.list': answered<registry.DefinitionListReply>()(registry.DEFINITION_LIST),
  'registry.definition.retire': answered<{ removed: string[] }>()(registry.DEFINITION_RETIRE),
  'registry.toolset.get': answered<{ toolset: toolsets.ServedToolset | null }>()(toolsets.TOOLSET_GET),
  'registry.purge': answered<purge.PurgeReply>()(purge.PURGE),
  'exec.mcp.discover': answered<execution.DiscoverReply>()(execution.DISCOVER),
  'workspace.purge': answered<purge.PurgeReply>()(purge.PURGE),
  'budget.reserve': answered<budget.BudgetReserveReply>()(budget.BUDGET_RESERVE),
  'budget.settle': answered<budget.BudgetSettleReply>()(budget.BUDGET_SETTLE),
  'budget.release': answered<{ released: number }>()(budget.BUDGET_RELEASE),
  'budget.usage': answered<budget.BudgetUsageReply>()(budget.BUDGET_USAGE),
  'budget.limits': answered<budget.BudgetLimitsReply>()(budget.BUDGET_LIMITS),
  'budget.set': answered<budget.BudgetSetReply>()(budget.BUDGET_SET),
  'budget.remove': answered<{ removed: boolean }>()(budget.BUDGET_REMOVE),
  'budget.purge': answered<purge.PurgeReply>()(purge.PURGE),
  'records.append': answered<records.RecordsAppendReply>()(records.RECORDS_APPEND),
  'records.list': answered<records.RecordsListReply>()(records.RECORDS_LIST),
  'records.body': answered<records.RecordsBodyReply>()(records.RECORDS_BODY),
  'records.facts': answered<records.RecordsFactsReply>()(records.RECORDS_FACTS),
  'records.purge': answered<purge.PurgeReply>()(purge.PURGE),
  'records.approval.ask': answered<approvals.ApprovalAskReply>()(approvals.APPROVAL_ASK),
  'records.approval.show': answered<approvals.ApprovalShowReply>()(approvals.APPROVAL_SHOW),
  'records.approval.list': answered<approvals.ApprovalListReply>()(approvals.APPROVAL_LIST),
  'records.approval.decide': answered<approvals.ApprovalDecideReply>()(approvals.APPROVAL_DECIDE),
  'records.approval.begin': answered<approvals.ApprovalBeginReply>()(approvals.APPROVAL_BEGIN),
  'records.approval.end': answered<approvals.ApprovalEndReply>()(approvals.APPROVAL_END),
  'records.approval.due': answered<{ approvals: approvals.StoredApproval[] }>()(approvals.APPROVAL_DUE),
  'records.grant.use': answered<approvals.GrantUseReply>()(approvals.GRANT_USE),
  'identity.session.get': answered<{ session?: identity.SignInSession | undefined }>()(identity.SESSION_GET),
  'identity.session.revoke': answered<identity.SessionRevokeReply>()(identity.SESSION_REVOKE),
  'identity.session.live': answered<{ live: boolean; roles?: string[] | undefined }>()(signIn.SESSION_LIVE),
  'identity.http': answered<signIn.IdentityHttpReply>()(signIn.IDENTITY_HTTP),
  'identity.client.get': answered<signIn.ClientGetReply>()(signIn.CLIENT_GET),
  'identity.sign_out': answered<signIn.SignOutReply>()(signIn.SIGN_OUT),
  'identity.grant.find': answered<identity.GrantFindReply>()(identity.GRANT_FIND),
  'identity.grant.put': answered<{ grant_id: string }>()(identity.GRANT_PUT),
  'identity.grant.authorize': answered<{ authorization_url: string }>()(identity.GRANT_AUTHORIZE),
  'identity.grant.finish': answered<{ source: string }>()(identity.GRANT_FINISH),
  'identity.grant.list': answered<{ grants: identity.UserGrant[] }>()(identity.GRANT_LIST),
  'identity.grant.revoke': answered<{ revoked: number }>()(identity.GRANT_REVOKE),
  'identity.grant.token': answered<identity.GrantTokenReply>()(identity.GRANT_TOKEN),
  'identity.purge': answered<purge.PurgeReply>()(purge.PURGE),
};

/** A subject of `REQUESTS`. */
export type Requested = keyof typeof REQUESTS;
export type MessageOf<S extends Requested> = Value<(typeof REQUESTS)[S]['schema']>;
export type ReplyOf<S extends Requested> = NonNullable<(typeof REQUESTS)[S]['answer']>;
