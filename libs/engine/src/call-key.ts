import type { CallRequest, JsonObject, RegisteredTool } from '@toolfleet/contracts';
import { fingerprint } from '@toolfleet/schema';
import type { Call } from './call.js';
import { userIdOf } from './inject-context.js';

/**
 * Identity of a call for cache, coalescing and dedupe: tenant + tool + revision + canonical arguments, + session where the
 * tool is session-aware. Nothing of one tenant can be found by another.
 */
export function callKey(call: Pick<Call, 'seen' | 'request' | 'tool' | 'arguments'>): string {
  return (call.seen.key ??= keyOf(call.request, call.tool, call.arguments));
}

function keyOf(request: CallRequest, tool: RegisteredTool, args: JsonObject): string {
  const session = tool.session_aware ? [request.context.session_id ?? null, userIdOf(request)] : [];
  return fingerprint([request.principal.tenantId, tool.name, tool.revision, args, ...session]);
}

/** Fingerprint of an idempotency key: no revision, so that a redeploy does not turn a replay into a mismatch. */
export function idempotencyFingerprint(tool: RegisteredTool, args: JsonObject): string {
  return fingerprint({ tool: tool.name, arguments: args });
}
