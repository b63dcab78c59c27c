import { Controller } from '@nestjs/common';
import type { QuarantineApproveReply, QuarantineListReply, QuarantineRejectReply } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Logger } from '@toolfleet/telemetry';
import { Endpoint } from '@toolfleet/transport';
import { Catalog } from './catalog.js';
import { readApprove, readQuarantineList, readReject } from './messages.js';
import { PinPolicy } from './pin-policy.js';
import { Registrar } from './registrar.js';
import { ownerOf } from './tool-key.js';

/** A changed document can hold hundreds of tools; their differences stay below the payload limit of NATS (16 MB). */
const MOST_DIFF_CHARS = 4 * 1024 * 1024;

/** The log, by injection. */
export class AuditLog {
  constructor(readonly logger: Logger) {}
}

/** Remote tools that changed after their approval, and the approving and rejecting of them. Who may call this is the gateway's to check. */
@Controller()
export class QuarantineEndpoint {
  constructor(
    private readonly catalog: Catalog,
    private readonly registrar: Registrar,
    private readonly pins: PinPolicy,
    private readonly audit: AuditLog,
  ) {}

  @Endpoint(SUBJECTS.quarantineList)
  async list(body: unknown): Promise<QuarantineListReply> {
    const { source } = readQuarantineList(body);
    await this.catalog.refresh();
    const owner = source && ownerOf(source);
    const tools = this.catalog.quarantined().filter((tool) => owner === undefined || tool.owner === owner);
    let left = MOST_DIFF_CHARS;
    return {
      tools: tools.flatMap(({ key, definition, revision, quarantine }) => {
        if (!quarantine) return [];
        const approved = quarantine.wasApproved ? definition : undefined;
        const diff = left > 0 ? this.pins.diff(approved, quarantine.pending) : [];
        left -= JSON.stringify(diff).length;
        const isOmitted = left <= 0;
        return [
          {
            name: key,
            source: definition.source,
            reason: quarantine.reason,
            since_at: quarantine.sinceAt,
            pending_revision: quarantine.pendingRevision,
            approved_revision: approved ? revision : null,
            ...(quarantine.rejected ? { rejected: quarantine.rejected } : {}),
            diff: isOmitted ? [] : diff,
            ...(isOmitted ? { diff_omitted: true as const } : {}),
          },
        ];
      }),
    };
  }

  @Endpoint(SUBJECTS.quarantineApprove)
  async approve(body: unknown): Promise<QuarantineApproveReply> {
    const { name, pending_revision, approved_by } = readApprove(body);
    const approved = await this.registrar.approve(name, pending_revision);
    this.audit.logger.warn({ tool: name, revision: approved.revision, approved_by }, 'a quarantined tool was approved');
    return { name, revision: approved.revision };
  }

  @Endpoint(SUBJECTS.quarantineReject)
  async reject(body: unknown): Promise<QuarantineRejectReply> {
    const { name, pending_revision, rejected_by } = readReject(body);
    await this.registrar.reject(name, pending_revision, rejected_by);
    this.audit.logger.warn(
      { tool: name, revision: pending_revision, rejected_by },
      'a quarantined tool was rejected and stays out',
    );
    return { name };
  }
}
