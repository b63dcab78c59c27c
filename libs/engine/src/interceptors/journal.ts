import { ToolError, type CallResult, type CallState } from '@toolfleet/contracts';
import { idempotencyFingerprint } from '../call-key.js';
import type { Call, Interceptor } from '../call.js';
import { failed } from '../outcome.js';
import type { EnginePorts } from '../ports.js';
import { answerDuplicate } from './idempotency.js';

/**
 * Failures after which the gateway does not know whether the effect began: it asks the journal. All others are answers
 * of the executor, so the outcome is known.
 */
const UNCERTAIN = new Set([
  'ATTEMPT_TIMED_OUT',
  'CANCELLED',
  'EXECUTOR_UNAVAILABLE',
  'WORKER_LOST',
  'INTERNAL',
  'SERVICE_UNAVAILABLE',
]);
/** A journal that does not answer must not hold the caller back: D of reliability.md allows 250 ms past the deadline. */
const JOURNAL_PATIENCE_MS = 200;

/**
 * Enters calls whose effect must not begin twice, right before the hop (reliability.md 1.2): tools that are not idempotent
 * and calls with an idempotency key. The executor claims with the fence; a claim without an outcome ends as
 * OUTCOME_UNKNOWN and is never run again. Other calls never touch the journal.
 */
export function journal(ports: Pick<EnginePorts, 'journal' | 'clock'>): Interceptor {
  return async (call, next) => {
    if (call.plan.idempotent && call.request.idempotencyKey === undefined) return next(call);
    const entered = call.attempt === 1 ? await enter(ports, call) : await ports.journal.bump(call.callId);
    if ('refused' in entered) return failed(unknownOutcome(call, entered.refused));
    if (!('fence' in entered)) return answerDuplicate(ports, call, entered);
    const result = await next({ ...call, fence: entered.fence, journalled: true });
    const { failure } = result;
    if (failure && UNCERTAIN.has(failure.code) && !call.plan.idempotent)
      return settleUncertain(ports, call, entered.fence, result);
    if (failure && call.plan.idempotent && call.request.idempotencyKey !== undefined && willRepeat(call, result))
      return result;
    await finish(ports, call, entered.fence, result);
    return result;
  };
}

function enter(ports: Pick<EnginePorts, 'journal'>, call: Call) {
  const { idempotencyKey, principal, deadlineAt } = call.request;
  return ports.journal.accept({
    callId: call.callId,
    tenantId: principal.tenantId,
    tool: call.tool.name,
    deadlineAt,
    repeatable: call.plan.idempotent,
    ...(idempotencyKey === undefined
      ? {}
      : { idempotencyKey, fingerprint: idempotencyFingerprint(call.tool, call.arguments) }),
  });
}

/** A failed attempt of a repeatable call is not its outcome while another attempt may follow. */
function willRepeat(call: Call, result: CallResult): boolean {
  return call.attempt < call.plan.retry.maxAttempts && result.failure?.retryable === true;
}

/** Takes the call back if nobody has claimed it; else its outcome is unknown. */
async function settleUncertain(
  ports: Pick<EnginePorts, 'journal' | 'clock'>,
  call: Call,
  fence: number,
  result: CallResult,
): Promise<CallResult> {
  const state = await patiently(
    ports,
    ports.journal.withdraw(call.callId, call.signal.aborted ? 'cancelled' : 'expired'),
  );
  if (state === 'cancelled' || state === 'expired') return notStarted(result);
  const unknown = failed(unknownOutcome(call, state), result.timing, result.metadata);
  await finish(ports, call, fence, unknown);
  return unknown;
}

/** Proof for the retry: no executor has claimed the call, none can any more. */
function notStarted(result: CallResult): CallResult {
  if (result.failure?.code !== 'EXECUTOR_UNAVAILABLE') return result;
  return { ...result, failure: { ...result.failure, details: { ...result.failure.details, started: false } } };
}

async function finish(
  ports: Pick<EnginePorts, 'journal' | 'clock'>,
  call: Call,
  fence: number,
  result: CallResult,
): Promise<void> {
  await patiently(ports, ports.journal.finish(call.callId, fence, result));
}

/** The answer of the journal, or undefined when it fails or takes too long. */
async function patiently<T>(ports: Pick<EnginePorts, 'clock'>, asked: Promise<T>): Promise<T | undefined> {
  let cancel = () => {};
  const patience = new Promise<undefined>((resolve) => {
    cancel = ports.clock.after(JOURNAL_PATIENCE_MS, () => resolve(undefined));
  });
  try {
    return await Promise.race([asked, patience]);
  } catch {
    return undefined;
  } finally {
    cancel();
  }
}

function unknownOutcome(call: Call, state: CallState | undefined): ToolError {
  return new ToolError('OUTCOME_UNKNOWN', {
    message: `It is not known whether '${call.tool.name}' took effect`,
    details: { call_id: call.callId, ...(state ? { state } : {}) },
  });
}
