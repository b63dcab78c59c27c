import { CATALOGUE, type CallResult } from '@toolfleet/contracts';

/** The outcome of a call that was claimed and never finished: in-band, not retryable (K!26). */
export function unknownOutcome(callId: string, tool: string): CallResult {
  return {
    ok: false,
    output: null,
    text: '',
    failure: {
      code: 'OUTCOME_UNKNOWN',
      errorType: CATALOGUE.OUTCOME_UNKNOWN.class,
      message:
        tool === '' ? 'It is not known whether the call took effect' : `It is not known whether '${tool}' took effect`,
      retryable: false,
      details: { call_id: callId },
    },
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata: {},
    timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 },
    attempts: 1,
  };
}
