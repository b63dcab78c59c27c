import { isToolError, toToolError, type CallResult } from '@toolfleet/contracts';
import type { Observer, CallTrace } from '../call.js';
import type { AuditRecord, EnginePorts } from '../ports.js';

/** One audit line per call, whatever became of it; unknown exceptions become INTERNAL here, so no call crashes a door. */
export function audit(ports: Pick<EnginePorts, 'audit' | 'clock'>): Observer {
  return async (seen, next) => {
    try {
      const result = await next(seen);
      ports.audit.finished(recordOf(seen, result, ports.clock.monotonic()));
      return result;
    } catch (thrown) {
      const error = toToolError(thrown);
      ports.audit.finished(recordOf(seen, error, ports.clock.monotonic()));
      throw error;
    }
  };
}

/** What observers report about a call that ended with a result or an error. */
export function recordOf(seen: CallTrace, outcome: CallResult | Error, nowMs: number): AuditRecord {
  const durationMs = nowMs - seen.startedAt;
  if (outcome instanceof Error) {
    const error = isToolError(outcome) ? outcome : toToolError(outcome);
    return {
      call: seen,
      ok: false,
      durationMs,
      microUsd: 0,
      attempts: seen.attempts,
      code: error.code,
      errorType: error.entry.class,
      error: error.message,
    };
  }
  return {
    call: seen,
    ok: outcome.ok,
    durationMs,
    microUsd: outcome.usage.microUsd,
    executeMs: outcome.timing.queue_ms + outcome.timing.execute_ms,
    timing: outcome.timing,
    provenance: outcome.provenance,
    attempts: outcome.attempts,
    ...(outcome.failure
      ? { code: outcome.failure.code, errorType: outcome.failure.errorType, error: outcome.failure.message }
      : {}),
  };
}
