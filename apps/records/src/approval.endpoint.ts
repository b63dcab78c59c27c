import { Controller } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import {
  APPROVAL_ASK,
  APPROVAL_BEGIN,
  APPROVAL_DECIDE,
  APPROVAL_DUE,
  APPROVAL_END,
  APPROVAL_LIST,
  APPROVAL_SHOW,
  type ApprovalAsk,
  type ApprovalAskReply,
  type ApprovalBegin,
  type ApprovalBeginReply,
  type ApprovalDecide,
  type ApprovalDecideReply,
  type ApprovalDue,
  type ApprovalDueReply,
  type ApprovalEnd,
  type ApprovalEndReply,
  type ApprovalList,
  type ApprovalListReply,
  type ApprovalShow,
  type ApprovalShowReply,
} from '@toolfleet/contracts/approvals';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore } from './call-store.js';

/** `records.approval.*`: calls that people decide on. Every answer comes after the commit. */
@Controller()
export class ApprovalEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
    private readonly faults: ServiceFaults,
  ) {}

  @Endpoint(SUBJECTS.approvalAsk, { schema: APPROVAL_ASK })
  ask(asked: ApprovalAsk): Promise<ApprovalAskReply> {
    if (!this.store.bodies.isOn)
      this.faults.set('secret RECORDS_SECRET_KEY', [
        'is not set: calls that need an approval are refused, because their arguments cannot be sealed',
      ]);
    return orUnavailable(this.store.approvals.ask(asked, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalShow, { schema: APPROVAL_SHOW })
  show({ call_id, with_arguments = false, of_call = false }: ApprovalShow): Promise<ApprovalShowReply> {
    return orUnavailable(this.store.approvals.show(call_id, with_arguments, of_call));
  }

  @Endpoint(SUBJECTS.approvalList, { schema: APPROVAL_LIST })
  list(query: ApprovalList): Promise<ApprovalListReply> {
    return orUnavailable(this.store.approvals.list(query));
  }

  @Endpoint(SUBJECTS.approvalDecide, { schema: APPROVAL_DECIDE })
  decide(decision: ApprovalDecide): Promise<ApprovalDecideReply> {
    return orUnavailable(this.store.approvals.decide(decision, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalBegin, { schema: APPROVAL_BEGIN })
  begin({ call_id }: ApprovalBegin): Promise<ApprovalBeginReply> {
    return orUnavailable(this.store.approvals.begin(call_id, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalEnd, { schema: APPROVAL_END })
  end(ended: ApprovalEnd): Promise<ApprovalEndReply> {
    return orUnavailable(this.store.approvals.end(ended, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalDue, { schema: APPROVAL_DUE })
  async due({ limit }: ApprovalDue): Promise<ApprovalDueReply> {
    return { approvals: await orUnavailable(this.store.approvals.due(this.clock.now(), limit)) };
  }
}

const orUnavailable = <T>(work: Promise<T>): Promise<T> =>
  work.catch((cause: unknown) => {
    if (cause instanceof ToolError) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', {
      message: 'The store of approvals is unavailable; retry later',
      cause,
    });
  });
