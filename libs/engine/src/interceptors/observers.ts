import { isToolError, toToolError, toUsd, type CallResult, type MicroUsd } from '@toolfleet/contracts';
import { isExecutorFault } from '../attempt.js';
import type { ActiveCall, Observer } from '../call.js';
import type { AuditRecord, EnginePorts } from '../ports.js';

/** Whether a call goes on after this refusal: a person is asked about it. */
const goesOn = ({ request }: ActiveCall, error: unknown): boolean =>
  request.asksPerson === true && isToolError(error) && error.code === 'APPROVAL_REQUIRED';

/**
 * Writes one audit record per call; admission is recorded only if it refuses the call. Converts unknown exceptions to INTERNAL, so
 * that no call crashes its entry point.
 */
export function audit(ports: Pick<EnginePorts, 'audit' | 'clock'>): Observer {
  return async (active, next) => {
    try {
      const result = await next(active);
      if (!active.request.admitOnly) ports.audit.finished(toAuditRecord(active, result, ports.clock.monotonic()));
      return result;
    } catch (thrown) {
      const error = toToolError(thrown);
      if (!goesOn(active, error)) ports.audit.finished(toAuditRecord(active, error, ports.clock.monotonic()));
      throw error;
    }
  };
}

/** Runs every call in a span `tool_execution`. `resolveTool` adds the category as soon as the tool is known. */
export function trace(ports: Pick<EnginePorts, 'tracer'>): Observer {
  return (active, next) =>
    ports.tracer.span(
      'tool_execution',
      { 'tool.name': active.request.toolName, 'call.id': active.request.callId },
      async (span) => {
        active.span = span;
        try {
          const result = await next(active);
          span.set({
            'tool.success': result.ok,
            'tool.cost_usd': toUsd(chargedMicroUsd(result)),
            'tool.provenance': result.provenance,
            'tool.attempts': result.attempts,
          });
          const { failure } = result;
          if (failure) span.set({ 'error.code': failure.code, 'error.type': failure.errorType });
          return result;
        } catch (thrown) {
          const error = toToolError(thrown);
          span.set({
            'tool.success': false,
            'tool.cost_usd': 0,
            'error.code': error.code,
            'error.type': error.entry.class,
          });
          throw error;
        }
      },
    );
}

/** Counts every call in the metrics, except dry runs and successful admission, which execute nothing. */
export function meter(ports: Pick<EnginePorts, 'meter' | 'clock'>): Observer {
  return async (active, next) => {
    const { admitOnly, dryRun } = active.request;
    if (dryRun) return next(active);
    try {
      const result = await next(active);
      if (!admitOnly) ports.meter.finished(toAuditRecord(active, result, ports.clock.monotonic()));
      return result;
    } catch (thrown) {
      const error = toToolError(thrown);
      if (!goesOn(active, error)) ports.meter.finished(toAuditRecord(active, error, ports.clock.monotonic()));
      throw thrown;
    }
  };
}

function toAuditRecord(active: ActiveCall, outcome: CallResult | Error, nowMs: number): AuditRecord {
  const durationMs = nowMs - active.startedAt;
  if (outcome instanceof Error) {
    const error = isToolError(outcome) ? outcome : toToolError(outcome);
    return {
      call: active,
      ok: false,
      durationMs,
      microUsd: 0,
      attempts: active.attempts,
      code: error.code,
      errorType: error.entry.class,
      error: error.message,
      isExecutorFault: isExecutorFault(error),
    };
  }
  return {
    call: active,
    ok: outcome.ok,
    durationMs,
    microUsd: chargedMicroUsd(outcome),
    executeMs: outcome.timing.queue_ms + outcome.timing.execute_ms,
    timing: outcome.timing,
    provenance: outcome.provenance,
    attempts: outcome.attempts,
    code: outcome.failure?.code,
    errorType: outcome.failure?.errorType,
    error: outcome.failure?.message,
    isExecutorFault: outcome.failure && isExecutorFault(outcome.failure),
  };
}

/** What this call was charged. A replay shows the charge of the first call and costs nothing. */
function chargedMicroUsd({ usage }: CallResult): MicroUsd {
  return usage.replayed ? 0 : usage.microUsd;
}
