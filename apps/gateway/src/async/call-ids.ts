import { ToolError, type CallRequest } from '@toolfleet/contracts';
import { hasUnsafeCharacters } from '@toolfleet/contracts/text';
import type { ExecuteCall } from '@toolfleet/engine';

/** Ids become parts of store keys, log lines and ledger rows. @throws ToolError REQUEST_INVALID when one has control characters */
export function requirePlainId(name: string, id: unknown): void {
  if (typeof id !== 'string' || !hasUnsafeCharacters(id)) return;
  throw new ToolError('REQUEST_INVALID', {
    message: `${name} must not contain control characters`,
    details: { fields: [name] },
  });
}

/** The same calls, refused with REQUEST_INVALID when an id that the caller chose has control characters, on every entry point. */
export function withPlainIds(executeCall: ExecuteCall): ExecuteCall {
  return async (request) => {
    requirePlainIds(request);
    return executeCall(request);
  };
}

function requirePlainIds({ context, requestId, agentId, taskId, idempotencyKey }: CallRequest): void {
  requirePlainId('session_id', context.session_id);
  requirePlainId('user_id', context.user_id);
  requirePlainId('project_id', context.project_id);
  requirePlainId('request_id', requestId);
  requirePlainId('agent_id', agentId);
  requirePlainId('task_id', taskId);
  requirePlainId('idempotency_key', idempotencyKey);
}
