import { Controller } from '@nestjs/common';
import {
  GRANT_LIST,
  GRANT_REVOKE,
  GRANT_SHOW,
  GRANT_USE,
  type GrantList,
  type GrantListReply,
  type GrantRevoke,
  type GrantRevokeReply,
  type GrantShow,
  type GrantShowReply,
  type GrantUse,
  type GrantUseReply,
} from '@toolfleet/contracts/approval-grants';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore } from './call-store.js';
import { orUnavailable } from './store-unavailable.js';

/** `records.grant.*`: what people allow besides the calls that they approved. Every answer comes after the commit. */
@Controller()
export class ApprovalGrantEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
  ) {}

  @Endpoint(SUBJECTS.approvalGrantUse, { schema: GRANT_USE })
  use(asked: GrantUse): Promise<GrantUseReply> {
    return orUnavailable(this.store.grants.use(asked, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalGrantList, { schema: GRANT_LIST })
  list(query: GrantList): Promise<GrantListReply> {
    return orUnavailable(this.store.grants.list(query, this.clock.now()));
  }

  @Endpoint(SUBJECTS.approvalGrantShow, { schema: GRANT_SHOW })
  show({ grant_id, with_arguments = false }: GrantShow): Promise<GrantShowReply> {
    return orUnavailable(this.store.grants.show(grant_id, with_arguments));
  }

  @Endpoint(SUBJECTS.approvalGrantRevoke, { schema: GRANT_REVOKE })
  revoke(revocation: GrantRevoke): Promise<GrantRevokeReply> {
    return orUnavailable(this.store.grants.revoke(revocation, this.clock.now()));
  }
}
