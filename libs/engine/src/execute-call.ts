import { succeeded, type CallRequest, type CallResult } from '@toolfleet/contracts';
import { answerDryRun, authorize, authorizeArguments, decidePolicy, parseArguments, resolveTool } from './admit.js';
import { runAttempt } from './attempt.js';
import { buildCall, compose, newActiveCall, observe, type Interceptor, type Observer } from './call.js';
import { withinDeadline } from './deadline.js';
import { attemptTimeout } from './interceptors/attempt-timeout.js';
import { breaker } from './interceptors/breaker.js';
import { budget } from './interceptors/budget.js';
import { cache } from './interceptors/cache.js';
import { concurrencyLimit } from './interceptors/concurrency-limit.js';
import { fallback } from './interceptors/fallback.js';
import { idempotencyKey } from './interceptors/idempotency-key.js';
import { keepAside } from './interceptors/keep-aside.js';
import { journal } from './interceptors/journal.js';
import { loadShedding, ToolLatencies } from './interceptors/load-shedding.js';
import { record, trace } from './interceptors/observers.js';
import { rateLimit } from './interceptors/rate-limit.js';
import { retry } from './interceptors/retry.js';
import { readSelection, selectPart } from './interceptors/select.js';
import { sessionDedupe } from './interceptors/session-dedupe.js';
import { singleFlight } from './interceptors/single-flight.js';
import { requirePlainIds } from './plain-ids.js';
import type { EnginePorts } from './ports.js';
import { finishCall, shownAsSuccess } from './result.js';
import { ToolPlans } from './tool-plan.js';

/**
 * Runs one call. Resolves to its result, which may be a failure of the tool (`ok: false`).
 * @throws ToolError when the call was refused before its tool ran
 */
export type ExecuteCall = (request: CallRequest) => Promise<CallResult>;

/** Wrap every call, outermost first. */
function observers(ports: EnginePorts): readonly Observer[] {
  return [record(ports), trace(ports)];
}

/** The steps of an admitted call, outermost first. The order is part of the contract: docs/call-lifecycle.md. */
function chain(ports: EnginePorts): readonly Interceptor[] {
  const latencies = new ToolLatencies();
  return [
    // What this caller gets of the result; all steps inside have the whole one:
    keepAside(ports),
    selectPart(ports),
    // May answer without using quota or budget:
    idempotencyKey(ports),
    cache(ports, latencies),
    sessionDedupe(ports),
    singleFlight(ports),
    // May refuse before anything is reserved:
    concurrencyLimit(ports),
    loadShedding(latencies),
    rateLimit(ports),
    // Reserves, and settles or releases when the inner steps are done:
    budget(ports),
    // The outcome of the whole call, after all attempts:
    fallback(ports),
    breaker(ports),
    // Every attempt:
    retry(ports),
    attemptTimeout(ports),
    journal(ports),
  ];
}

/** Builds the engine: everything that happens on every call, from top to bottom. */
export function makeExecuteCall(ports: EnginePorts): ExecuteCall {
  const { clock, settings } = ports;
  const plans = new ToolPlans(settings);
  const run = compose(chain(ports), runAttempt(ports));

  const execute = observe(observers(ports), (active) =>
    withinDeadline(clock, active, async (signal, deadline) => {
      const { request } = active;
      const { principal, origin, refusal } = request;
      const found = resolveTool(ports, active, signal);
      // After the look-up, so that records of the refused call name its tool.
      if (refusal) return found.catch(() => undefined).then(() => Promise.reject(refusal));
      const tool = await found;
      authorize(principal, origin, tool);
      const plan = plans.get(tool);
      const args = parseArguments(plan, tool, active);
      const selection = readSelection(plan, request);
      authorizeArguments(origin, tool, args);
      const undecided = decidePolicy(ports.policy, active, tool, args);
      if (undecided) await undecided;
      active.admittedAt = clock.monotonic();

      if (request.admitOnly) return succeeded();
      const call = buildCall(active, tool, plan, args, { signal, deadline, settings, select: selection });
      return request.dryRun ? answerDryRun(ports, call) : finishCall(active, await run(call));
    }),
  );

  const executeCall: ExecuteCall = async (request) => {
    requirePlainIds(request);
    return muteProgressAtEnd(withParentSpending(request), (muted) => execute(newActiveCall(muted, clock.monotonic())));
  };
  if (!settings.gracefulErrorAsSuccess) return executeCall;
  return (request) => shownAsSuccess(request.toolName, executeCall(request));
}

/** Calls that a tool makes spend from the budgets of its own call; ids in the request that name other budgets are ignored. */
function withParentSpending(request: CallRequest): CallRequest {
  const { parentSpends } = request.principal;
  if (!parentSpends) return request;
  const { requestId: _request, agentId: _agent, taskId: _task, ...rest } = request;
  return { ...rest, ...parentSpends };
}

/**
 * Runs a call and drops progress reports after its end. Work can outlive its caller: another call may share it, or the executor
 * has not received the cancellation yet. Callers take a progress report as proof that the call is still running.
 */
function muteProgressAtEnd(request: CallRequest, run: ExecuteCall): Promise<CallResult> {
  const { onProgress } = request;
  if (!onProgress) return run(request);
  let ended = false;
  return run({ ...request, onProgress: (progress) => (ended ? undefined : onProgress(progress)) }).finally(() => {
    ended = true;
  });
}
