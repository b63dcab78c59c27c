import type { AuditRecord } from '@toolfleet/engine';
import { withoutArguments } from './without-arguments.js';

const masked = new WeakMap<AuditRecord, string>();

/** The message of a failed call without what its caller had sent; worked out once for all who show it. */
export function maskedErrorOf(record: AuditRecord): string | null {
  if (record.error === undefined) return null;
  let text = masked.get(record);
  if (text === undefined) {
    text = withoutArguments(record.error, record.call.request.rawArguments);
    masked.set(record, text);
  }
  return text;
}
