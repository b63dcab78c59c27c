import type { CallStatus } from '@toolfleet/contracts/fleet';
import type { AuditRecord } from './ports.js';
import { CATALOGUE } from '@toolfleet/contracts';
import { toCancellation } from './deadline.js';

/**
 * The status of a finished call, as metrics and operator views show it. A call that its caller cancelled is `cancelled`, even
 * if it may have taken effect before (OUTCOME_UNKNOWN), because the fleet did not fail.
 */
export function toCallStatus({
  ok,
  code,
  call,
  isExecutorFault,
  isToolFault,
}: Pick<AuditRecord, 'ok' | 'code' | 'call' | 'isExecutorFault' | 'isToolFault'>): CallStatus {
  if (ok || code === undefined) return ok ? 'success' : 'tool_error';
  if (code === 'CANCELLED') return 'cancelled';
  if (code === 'OUTCOME_UNKNOWN' && wasCancelled(call.request.signal)) return 'cancelled';
  if (isToolFault) return 'tool_error';
  if (code === 'DEADLINE_EXCEEDED' && isOwnDeadline(call)) return 'refused';
  const { blame, origin } = CATALOGUE[code];
  if (isExecutorFault || blame === 'executor' || blame === 'fleet') return 'system_error';
  return origin === 'request' ? 'refused' : 'tool_error';
}

/** Whether the caller gave its call less time than the tool has, or its time passed before the tool was found. The fleet did not fail then. */
const isOwnDeadline = ({ request, tool }: AuditRecord['call']): boolean =>
  (request.limits.timeoutMs ?? Infinity) < (tool?.timeout_seconds ?? Infinity) * 1_000;

const wasCancelled = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && toCancellation(reason).code === 'CANCELLED';
