import {
  CATALOGUE,
  isToolError,
  toToolError,
  type CallRequest,
  type CallResult,
  type ToolError,
} from '@toolfleet/contracts';
import { isExecutorFault } from '../attempt.js';
import { chargedMicroUsd, type ActiveCall } from '../call.js';
import { step, type Step } from '../step.js';
import { opensPages } from './user-grant.js';
import type { AuditRecord, EnginePorts } from '../ports.js';

/** Whether a call goes on after this refusal: a person is asked. */
const goesOn = ({ code, facts }: ToolError, request: CallRequest): boolean =>
  code === 'APPROVAL_REQUIRED'
    ? facts?.approval?.by !== undefined
    : (code === 'INPUT_REQUIRED' && facts?.input !== undefined) ||
      (code === 'AUTHORIZATION_REQUIRED' && facts?.connect !== undefined && opensPages(request));

/**
 * Writes one audit record per call and counts it in the metrics. Admission is recorded only if it refuses the call, and dry runs,
 * which execute nothing, are not counted. Converts unknown exceptions to INTERNAL, so that no call crashes its entry point.
 */
export function record(ports: Pick<EnginePorts, 'audit' | 'meter' | 'clock'>): Step<ActiveCall> {
  const finished = (active: ActiveCall, outcome: CallResult | ToolError) => {
    const entry = toAuditRecord(active, outcome, ports.clock.monotonic());
    ports.audit.finished(entry);
    if (active.request.mode.kind !== 'dry') ports.meter.finished(entry);
  };
  return step('record', (next) => async (active) => {
    let result: CallResult;
    try {
      result = await next(active);
    } catch (thrown) {
      const error = toToolError(thrown);
      if (!goesOn(error, active.request)) finished(active, error);
      throw error;
    }
    if (active.request.mode.kind !== 'admit') finished(active, result);
    return result;
  });
}

/** Traces every call. */
export function trace(ports: Pick<EnginePorts, 'tracer'>): Step<ActiveCall> {
  return step('trace', (next) => (active) => ports.tracer.trace(active, () => next(active)));
}

function toAuditRecord(active: ActiveCall, outcome: CallResult | ToolError, nowMs: number): AuditRecord {
  const durationMs = nowMs - active.startedAt;
  if (isToolError(outcome)) {
    return {
      call: active,
      ok: false,
      durationMs,
      microUsd: 0,
      attempts: active.attempts,
      code: outcome.code,
      errorType: CATALOGUE[outcome.code].class,
      error: outcome.message,
      isExecutorFault: isExecutorFault(outcome),
    };
  }
  return {
    call: active,
    ok: outcome.ok,
    durationMs,
    microUsd: chargedMicroUsd(outcome),
    executeMs: outcome.timing.queue_ms + outcome.timing.execute_ms,
    result: outcome,
    timing: outcome.timing,
    provenance: outcome.provenance,
    attempts: outcome.attempts,
    code: outcome.failure?.code,
    errorType: outcome.failure?.errorType,
    error: outcome.failure?.message,
    isExecutorFault: outcome.failure && isExecutorFault(outcome.failure),
    isToolFault: outcome.failure?.facts?.blame === 'tool' || outcome.failure?.facts?.blame === 'target',
  };
}
