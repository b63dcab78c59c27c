import { isToolError, ToolError, type CallResult } from '@toolfleet/contracts';
import type { KeyedCall } from '@toolfleet/journal';
import { ownsCall } from '../access.js';
import type { Call } from '../call.js';
import { step, type Step, type Next } from '../step.js';
import { withCharge } from '../charge.js';
import type { EnginePorts } from '../ports.js';

const MAX_KEY_CHARS = 255;
/** How often a duplicate that waits for the first call looks it up. */
const POLL_MS = 50;

/**
 * Replays the first outcome of an idempotency key, before anything is counted or charged. An unused key passes; the journal step
 * stores it right before the first attempt, so refused calls store nothing.
 * @throws ToolError REQUEST_INVALID for a key of the wrong length, SERVICE_UNAVAILABLE without the journal, and as
 *   `answerDuplicate`
 */
export function idempotencyKey(ports: Pick<EnginePorts, 'journal' | 'clock'>): Step {
  return step('idempotency key', (next) => (call) => {
    const { idempotencyKey: key } = call.request.reuse;
    return key === undefined ? next(call) : replayOrRun(ports, call, key, next);
  });
}

async function replayOrRun(
  ports: Pick<EnginePorts, 'journal' | 'clock'>,
  call: Call,
  key: string,
  next: Next,
): Promise<CallResult> {
  if (key === '' || key.length > MAX_KEY_CHARS) {
    throw new ToolError('REQUEST_INVALID', { message: `idempotency_key must have 1 to ${MAX_KEY_CHARS} characters` });
  }
  const { identity } = call;
  const { tenantId } = call.request.principal;
  const found = ports.journal.find(tenantId, identity.idempotencyKey, identity.fingerprint);
  const known = await found.catch((cause: unknown) => {
    if (isToolError(cause)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', {
      message: 'The call journal is unavailable; nothing was run',
      cause,
    });
  });
  // A job that runs again holds its own key: the journal step decides how it goes on.
  const isOwn = known.kind === 'running' && known.callId === call.callId;
  if (known.kind === 'unknown' || isOwn) return next(call);
  return (await answerDuplicate(ports, call, known)) ?? next(call);
}

/**
 * Answers a call with a taken key with the stored outcome, at once or within the time of `Prefer: wait`; undefined when the key is free
 * again, because the first call was withdrawn before its effect, or its gateway was lost.
 * @throws ToolError IDEMPOTENCY_MISMATCH (422), CALL_IN_PROGRESS (409 + Retry-After)
 */
export async function answerDuplicate(
  ports: Pick<EnginePorts, 'journal' | 'clock'>,
  call: Call,
  first: Exclude<KeyedCall, { kind: 'unknown' }>,
): Promise<CallResult | undefined> {
  const { tenantId } = call.request.principal;
  const waitUntil =
    ports.clock.monotonic() + Math.min(call.request.reuse.idempotencyWaitMs ?? 0, call.deadline.remainingMs());
  let known: KeyedCall = first;
  while (known.kind === 'running' && ports.clock.monotonic() + POLL_MS <= waitUntil) {
    await ports.clock.sleep(POLL_MS, call.signal);
    known = await ports.journal.find(tenantId, call.identity.idempotencyKey, call.identity.fingerprint);
  }
  switch (known.kind) {
    case 'finished':
      requireOwn(call, known);
      return toReplay(call, known.outcome, known.callId);
    case 'mismatch':
      throw new ToolError('IDEMPOTENCY_MISMATCH', {
        message: 'This idempotency key was used with another tool, other arguments or another context',
        details: { first_call_id: known.callId },
      });
    case 'running':
      throw new ToolError('CALL_IN_PROGRESS', {
        details: { first_call_id: known.callId },
        retryAfterMs: known.retryAfterMs,
      });
    case 'unknown':
      return undefined;
  }
}

/**
 * Keys of one user share its idempotency keys, so that a call is not repeated with the next key of a client; the outcome is for the key
 * that made the first call, and for the user (`ownsCall`).
 * @throws ToolError IDEMPOTENCY_MISMATCH
 */
function requireOwn(
  { request: { principal } }: Call,
  { callId, maker, userId }: Extract<KeyedCall, { kind: 'finished' }>,
): void {
  // A call that was lost before the journal knew its maker has no result to protect.
  if (maker === undefined || ownsCall(principal, { tenantId: principal.tenantId, maker, userId })) return;
  throw new ToolError('IDEMPOTENCY_MISMATCH', {
    message: 'Another key of this user made the first call with this idempotency key; its result is for that key',
    details: { first_call_id: callId },
  });
}

/** The outcome of the first call, with its charge, marked as such. An outcome that its executor stored has no charge yet. */
function toReplay(call: Call, outcome: CallResult, firstCallId: string): CallResult {
  return { ...withCharge(call, outcome), replayOf: firstCallId };
}
