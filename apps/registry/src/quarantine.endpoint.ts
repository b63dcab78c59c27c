import { Controller } from '@nestjs/common';
import {
  QUARANTINE_APPROVE,
  QUARANTINE_LIST,
  QUARANTINE_REJECT,
  type QuarantineApprove,
  type QuarantineApproveReply,
  type QuarantineList,
  type QuarantineListReply,
  type QuarantineReject,
  type QuarantineRejectReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { QuarantineService } from './quarantine.js';

/** `registry.quarantine.*`; the gateway admits administrators only. */
@Controller()
export class QuarantineEndpoint {
  constructor(private readonly quarantine: QuarantineService) {}

  @Endpoint(SUBJECTS.quarantineList, { schema: QUARANTINE_LIST })
  async list(query: QuarantineList | null | undefined): Promise<QuarantineListReply> {
    return { tools: await this.quarantine.list(query?.source) };
  }

  @Endpoint(SUBJECTS.quarantineApprove, { schema: QUARANTINE_APPROVE })
  async approve({ name, pending_revision, approved_by }: QuarantineApprove): Promise<QuarantineApproveReply> {
    return { name, revision: await this.quarantine.approve(name, pending_revision, approved_by) };
  }

  @Endpoint(SUBJECTS.quarantineReject, { schema: QUARANTINE_REJECT })
  async reject({ name, pending_revision, rejected_by }: QuarantineReject): Promise<QuarantineRejectReply> {
    await this.quarantine.reject(name, pending_revision, rejected_by);
    return { name };
  }
}
