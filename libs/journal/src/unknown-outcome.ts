import { ToolError, type CallResult } from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';

/** The outcome of a call that was claimed and never finished: in-band, not retryable. */
export function unknownOutcome(callId: string, tool: string): CallResult {
  const message = `It is not known whether ${tool === '' ? 'the call' : `'${tool}'`} took effect`;
  return {
    ok: false,
    output: null,
    text: '',
    failure: toFailure(new ToolError('OUTCOME_UNKNOWN', { message, details: { call_id: callId } })),
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata: {},
    timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 },
    attempts: 1,
  };
}
