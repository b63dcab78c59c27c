import type { CallRequest } from '@toolfleet/contracts';
import { requirePlainId } from '@toolfleet/contracts/text';

/** Refuses ids with control characters, on every entry point. @throws ToolError REQUEST_INVALID */
export function requirePlainIds({ context, requestId, agentId, taskId, idempotencyKey }: CallRequest): void {
  requirePlainId('session_id', context.session_id);
  requirePlainId('user_id', context.user_id);
  requirePlainId('project_id', context.project_id);
  requirePlainId('request_id', requestId);
  requirePlainId('agent_id', agentId);
  requirePlainId('task_id', taskId);
  requirePlainId('idempotency_key', idempotencyKey);
}
