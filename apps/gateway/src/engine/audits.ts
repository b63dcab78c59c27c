import { Audit, type AuditRecord } from '@toolfleet/engine';

/** Several audits as one: each hears of every call, in the order given. */
export class Audits extends Audit {
  constructor(private readonly audits: readonly Audit[]) {
    super();
  }

  override finished(record: AuditRecord): void {
    for (const audit of this.audits) audit.finished(record);
  }

  override retrying(event: Parameters<Audit['retrying']>[0]): void {
    for (const audit of this.audits) audit.retrying(event);
  }
}
