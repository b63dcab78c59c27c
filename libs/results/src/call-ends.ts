import { isToolError, type CallBody, type CallResult, type CallState } from '@toolfleet/contracts';
import { resultSubject } from '@toolfleet/contracts/subjects';
import type { CallStore, StoredCall } from './call-store.js';

/** Publishes a body on a NATS subject; the publisher logs failures. @throws ToolError PAYLOAD_TOO_LARGE */
export type PublishBody = (subject: string, body: CallBody) => void;

/** Ends asynchronous calls, each once, and publishes their results. */
export class CallEnds {
  constructor(
    private readonly store: Pick<CallStore, 'finish'>,
    private readonly publish: PublishBody,
  ) {}

  /** Stores the end of a call, and publishes it if it is the first. */
  async end({ callId, tenantId }: Pick<StoredCall, 'callId' | 'tenantId'>, state: CallState, body: CallBody) {
    if (await this.store.finish(callId, state, body)) this.#announce(resultSubject(tenantId, callId), body);
  }

  /** A result that is too large for a message goes without its payload, which `GET /api/v1/calls/:id` returns. */
  #announce(subject: string, body: CallBody): void {
    try {
      this.publish(subject, body);
    } catch (error) {
      if (!isToolError(error) || error.code !== 'PAYLOAD_TOO_LARGE') throw error;
      const result_omitted = { reason: 'message_size', ...error.details };
      this.publish(subject, {
        ...body,
        output: null,
        content: undefined,
        metadata: { ...body.metadata, result_omitted },
      });
    }
  }
}

/** The state in which a call with this result ends, unless it was cancelled. */
export function stateOf(result: CallResult): CallState {
  if (result.ok) return 'succeeded';
  if (result.failure?.code === 'OUTCOME_UNKNOWN') return 'outcome_unknown';
  return result.failure?.code === 'DEADLINE_EXCEEDED' ? 'expired' : 'failed';
}
