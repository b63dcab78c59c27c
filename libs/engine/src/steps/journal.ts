import {
  isToolError,
  ToolError,
  type CallResult,
  type CallState,
  toMaker,
  type ExecutionFailure,
  type JsonObject,
} from '@toolfleet/contracts';
import { leavesOutcomeOpen } from '@toolfleet/contracts/execution';
import type { Acceptance, JournalEntry } from '@toolfleet/journal';
import { withTimeout } from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { step, type Step, type Next } from '../step.js';
import { actingUserId } from '../call-identity.js';
import { withCharge } from '../charge.js';
import type { EnginePorts } from '../ports.js';
import { failed } from '../result.js';
import { ANSWER_MS } from '../settings.js';
import { answerDuplicate } from './idempotency-key.js';
import { retryBackoff } from './retry.js';

type Ports = Pick<EnginePorts, 'journal' | 'clock'>;

/** Bounds of the wait for the journal. Short at the deadline, because the answer has to leave within 250 ms after it. */
const MIN_TIMEOUT_MS = 150;
/** Long before the deadline, so that the outcome is stored before the caller has it and a replay cannot contradict it. */
const MAX_TIMEOUT_MS = 2_000;
/** How often a call after a lost first run looks for the outcome that its executor stored. */
const POLL_MS = 500;

/**
 * Enters calls with an effect that must not happen twice right before they are sent: calls of tools that are not idempotent, and calls
 * with an idempotency key. The executor claims the entry with its fence. A claim without an outcome ends as OUTCOME_UNKNOWN and
 * never runs again. Other calls do not use the journal.
 */
export function journal(ports: Ports): Step {
  return step('journal', (next) => (call) => {
    if (call.plan.idempotent && call.request.reuse.idempotencyKey === undefined) return next(call);
    return runJournalled(ports, call, next).catch((thrown: unknown) => failed(thrown));
  });
}

async function runJournalled(ports: Ports, call: Call, next: Next): Promise<CallResult> {
  if (isEnteredByClaim(call))
    return runEntered(ports, { ...call, fence: 1, journalled: true, entry: toEntry(call) }, next);
  const entered = await acceptUnclaimed(ports, call);
  if (entered.kind === 'claimed') {
    const { state } = entered;
    if (state !== 'cancelled' && state !== 'expired') return unknownOutcome(call, state);
    throw new ToolError('CALL_IN_PROGRESS', { message: 'Another gateway has taken this call over; nothing was run' });
  }
  if (entered.kind !== 'accepted')
    return (await answerDuplicate(ports, call, entered)) ?? runJournalled(ports, call, next);
  return runEntered(ports, { ...call, fence: entered.fence, journalled: true }, next);
}

/**
 * Whether the first move after sending enters the call, instead of a round trip before: no other process can know, repeat or continue a
 * call without a key that this gateway answers. Queues keep a job beyond its gateway, and a second attempt, or a call that waited for
 * input, needs a higher fence.
 */
function isEnteredByClaim({ plan, request, attempt }: Call): boolean {
  const isKnown = request.reuse.idempotencyKey !== undefined || request.personInput?.given !== undefined;
  return plan.bounded && request.mode.kind === 'run' && !isKnown && attempt === 1;
}

function toEntry({ request, tool, deadline }: Call): JournalEntry {
  const { principal, limits } = request;
  const remainingMs = deadline.remainingMs();
  const { deadlineAt } = limits;
  const by = { userId: actingUserId(request), maker: toMaker(principal) };
  return { tenantId: principal.tenantId, ...by, tool: tool.name, remainingMs, deadlineAt };
}

async function runEntered(ports: Ports, call: Call, next: Next): Promise<CallResult> {
  const result = await next(call);
  const { failure } = result;
  if (failure && leavesOutcomeOpen(failure)) return settleOpenOutcome(ports, call, result);
  if (failure?.facts?.input) {
    await answerInTime(ports, call, ports.journal.awaitInput(call.callId, ANSWER_MS));
    return result;
  }
  const { until } = failure?.facts?.approval ?? {};
  if (until !== undefined) {
    // A program that waits for people runs again under the same key.
    const waitMs = Math.max(ANSWER_MS, until - ports.clock.now() + ANSWER_MS);
    // Any gateway goes on with it, so the key is not this one's.
    const kept = accept(ports, call, true).then(() => ports.journal.awaitInput(call.callId, waitMs));
    await answerInTime(ports, call, kept);
    return result;
  }
  // The outcome of the call is its last attempt's.
  if (failure && !isLastAttempt(call, failure)) return result;
  if (!call.entry) await storeOutcome(ports, call, result);
  // Nothing replays a call that its claim entered, so its caller need not wait. If this fails, its executor stores its own copy.
  else void finishEntry(ports, call, result).catch(() => undefined);
  return result;
}

/**
 * Accepts the call into the journal. An entry that is claimed already belongs to a job that runs again because its gateway died:
 * the executor may still be working and will store its outcome, so this waits for it until the deadline.
 */
async function acceptUnclaimed(ports: Ports, call: Call): Promise<Acceptance> {
  let entered = await accept(ports, call);
  while (entered.kind === 'claimed' && entered.state === 'claimed') {
    const leftMs = call.deadline.remainingMs() - MIN_TIMEOUT_MS;
    if (leftMs <= 0 || call.signal.aborted) break;
    await ports.clock.sleep(Math.min(POLL_MS, leftMs), call.signal).catch(() => undefined);
    entered = await accept(ports, call);
  }
  return entered;
}

/** @throws ToolError SERVICE_UNAVAILABLE: without an entry nothing may run */
async function accept(
  { journal: entries }: Ports,
  { request, tool, plan, identity }: Call,
  moves = request.mode.kind === 'resume',
): Promise<Acceptance> {
  const isKeyed = request.reuse.idempotencyKey !== undefined;
  try {
    return await entries.accept({
      callId: request.callId,
      tenantId: request.principal.tenantId,
      userId: actingUserId(request),
      maker: toMaker(request.principal),
      tool: tool.name,
      deadlineAt: request.limits.deadlineAt,
      repeatable: plan.idempotent,
      mayHaveBegun: request.mode.kind === 'resume' && request.mode.mayHaveBegun,
      moves,
      idempotencyKey: isKeyed ? identity.idempotencyKey : undefined,
      fingerprint: isKeyed ? identity.fingerprint : undefined,
    });
  } catch (cause) {
    if (isToolError(cause)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', { message: 'The call journal is unavailable; nothing was run', cause });
  }
}

/**
 * Settles an attempt that ended without an outcome. If no executor claimed it, withdrawing it proves that nothing began and
 * nothing can. If one did, an idempotent call has just failed, and the outcome of any other is unknown.
 */
async function settleOpenOutcome(ports: Ports, call: Call, result: CallResult): Promise<CallResult> {
  const { failure } = result;
  const as = failure?.code === 'CANCELLED' ? 'cancelled' : 'expired';
  const state = await answerInTime(ports, call, ports.journal.withdraw(call.callId, as, call.entry));
  if (state === 'cancelled' || state === 'expired') return asNotStarted(result);
  if (call.plan.idempotent) {
    if (!failure || isLastAttempt(call, failure)) await storeOutcome(ports, call, result);
    return result;
  }
  const outcome = unknownOutcome(call, state, result);
  await storeOutcome(ports, call, outcome);
  return outcome;
}

/** Stores an outcome with its charge, for replays. */
async function storeOutcome(ports: Ports, call: Call, outcome: CallResult): Promise<void> {
  await answerInTime(ports, call, finishEntry(ports, call, outcome));
}

function finishEntry({ journal: entries }: Ports, call: Call, outcome: CallResult): Promise<boolean> {
  return entries.finish(call.callId, 'current', withCharge(call, outcome), call.entry);
}

function isLastAttempt(call: Call, failure: ExecutionFailure): boolean {
  return call.signal.aborted || retryBackoff(call, failure, call.attempt) === undefined;
}

/** Marks the failure for the retry step: no executor has claimed the call, and none can any more. */
function asNotStarted(result: CallResult): CallResult {
  if (result.ok || result.failure.code !== 'EXECUTOR_UNAVAILABLE') return result;
  return { ...result, failure: { ...result.failure, facts: { ...result.failure.facts, begun: 'no' } } };
}

/** A tool that was slower than its limit, as far as its executor is concerned. */
const isTooSlow = ({ code, facts }: ExecutionFailure): boolean =>
  code === 'ATTEMPT_TIMED_OUT' && facts?.blame !== 'executor';

function unknownOutcome(call: Call, state: CallState | undefined, result?: CallResult): CallResult {
  const { failure, timing, metadata } = result ?? {};
  const details: JsonObject = { call_id: call.callId };
  if (state) details.state = state;
  if (failure) details.after = failure.code;
  const message = `It is not known whether '${call.tool.name}' took effect${failure ? `: ${failure.message}` : ''}`;
  const blame = failure?.code === 'NETWORK_ERROR' ? 'target' : failure && isTooSlow(failure) ? 'tool' : undefined;
  const error = new ToolError('OUTCOME_UNKNOWN', {
    message,
    details,
    facts: blame && { blame },
  });
  return failed(error, { ...(timing && { timing }), ...(metadata && { metadata }), attempts: 1 });
}

/** The answer of the journal, or undefined when it fails or takes too long. */
async function answerInTime<T>({ clock }: Ports, call: Call, answer: Promise<T>): Promise<T | undefined> {
  const timeoutMs = Math.max(MIN_TIMEOUT_MS, Math.min(MAX_TIMEOUT_MS, call.deadline.remainingMs()));
  return withTimeout(clock, timeoutMs, answer).catch(() => undefined);
}
