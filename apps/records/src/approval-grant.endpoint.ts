import { Controller } from '@nestjs/common';
import {
  GRANT_LIST,
  GRANT_REVOKE,
  GRANT_SHOW,
  GRANT_USE,
  type GrantList,
  type GrantRevoke,
  type GrantShow,
  type GrantUse,
} from '@toolfleet/contracts/approval-grants';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore } from './call-store.js';
import { STORE_UNAVAILABLE } from './store-unavailable.js';

/** `records.grant.*`: what people allow besides the calls that they approved. Every answer comes after the commit. */
@Controller()
export class ApprovalGrantEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
  ) {}

  @Endpoint(SUBJECTS.approvalGrantUse, { schema: GRANT_USE, unavailable: STORE_UNAVAILABLE })
  use(asked: GrantUse) {
    return this.store.grants.use(asked, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalGrantList, { schema: GRANT_LIST, unavailable: STORE_UNAVAILABLE })
  list(query: GrantList) {
    return this.store.grants.list(query, this.clock.now());
  }

  @Endpoint(SUBJECTS.approvalGrantShow, { schema: GRANT_SHOW, unavailable: STORE_UNAVAILABLE })
  show({ grant_id, with_arguments = false }: GrantShow) {
    return this.store.grants.show(grant_id, with_arguments);
  }

  @Endpoint(SUBJECTS.approvalGrantRevoke, { schema: GRANT_REVOKE, unavailable: STORE_UNAVAILABLE })
  revoke(revocation: GrantRevoke) {
    return this.store.grants.revoke(revocation, this.clock.now());
  }
}
