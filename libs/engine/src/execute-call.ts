import { ToolError, type CallRequest, type CallResult } from '@toolfleet/contracts';
import { authorize, authorizeArguments } from './authorize.js';
import type { Interceptor, Observer } from './call.js';
import { compose, observe } from './chain.js';
import { decidePolicy } from './decide-policy.js';
import { answerDryRun } from './dry-run.js';
import { attemptTimeout } from './interceptors/attempt-timeout.js';
import { audit } from './interceptors/audit.js';
import { breaker } from './interceptors/breaker.js';
import { budget } from './interceptors/budget.js';
import { cache } from './interceptors/cache.js';
import { capacity } from './interceptors/capacity.js';
import { coalesce } from './interceptors/coalesce.js';
import { fallback } from './interceptors/fallback.js';
import { history } from './interceptors/history.js';
import { idempotency } from './interceptors/idempotency.js';
import { journal } from './interceptors/journal.js';
import { meter } from './interceptors/meter.js';
import { rateLimit } from './interceptors/rate-limit.js';
import { retry } from './interceptors/retry.js';
import { shed } from './interceptors/shed.js';
import { trace } from './interceptors/trace.js';
import { finished } from './finished.js';
import { parseArguments } from './parse-arguments.js';
import type { EnginePorts } from './ports.js';
import { openCall, seeing } from './open-call.js';
import { progressUntilEnd } from './progress-until-end.js';
import { runAttempt } from './run-attempt.js';
import { ToolPlans } from './tool-plan.js';
import { withinDeadline } from './within-deadline.js';

/** Runs one call. Ends with a result, in-band failures included, or with the ToolError that refused it. */
export type ExecuteCall = (request: CallRequest) => Promise<CallResult>;

/** Outermost first; no call can skip them. */
const observers = (p: EnginePorts): readonly Observer[] => [audit(p), trace(p), meter(p)];

/** Outermost first. The order is the contract: docs/call-lifecycle.md. */
const chain = (p: EnginePorts): readonly Interceptor[] => [
  idempotency(p), // replays the first outcome of a key, before anything is counted
  cache(p),
  history(p),
  coalesce(p), // cache, history, coalesce: may answer, free of quota and budget
  capacity(p),
  shed(),
  rateLimit(p), // capacity, shed, rate limit: may refuse before anything is held
  budget(p), // reserve → next → settle; release if nothing was consumed
  fallback(p),
  breaker(p), // judges the outcome of the call, whatever number of attempts it took
  retry(p),
  attemptTimeout(p),
  journal(p), // last before the hop: the fence of this attempt, for calls that need one
];

/** What happens on every call, from top to bottom. */
export function makeExecuteCall(ports: EnginePorts): ExecuteCall {
  const { clock, settings } = ports;
  const plans = new ToolPlans(settings);
  const run = compose(chain(ports), runAttempt(ports));

  const observed = observe(observers(ports), (seen) =>
    withinDeadline(clock, seen, async (signal, deadline) => {
      const { request } = seen;
      if (request.refusal) throw request.refusal;
      const { principal, origin } = request;
      const tool = await ports.catalog.resolve(request.toolName, principal.tenantId, signal);
      if (!tool) throw new ToolError('TOOL_NOT_FOUND', { message: `Tool '${request.toolName}' not found` });
      seen.tool = tool;
      authorize(principal, origin, tool);
      const plan = plans.of(tool);
      const args = parseArguments(plan, tool, seen);
      authorizeArguments(origin, tool, args);
      await decidePolicy(ports.policy, seen, tool, args);
      seen.admittedAt = clock.monotonic();

      const call = openCall({ seen, tool, plan, args, signal, deadline, settings });
      return request.dryRun ? answerDryRun(ports, call) : finished(seen, await run(call));
    }),
  );

  return (request) =>
    progressUntilEnd(withSpendingOf(request), (watched) => observed(seeing(watched, clock.monotonic())));
}

/**
 * What is done on behalf of a call spends from that call's budgets: a tool cannot name a fresh one, on whichever entry point it
 * calls.
 */
function withSpendingOf(request: CallRequest): CallRequest {
  const { parentSpends } = request.principal;
  if (!parentSpends) return request;
  const { requestId: _request, agentId: _agent, taskId: _task, ...rest } = request;
  return { ...rest, ...parentSpends };
}
