import type { AuditRecord } from '@toolfleet/engine';
import { redactArguments } from './redact-arguments.js';

const masked = new WeakMap<AuditRecord, string>();

/** The message of a failed call without what its caller had sent; worked out once for all who show it. */
export function redactedError(record: AuditRecord): string | null {
  if (record.error === undefined) return null;
  let text = masked.get(record);
  if (text === undefined) {
    text = redactArguments(record.error, record.call.request.rawArguments);
    masked.set(record, text);
  }
  return text;
}
