import type * as approvals from './approvals.js';
import type * as budget from './budget.js';
import type { DiscoverMessage, DiscoverReply } from './execution.js';
import type * as identity from './identity.js';
import type { PurgeMessage, PurgeReply } from './purge.js';
import type * as records from './records.js';
import type * as registry from './registry.js';
import type * as signIn from './sign-in.js';
import { SUBJECTS } from '../subjects.js';
import type * as toolsets from '../toolset.js';

/**
 * Requests between services: the message of each subject, and its answer. The compiler holds both sides to it: `NatsClient.request`
 * and the methods with `@Endpoint`. Calls of tools (`tool.*`, `exec.*`) and subjects that begin with a prefix have no row.
 */
interface Requests {
  [SUBJECTS.definitionGet]: [registry.DefinitionGet, registry.DefinitionGetReply];
  [SUBJECTS.definitionList]: [registry.DefinitionList, registry.DefinitionListReply];
  [SUBJECTS.definitionRetire]: [registry.DefinitionRetire, { removed: string[] }];
  [SUBJECTS.toolsetGet]: [toolsets.ToolsetGet, { toolset: toolsets.ServedToolset | null }];
  [SUBJECTS.registryPurge]: [PurgeMessage, PurgeReply];
  [SUBJECTS.execMcpDiscover]: [DiscoverMessage, DiscoverReply];
  [SUBJECTS.workspacePurge]: [PurgeMessage, PurgeReply];
  [SUBJECTS.budgetReserve]: [budget.BudgetReserve, budget.BudgetReserveReply];
  [SUBJECTS.budgetSettle]: [budget.BudgetSettle, budget.BudgetSettleReply];
  [SUBJECTS.budgetRelease]: [budget.BudgetRelease, { released: number }];
  [SUBJECTS.budgetUsage]: [budget.BudgetUsage, budget.BudgetUsageReply];
  [SUBJECTS.budgetLimits]: [budget.BudgetLimits, budget.BudgetLimitsReply];
  [SUBJECTS.budgetSet]: [budget.BudgetSet, budget.BudgetSetReply];
  [SUBJECTS.budgetRemove]: [budget.BudgetRemove, { removed: boolean }];
  [SUBJECTS.budgetPurge]: [PurgeMessage, PurgeReply];
  [SUBJECTS.recordsAppend]: [records.RecordsAppend, records.RecordsAppendReply];
  [SUBJECTS.recordsList]: [records.RecordsList, records.RecordsListReply];
  [SUBJECTS.recordsBody]: [records.RecordsBody, records.RecordsBodyReply];
  [SUBJECTS.recordsFacts]: [records.RecordsFacts, records.RecordsFactsReply];
  [SUBJECTS.recordsPurge]: [PurgeMessage, PurgeReply];
  [SUBJECTS.approvalAsk]: [approvals.ApprovalAsk, approvals.ApprovalAskReply];
  [SUBJECTS.approvalShow]: [approvals.ApprovalShow, approvals.ApprovalShowReply];
  [SUBJECTS.approvalList]: [approvals.ApprovalList, approvals.ApprovalListReply];
  [SUBJECTS.approvalDecide]: [approvals.ApprovalDecide, approvals.ApprovalDecideReply];
  [SUBJECTS.approvalBegin]: [approvals.ApprovalBegin, approvals.ApprovalBeginReply];
  [SUBJECTS.approvalEnd]: [approvals.ApprovalEnd, approvals.ApprovalEndReply];
  [SUBJECTS.approvalDue]: [approvals.ApprovalDue, approvals.ApprovalDueReply];
  [SUBJECTS.approvalGrantUse]: [approvals.GrantUse, approvals.GrantUseReply];
  [SUBJECTS.sessionGet]: [identity.SessionGet, { session?: identity.SignInSession | undefined }];
  [SUBJECTS.sessionRevoke]: [identity.SessionRevoke, identity.SessionRevokeReply];
  [SUBJECTS.sessionLive]: [signIn.SessionLive, { live: boolean; roles?: string[] | undefined }];
  [SUBJECTS.identityHttp]: [signIn.IdentityHttp, signIn.IdentityHttpReply];
  [SUBJECTS.identityClientGet]: [signIn.ClientGet, signIn.ClientGetReply];
  [SUBJECTS.identitySignOut]: [signIn.SignOut, signIn.SignOutReply];
  [SUBJECTS.grantFind]: [identity.GrantFind, identity.GrantFindReply];
  [SUBJECTS.grantPut]: [identity.GrantPut, { grant_id: string }];
  [SUBJECTS.grantAuthorize]: [identity.GrantAuthorize, { authorization_url: string }];
  [SUBJECTS.grantFinish]: [identity.GrantFinish, { source: string }];
  [SUBJECTS.grantList]: [identity.GrantList, identity.GrantListReply];
  [SUBJECTS.grantRevoke]: [identity.GrantRevoke, identity.GrantRevokeReply];
  [SUBJECTS.grantToken]: [identity.GrantToken, identity.GrantTokenReply];
  [SUBJECTS.identityPurge]: [PurgeMessage, PurgeReply];
}

/** A subject of `Requests`. */
export type Requested = keyof Requests;
export type MessageOf<S extends Requested> = Requests[S][0];
export type ReplyOf<S extends Requested> = Requests[S][1];
