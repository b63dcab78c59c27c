import { runAttempt } from './attempt.js';
import { admitted, askPeople, askPolicy, permission, readArguments, resolve } from './admit.js';
import { newActiveCall, type ActiveCall, type Call, type ExecuteCall } from './call.js';
import { deadline } from './deadline.js';
import type { EnginePorts } from './ports.js';
import { finish, gracefulErrors } from './result.js';
import { Steps } from './step.js';
import { attemptTimeout } from './steps/attempt-timeout.js';
import { breaker } from './steps/breaker.js';
import { budget } from './steps/budget.js';
import { cache } from './steps/cache.js';
import { concurrencyLimit } from './steps/concurrency-limit.js';
import { checkIds, parentSpending, progressUntilEnd, shownNames } from './steps/entry.js';
import { fallback } from './steps/fallback.js';
import { idempotencyKey } from './steps/idempotency-key.js';
import { interceptors, replayInterceptors } from './steps/interceptors.js';
import { journal } from './steps/journal.js';
import { keepAside } from './steps/keep-aside.js';
import { loadShedding, ToolLatencies } from './steps/load-shedding.js';
import { record, trace } from './steps/observers.js';
import { rateLimit } from './steps/rate-limit.js';
import { retry } from './steps/retry.js';
import { selectPart } from './steps/select.js';
import { sessionDedupe } from './steps/session-dedupe.js';
import { singleFlight } from './steps/single-flight.js';
import { userGrant } from './steps/user-grant.js';

/** Everything that happens on every call, outermost first. The order is part of the contract: docs/call-lifecycle.md. */
export function callSteps(ports: EnginePorts): Steps<ActiveCall, Call> {
  const latencies = new ToolLatencies();
  return (
    Steps.of<ActiveCall>()
      // Request and response of the caller:
      .add(checkIds())
      .add(shownNames())
      .add(gracefulErrors(ports))
      .add(parentSpending())
      .add(progressUntilEnd())
      // See every call below, however it ends:
      .add(record(ports))
      .add(trace(ports))
      .add(deadline(ports))
      // May the call run at all?
      .add(resolve(ports))
      .add(permission())
      .add(readArguments(ports))
      .add(askPolicy(ports))
      .add(interceptors(ports, 'call'))
      .add(askPeople(ports))
      .add(userGrant(ports))
      .add(admitted(ports))
      .add(finish())
      // This caller's part of the result; all steps inside have the whole one:
      .add(keepAside(ports))
      .add(selectPart(ports))
      .add(replayInterceptors(ports))
      // May answer without using quota or budget:
      .add(idempotencyKey(ports))
      .add(cache(ports, latencies))
      .add(sessionDedupe(ports))
      .add(singleFlight(ports))
      .add(interceptors(ports, 'result'))
      // May refuse before anything is reserved:
      .add(concurrencyLimit(ports))
      .add(loadShedding(latencies))
      .add(rateLimit(ports))
      // Reserves, and settles or releases when the inner steps are done:
      .add(budget(ports))
      // The outcome of the whole call, after all attempts:
      .add(fallback(ports))
      .add(breaker(ports))
      // Every attempt:
      .add(retry(ports))
      .add(interceptors(ports, 'attempt'))
      .add(attemptTimeout(ports))
      .add(journal(ports))
  );
}

/** Builds the engine: all steps around the executor. */
export function makeExecuteCall(ports: EnginePorts): ExecuteCall {
  const run = callSteps(ports).around(runAttempt(ports));
  const executeCall: ExecuteCall = async (request) => run(newActiveCall(request, ports.clock.monotonic(), executeCall));
  return executeCall;
}
