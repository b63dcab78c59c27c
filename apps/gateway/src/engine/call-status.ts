import { CATALOGUE } from '@toolfleet/contracts';
import type { AuditRecord } from '@toolfleet/engine';

/** How a call ended: `refused` before its tool ran, `tool_error` by the tool, `system_error` by the fleet itself. */
export type CallStatus = 'success' | 'tool_error' | 'refused' | 'system_error';

/** Codes that are the fleet's own fault: they use up the error budget. */
const SYSTEM_CODES = new Set([
  'INTERNAL',
  'EXECUTOR_UNAVAILABLE',
  'QUEUE_FULL',
  'BUDGET_UNAVAILABLE',
  'SERVICE_UNAVAILABLE',
  'DEADLINE_EXCEEDED',
  'WORKER_LOST',
  'OUTCOME_UNKNOWN',
]);

/** Status of a finished call, as metrics and operators' views name it. */
export function callStatusOf({ ok, code }: Pick<AuditRecord, 'ok' | 'code'>): CallStatus {
  if (ok || code === undefined) return ok ? 'success' : 'tool_error';
  if (SYSTEM_CODES.has(code)) return 'system_error';
  return CATALOGUE[code].origin === 'request' ? 'refused' : 'tool_error';
}
