import type { CallContext, CallRequest } from '@toolfleet/contracts';
import type { ContextKey, RegisteredTool } from '@toolfleet/contracts/tool-definition';

/** What every session-aware tool may know, from any door. */
const SESSION_KEYS: readonly ContextKey[] = ['session_id', 'user_id'];
const NO_CONTEXT: CallContext = {};

/**
 * The part of the caller's context this tool receives: `session_id` and `user_id` for session-aware tools, other keys only
 * for internal callers and only those the definition lists. Travels beside the arguments, so the model never sees it.
 */
export function contextFor(tool: RegisteredTool, request: CallRequest): CallContext {
  const extra =
    request.origin === 'internal' ? tool.context_keys : tool.context_keys?.filter((key) => SESSION_KEYS.includes(key));
  if (!tool.session_aware && !extra?.length) return NO_CONTEXT;
  const context: CallContext = {};
  for (const key of tool.session_aware ? [...SESSION_KEYS, ...(extra ?? [])] : (extra ?? [])) {
    const value = key === 'user_id' ? userIdOf(request) : request.context[key];
    if (value !== undefined && value !== '') context[key] = value;
  }
  return context;
}

/** The user a call is made for: the authenticated one; a trusted caller may name the one it acts for. */
export function userIdOf(request: CallRequest): string {
  const named = request.context.user_id;
  const trusted = request.origin === 'internal' && typeof named === 'string' && named !== '';
  return trusted ? named : request.principal.userId;
}
