import { blankResult, isToolError, ToolError, type CallResult, type CallState } from '@toolfleet/contracts';
import { leavesOutcomeOpen } from '@toolfleet/contracts/execution';
import type { Call, Interceptor, Next } from '../call.js';
import { failed } from '../outcome.js';
import type { Acceptance, EnginePorts } from '../ports.js';
import { repeats } from '../retry-rule.js';
import { answerDuplicate } from './idempotency.js';

type Ports = Pick<EnginePorts, 'journal' | 'clock'>;

/** A journal that does not answer must not hold the caller back: promise D allows 250 ms past the deadline. */
const LEAST_PATIENCE_MS = 150;
/** Before the deadline an outcome that is stored is worth a wait: a replay must not contradict what the caller was told. */
const MOST_PATIENCE_MS = 2_000;
/** How often a call whose first run was lost looks for the outcome its executor left. */
const LOOK_AGAIN_MS = 500;

/**
 * Enters calls whose effect must not begin twice, right before the hop: tools that are not idempotent,
 * and calls with an idempotency key. The executor claims with the fence; a claim without an outcome ends as
 * OUTCOME_UNKNOWN and is never run again. Other calls never touch the journal.
 */
export function journal(ports: Ports): Interceptor {
  return (call, next) => {
    if (call.plan.idempotent && call.request.idempotencyKey === undefined) return next(call);
    return journalled(ports, call, next).catch((thrown: unknown) => failed(thrown));
  };
}

async function journalled(ports: Ports, call: Call, next: Next): Promise<CallResult> {
  const entered = await enterOnce(ports, call);
  if (entered.kind === 'claimed') return unknown(call, entered.state);
  if (entered.kind !== 'accepted') return answerDuplicate(ports, call, entered);
  const result = await next({ ...call, fence: entered.fence, journalled: true });
  const { failure } = result;
  if (failure && leavesOutcomeOpen(failure)) return settleUncertain(ports, call, result);
  if (failure && !isLast(call, result)) return result; // the outcome of the call is the one of its last attempt
  await patiently(ports, call, ports.journal.finish(call.callId, 'current', result));
  return result;
}

/**
 * Enters the call. One that is claimed already is a job that runs again because its gateway died: the executor may still be
 * at work and hands its outcome to the journal, so it is waited for.
 */
async function enterOnce(ports: Ports, call: Call): Promise<Acceptance> {
  let entered = await enter(ports, call);
  while (entered.kind === 'claimed' && entered.state === 'claimed') {
    const restMs = call.deadline.remainingMs() - LEAST_PATIENCE_MS;
    if (restMs <= 0 || call.signal.aborted) break;
    await ports.clock.sleep(Math.min(LOOK_AGAIN_MS, restMs), call.signal).catch(() => undefined);
    entered = await enter(ports, call);
  }
  return entered;
}

/** @throws ToolError SERVICE_UNAVAILABLE: without a record nothing may run */
async function enter(ports: Ports, call: Call): Promise<Acceptance> {
  const { idempotencyKey, principal, deadlineAt } = call.request;
  const ask = {
    callId: call.callId,
    tenantId: principal.tenantId,
    tool: call.tool.name,
    deadlineAt,
    repeatable: call.plan.idempotent,
    mayHaveBegun: call.request.mayHaveBegun ?? false,
  };
  const { identity } = call;
  const keyed =
    idempotencyKey === undefined ? {} : { idempotencyKey: identity.idempotencyKey, fingerprint: identity.fingerprint };
  try {
    return await ports.journal.accept({ ...ask, ...keyed });
  } catch (cause) {
    if (isToolError(cause)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', { message: 'The call journal is away; nothing was run', cause });
  }
}

/**
 * Takes the call back if nobody has claimed it: then nothing began and nothing can. Else a repeatable call has simply
 * failed this time, and of any other the outcome is unknown.
 */
async function settleUncertain(ports: Ports, call: Call, result: CallResult): Promise<CallResult> {
  const as = result.failure?.code === 'CANCELLED' ? 'cancelled' : 'expired';
  const state = await patiently(ports, call, ports.journal.withdraw(call.callId, as));
  if (state === 'cancelled' || state === 'expired') return notStarted(result);
  if (call.plan.idempotent) {
    if (isLast(call, result)) await patiently(ports, call, ports.journal.finish(call.callId, 'current', result));
    return result;
  }
  const outcome = unknown(call, state, result);
  await patiently(ports, call, ports.journal.finish(call.callId, 'current', outcome));
  return outcome;
}

function isLast(call: Call, { failure }: CallResult): boolean {
  if (!failure || call.request.noRetry || call.signal.aborted) return true;
  return repeats(call.plan.retry, call.plan.idempotent, failure, call.attempt) === undefined;
}

/** Proof for the retry: no executor has claimed the call, none can any more. */
function notStarted(result: CallResult): CallResult {
  if (result.failure?.code !== 'EXECUTOR_UNAVAILABLE') return result;
  return { ...result, failure: { ...result.failure, details: { ...result.failure.details, started: false } } };
}

function unknown(call: Call, state: CallState | undefined, result?: CallResult): CallResult {
  const why = result?.failure;
  const error = new ToolError('OUTCOME_UNKNOWN', {
    message: `It is not known whether '${call.tool.name}' took effect${why ? `: ${why.message}` : ''}`,
    details: { call_id: call.callId, ...(state ? { state } : {}), ...(why ? { after: why.code } : {}) },
  });
  const { timing, metadata } = result ?? blankResult();
  return failed(error, { timing, metadata, attempts: 1 });
}

/** The answer of the journal, or undefined when it fails or takes too long. */
async function patiently<T>(ports: Ports, call: Call, asked: Promise<T>): Promise<T | undefined> {
  const patienceMs = Math.max(LEAST_PATIENCE_MS, Math.min(MOST_PATIENCE_MS, call.deadline.remainingMs()));
  let cancel = () => {};
  const patience = new Promise<undefined>((resolve) => {
    cancel = ports.clock.after(patienceMs, () => resolve(undefined));
  });
  try {
    return await Promise.race([asked, patience]);
  } catch {
    return undefined;
  } finally {
    cancel();
  }
}
