import { isToolError, ToolError, type CallResult } from '@toolfleet/contracts';
import { TimedOut, withTimeout } from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { actingUserId } from '../call-identity.js';
import type { Guard, GuardedCall, GuardedResult, ResultVerdict } from '../guard.js';
import type { EnginePorts } from '../ports.js';
import { explainFailure, failed, isRefusal } from '../result.js';
import { step, type Step } from '../step.js';

type Ports = Pick<EnginePorts, 'guards' | 'clock' | 'meter'>;
type Place = 'onCall' | 'onAttempt' | 'onResult';

/** Asks guards about calls that the policy allows. @throws ToolError POLICY_DENIED */
export function callGuards(ports: Ports): Step {
  return guardStep(ports, 'call guards', 'onCall', async (guards, call, next) => {
    for (const guard of guards) {
      const denied = await ask(ports, guard, call.signal, (signal) => guard.onCall!(toGuardedCall(call), signal));
      if (denied) throw refused('POLICY_DENIED', guard, call, denied.deny);
    }
    return next(call);
  });
}

/** Asks guards before each attempt. The first one is refused like a call; a later one withholds what the attempts before it gave. */
export function attemptGuards(ports: Ports): Step {
  return guardStep(ports, 'attempt guards', 'onAttempt', async (guards, call, next) => {
    for (const guard of guards) {
      const denied = await ask(ports, guard, call.signal, (signal) => guard.onAttempt!(toGuardedCall(call), signal));
      const code = call.active.attempts === 0 ? 'POLICY_DENIED' : 'RESULT_WITHHELD';
      if (denied) return failed(refused(code, guard, call, denied.deny));
    }
    return next(call);
  });
}

/** Passes results through the guards, inside everything that keeps or shares them. */
export function resultGuards(ports: Ports): Step {
  return guardStep(ports, 'result guards', 'onResult', async (guards, call, next) => {
    const result = await next(call);
    return result.replayOf === undefined ? throughGuards(ports, guards, call, result) : result;
  });
}

/** Passes replays through the guards: the journal has them as the executor stored them. */
export function replayGuards(ports: Ports): Step {
  return guardStep(ports, 'replay guards', 'onResult', async (guards, call, next) => {
    const result = await next(call);
    return result.replayOf === undefined ? result : throughGuards(ports, guards, call, result);
  });
}

/** A step for calls with a guard at this place; all others pass it without any work. */
function guardStep(
  { guards }: Ports,
  name: string,
  place: Place,
  run: (guards: readonly Guard[], ...rest: Parameters<NonNullable<Step['run']>>) => Promise<CallResult>,
): Step {
  const here = guards.filter((guard) => guard[place] !== undefined);
  if (here.length === 0) return step(name);
  return step(name, (call, next) => {
    const toolset = call.request.target.view?.toolset.name;
    const watching = here.filter((guard) => guard.watches(call.tool, toolset));
    return watching.length === 0 ? next(call) : run(watching, call, next);
  });
}

async function throughGuards(
  ports: Ports,
  guards: readonly Guard[],
  call: Call,
  first: CallResult,
): Promise<CallResult> {
  // A refusal by the fleet has nothing of the tool.
  if (first.failure && isRefusal(first.failure)) return first;
  let result = first;
  const changedBy: string[] = [];
  for (const guard of guards) {
    const seen = toGuardedResult(result);
    const verdict = await ask<ResultVerdict>(ports, guard, undefined, (signal) =>
      guard.onResult!(toGuardedCall(call), seen, signal),
    );
    if (!verdict) continue;
    if ('deny' in verdict)
      return withheld(call.tool.name, refused('RESULT_WITHHELD', guard, call, verdict.deny), result);
    ports.meter.guarded(guard.name, 'changed');
    result = withChange(result, verdict.change);
    changedBy.push(guard.name);
  }
  return changedBy.length > 0 ? { ...result, metadata: { ...result.metadata, guards: changedBy } } : result;
}

/** What remains of a withheld result: that it ran, what it took, and the fact that decides the charge. */
function withheld(
  tool: string,
  error: ToolError,
  { usage, timing, attempts, replayOf, failure }: CallResult,
): CallResult {
  // Whether an effect happened is not the guard's to hide.
  const code = failure?.code === 'OUTCOME_UNKNOWN' ? 'OUTCOME_UNKNOWN' : error.code;
  const shown = new ToolError(code, { message: error.message, details: error.details, facts: failure?.facts });
  return explainFailure(tool, failed(shown, { usage, timing, attempts, replayOf }));
}

function withChange(
  result: CallResult,
  { output, text, content, metadata, error }: Partial<Omit<GuardedResult, 'success'>>,
): CallResult {
  const changed: CallResult = {
    ...result,
    ...(output !== undefined && { output }),
    ...(text !== undefined && { text }),
    ...(content !== undefined && { content }),
    ...(metadata !== undefined && { metadata }),
  };
  if (!changed.failure || !error) return changed;
  return { ...changed, failure: { ...changed.failure, message: error.message, details: error.details } };
}

/**
 * The verdict of a guard in its time: a guard that fails open lets pass, one that fails closed denies.
 * @param signal ends the question early; a result is asked about to the end, because its usage must be settled
 */
async function ask<T extends ResultVerdict>(
  { clock, meter }: Ports,
  guard: Guard,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => T | Promise<T>,
): Promise<T | { deny: string } | undefined> {
  try {
    const verdict = await withTimeout(clock, guard.timeoutMs, signal, async (until) => work(until));
    if (verdict && 'deny' in verdict) meter.guarded(guard.name, 'denied');
    return verdict;
  } catch (error) {
    signal?.throwIfAborted();
    meter.guarded(guard.name, guard.failsOpen ? 'failed_open' : 'failed_closed');
    if (guard.failsOpen) return undefined;
    const why = error instanceof TimedOut ? `it did not answer within ${guard.timeoutMs} ms` : 'it failed';
    return { deny: isToolError(error) ? `${why} with ${error.code}` : why };
  }
}

function refused(code: 'POLICY_DENIED' | 'RESULT_WITHHELD', { name }: Guard, { tool }: Call, why: string): ToolError {
  const what = code === 'POLICY_DENIED' ? 'refuses' : 'withholds the result of';
  const message = `Guard '${name}' ${what} '${tool.name}': ${why}`;
  return new ToolError(code, { message, details: { guard: name, reasons: [why] } });
}

function toGuardedCall({ callId, request, tool, arguments: args, attempt }: Call): GuardedCall {
  return {
    call_id: callId,
    tenant_id: request.principal.tenantId,
    user_id: actingUserId(request),
    entry_point: request.entryPoint,
    tool: tool.name,
    category: tool.category,
    source: { kind: tool.source.kind, name: tool.source.name },
    toolset: request.target.view?.toolset.name,
    arguments: structuredClone(args),
    attempt,
  };
}

function toGuardedResult({ ok, output, text, content, metadata, failure }: CallResult): GuardedResult {
  const error = failure && { message: failure.message, details: failure.details };
  return { success: ok, output, text, content, metadata, error };
}
