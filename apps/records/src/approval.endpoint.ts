import { Controller } from '@nestjs/common';
import type {
  ApprovalAsk,
  ApprovalBegin,
  ApprovalDecide,
  ApprovalDue,
  ApprovalEnd,
  ApprovalList,
  ApprovalShow,
  GrantUse,
} from '@toolfleet/contracts/approvals';
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

  @Endpoint('records.approval.ask', { unavailable })
  ask(asked: ApprovalAsk) {
    if (!this.store.bodies.isOn)
      this.faults.set('secret RECORDS_SECRET_KEY', [
        'is not set: calls that need an approval are refused, because their arguments cannot be sealed',
      ]);
    return this.store.approvals.ask(asked, this.clock.now());
  }

  @Endpoint('records.approval.show', { unavailable })
  show({ call_id, with_arguments = false, of_call = false }: ApprovalShow) {
    return this.store.approvals.show(call_id, with_arguments, of_call);
  }

  @Endpoint('records.approval.list', { unavailable })
  list(query: ApprovalList) {
    return this.store.approvals.list(query);
  }

  @Endpoint('records.approval.decide', { unavailable })
  decide(decision: ApprovalDecide) {
    return this.store.approvals.decide(decision, this.clock.now());
  }

  @Endpoint('records.approval.begin', { unavailable })
  begin({ call_id }: ApprovalBegin) {
    return this.store.approvals.begin(call_id, this.clock.now());
  }

  @Endpoint('records.approval.end', { unavailable })
  end(ended: ApprovalEnd) {
    return this.store.approvals.end(ended, this.clock.now());
  }

  @Endpoint('records.approval.due', { unavailable })
  async due({ limit }: ApprovalDue) {
    return { approvals: await this.store.approvals.due(this.clock.now(), limit) };
  }

  @Endpoint('records.grant.use', { unavailable })
  useGrant(asked: GrantUse) {
    return this.store.grants.use(asked, this.clock.now());
  }
}
