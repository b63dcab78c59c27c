import { isToolError, ToolError } from '@toolfleet/contracts';
import type {
  GrantList,
  GrantListReply,
  GrantRevoke,
  GrantRevokeReply,
  GrantShow,
  GrantShowReply,
  GrantUse,
  GrantUseReply,
} from '@toolfleet/contracts/approval-grants';
import type {
  ApprovalAsk,
  ApprovalAskReply,
  ApprovalBeginReply,
  ApprovalDecide,
  ApprovalDecideReply,
  ApprovalDue,
  ApprovalDueReply,
  ApprovalEnd,
  ApprovalEndReply,
  ApprovalList,
  ApprovalListReply,
  ApprovalShow,
  ApprovalShowReply,
} from '@toolfleet/contracts/approvals';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';

const TIMEOUT_MS = 10_000;
/** Answers of the service about the request itself; every other error says that it is unavailable. */
const ANSWERS: readonly string[] = ['CALL_IN_PROGRESS', 'IDEMPOTENCY_MISMATCH', 'QUEUE_FULL', 'PAYLOAD_TOO_LARGE'];

/**
 * The record of approvals in the service `records`, over NATS.
 * @throws ToolError SERVICE_UNAVAILABLE: nothing was stored, or it is not known; and the answers of each request
 */
export class NatsApprovalRecords {
  constructor(private readonly nats: Pick<NatsClient, 'request'>) {}

  ask(asked: ApprovalAsk): Promise<ApprovalAskReply> {
    return this.#request(SUBJECTS.approvalAsk, asked);
  }

  show(question: ApprovalShow): Promise<ApprovalShowReply> {
    return this.#request(SUBJECTS.approvalShow, question);
  }

  list(query: ApprovalList): Promise<ApprovalListReply> {
    return this.#request(SUBJECTS.approvalList, query);
  }

  decide(decision: ApprovalDecide): Promise<ApprovalDecideReply> {
    return this.#request(SUBJECTS.approvalDecide, decision);
  }

  begin(callId: string): Promise<ApprovalBeginReply> {
    return this.#request(SUBJECTS.approvalBegin, { call_id: callId });
  }

  end(ended: ApprovalEnd): Promise<ApprovalEndReply> {
    return this.#request(SUBJECTS.approvalEnd, ended);
  }

  due(wanted: ApprovalDue): Promise<ApprovalDueReply> {
    return this.#request(SUBJECTS.approvalDue, wanted);
  }

  useGrant(asked: GrantUse): Promise<GrantUseReply> {
    return this.#request(SUBJECTS.approvalGrantUse, asked);
  }

  listGrants(query: GrantList): Promise<GrantListReply> {
    return this.#request(SUBJECTS.approvalGrantList, query);
  }

  showGrant(question: GrantShow): Promise<GrantShowReply> {
    return this.#request(SUBJECTS.approvalGrantShow, question);
  }

  revokeGrant(revocation: GrantRevoke): Promise<GrantRevokeReply> {
    return this.#request(SUBJECTS.approvalGrantRevoke, revocation);
  }

  #request<T>(subject: string, message: object): Promise<T> {
    return this.nats.request<T>(subject, message, { timeoutMs: TIMEOUT_MS }).catch((cause: unknown) => {
      if (isToolError(cause) && ANSWERS.includes(cause.code)) throw cause;
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The record of approvals is unavailable, and nothing was run; retry later',
        facts: isToolError(cause) && cause.facts?.noResponders ? { noResponders: true } : undefined,
        cause,
      });
    });
  }
}
