import { Controller } from '@nestjs/common';
import {
  APPROVAL_ASK,
  APPROVAL_BEGIN,
  APPROVAL_DECIDE,
  APPROVAL_DUE,
  APPROVAL_END,
  APPROVAL_LIST,
  APPROVAL_SHOW,
  GRANT_USE,
  type ApprovalAsk,
  type ApprovalBegin,
  type ApprovalDecide,
  type ApprovalDue,
  type ApprovalEnd,
  type ApprovalList,
  type ApprovalShow,
  type GrantUse,
} from '@toolfleet/contracts/approvals';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore } from './call-store.js';

const unavailable = 'The store of approvals is unavailable; retry later';

/** `records.approval.*` and `records.grant.use`: calls that people decide on. Every answer comes after the commit. */
@Controller()
export class ApprovalEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
    private readonly faults: ServiceFaults,
  ) {}

  @Endpoint(SUBJECTS.approvalAsk, { schema: APPROVAL_ASK, unavailable })
  ask(asked: ApprovalAsk) {
    if (!this.store.bodies.isOn)
      this.faults.set('secret RECORDS_SECRET_KEY', [
        'is not set: calls that need an approval are refused, because their arguments cannot be sealed',
      ]);
    return this.store.approvals.ask(asked, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalShow, { schema: APPROVAL_SHOW, unavailable })
  show({ call_id, with_arguments = false, of_call = false }: ApprovalShow) {
    return this.store.approvals.show(call_id, with_arguments, of_call);
  }

  @Endpoint(SUBJECTS.approvalList, { schema: APPROVAL_LIST, unavailable })
  list(query: ApprovalList) {
    return this.store.approvals.list(query);
  }

  @Endpoint(SUBJECTS.approvalDecide, { schema: APPROVAL_DECIDE, unavailable })
  decide(decision: ApprovalDecide) {
    return this.store.approvals.decide(decision, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalBegin, { schema: APPROVAL_BEGIN, unavailable })
  begin({ call_id }: ApprovalBegin) {
    return this.store.approvals.begin(call_id, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalEnd, { schema: APPROVAL_END, unavailable })
  end(ended: ApprovalEnd) {
    return this.store.approvals.end(ended, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalDue, { schema: APPROVAL_DUE, unavailable })
  async due({ limit }: ApprovalDue) {
    return { approvals: await this.store.approvals.due(this.clock.now(), limit) };
  }

  @Endpoint(SUBJECTS.approvalGrantUse, { schema: GRANT_USE, unavailable })
  useGrant(asked: GrantUse) {
    return this.store.grants.use(asked, this.clock.now());
  }
}
