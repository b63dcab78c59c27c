/** State of a call that a 2026 client repeats. Nothing is stored meanwhile: it travels sealed in `requestState`. */
import { openRequestState, sealRequestState, type SignedTokens } from '@toolfleet/access';
import type { Approval, CallRequest, CallReuse, JsonObject, Principal, RequiredInput } from '@toolfleet/contracts';
import { ANSWER_MS } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';

/** A call that keeps its id, its idempotency key and approved questions. */
interface ParkedMcpCall {
  call: string;
  key?: string | undefined;
  approved?: Approval | undefined;
}

/** The reason for which a call waits: an approval, an account of its user, or input for the server of its tool. */
export type WaitingState =
  | { asked: readonly string[]; revision: string; id: string }
  | { connect: ParkedMcpCall & { source: string } }
  | { input: ParkedMcpCall & Pick<RequiredInput, 'revision' | 'state' | 'task' | 'executor'> };

export const toWaiting = ({ callId, reuse, approval }: CallRequest): ParkedMcpCall => ({
  call: callId,
  key: reuse.idempotencyKey,
  approved: approval?.given,
});

/** How the request goes on. */
export function fromWaiting(
  { call: callId, key, approved }: ParkedMcpCall,
  reuse: CallReuse,
): Partial<CallRequest> & { reuse: CallReuse } {
  return {
    callId,
    ...(approved && { approval: { asks: true, given: approved } }),
    reuse: key === undefined ? reuse : { ...reuse, idempotencyKey: key },
  };
}

/** The call that a state belongs to: the state of one call is not valid for any other. */
export interface CallBinding {
  principal: Principal;
  tool: string;
  arguments: JsonObject;
}

/** Seals the state of a waiting call, bound to the caller, its toolset, the tool and the arguments. */
export interface WaitingStates {
  seal(binding: CallBinding, state: WaitingState): string;
  /** Null when the token is forged or expired, or was made for another caller, toolset, tool or arguments. */
  open(binding: CallBinding, token: string): WaitingState | null;
}

/** States with the keys of a fleet, valid as long as a person may take to answer. */
export const sealedStates = (tokens: SignedTokens, clock: Clock): WaitingStates => ({
  seal: (binding, state) => sealRequestState(tokens, binding, state, clock.now() + ANSWER_MS),
  // The seal proves that `seal` wrote it.
  open: (binding, token) => openRequestState(tokens, binding, token) as WaitingState | null,
});
