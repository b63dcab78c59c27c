import { Controller } from '@nestjs/common';
import type { QuarantineApproveReply, QuarantineListReply, QuarantineRejectReply } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { readApprove, readQuarantineList, readReject } from './messages.js';
import { QuarantineService } from './quarantine.js';

/** `registry.quarantine.*`; the gateway admits administrators only. */
@Controller()
export class QuarantineEndpoint {
  constructor(private readonly quarantine: QuarantineService) {}

  @Endpoint(SUBJECTS.quarantineList)
  async list(body: unknown): Promise<QuarantineListReply> {
    return { tools: await this.quarantine.list(readQuarantineList(body).source) };
  }

  @Endpoint(SUBJECTS.quarantineApprove)
  async approve(body: unknown): Promise<QuarantineApproveReply> {
    const { name, pending_revision, approved_by } = readApprove(body);
    return { name, revision: await this.quarantine.approve(name, pending_revision, approved_by) };
  }

  @Endpoint(SUBJECTS.quarantineReject)
  async reject(body: unknown): Promise<QuarantineRejectReply> {
    const { name, pending_revision, rejected_by } = readReject(body);
    await this.quarantine.reject(name, pending_revision, rejected_by);
    return { name };
  }
}
