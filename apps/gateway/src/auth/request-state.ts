import { createHash } from 'node:crypto';
import { type EpochMs, isJsonObject, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { SignedTokens } from './signed-token.js';

/** What an MCP `requestState` is bound to: shown by another caller, for another tool or other arguments, it is refused. */
export interface StateBinding {
  principal: Principal;
  tool: string;
  arguments: JsonObject;
}

/** Signs the state of a call that waits for its caller (MCP `input_required`); the caller sends it back with the answer. */
export function sealRequestState(
  tokens: SignedTokens,
  binding: StateBinding,
  state: JsonObject,
  expiresAt: EpochMs,
): string {
  return tokens.sign('request_state', { b: bindingHash(binding), s: state }, expiresAt);
}

/** The state, or null when it is forged, expired, or was made for another caller, tool or arguments. */
export function openRequestState(tokens: SignedTokens, binding: StateBinding, token: string): JsonObject | null {
  const payload = tokens.open('request_state', token);
  if (!payload || payload['b'] !== bindingHash(binding)) return null;
  const state = payload['s'];
  return isJsonObject(state) ? state : null;
}

function bindingHash({ principal, tool, arguments: args }: StateBinding): string {
  const bound = [principal.tenantId, principal.userId, tool, sorted(args)];
  return createHash('sha256').update(JSON.stringify(bound)).digest('base64url');
}

/** Objects become sorted entry lists: the order of keys in a repeated request must not matter. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return ['a', ...value.map(sorted)];
  if (!isJsonObject(value)) return value;
  const entries = Object.keys(value)
    .toSorted()
    .map((key): Json => [key, sorted(value[key] as Json)]);
  return ['o', ...entries];
}
