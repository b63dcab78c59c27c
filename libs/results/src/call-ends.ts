import {
  isToolError,
  natsUserId,
  toMaker,
  type CallBody,
  type CallResult,
  type CallState,
  type JsonObject,
} from '@toolfleet/contracts';
import { resultOmitted } from '@toolfleet/access';
import { resultSubject } from '@toolfleet/contracts/subjects';
import type { AcceptedCall } from './call-store.js';
import type { RedisCallStore } from './redis-call-store.js';

/** Publishes a body on a NATS subject; the publisher logs failures. @throws ToolError PAYLOAD_TOO_LARGE */
export type PublishBody = (subject: string, body: CallBody) => void;

/**
 * Ends asynchronous calls, each once, and publishes the ends of those that came over NATS. Every NATS user of a tenant reads them: a call
 * that one made without a key belongs to all of them and is published with its result; of one with a key only the end is.
 */
export class CallEnds {
  constructor(
    private readonly store: Pick<RedisCallStore, 'finish'>,
    private readonly publish: PublishBody,
  ) {}

  /**
   * Stores the end of a call, and publishes it if it is the first.
   * @param call without maker and entry point where they are not known
   */
  async end(
    { callId, tenantId, maker, entryPoint }: Pick<AcceptedCall, 'callId' | 'tenantId' | 'maker' | 'entryPoint'>,
    state: CallState,
    body: CallBody,
  ): Promise<void> {
    if (!(await this.store.finish(callId, state, body))) return;
    const isTheirs = maker === toMaker({ userId: natsUserId(tenantId) });
    if (isTheirs) this.#announce(resultSubject(tenantId, callId), body);
    else if (entryPoint === 'nats') this.#announce(resultSubject(tenantId, callId), withoutContent(body, state));
  }

  /** A result that is too large for a message goes without its payload (`GET /api/v1/calls/:id` returns it). */
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

/** How a call ended, without anything that its tool or its caller wrote. */
function withoutContent(
  { success, execution_time_ms, usage, call_id, metadata }: CallBody,
  state: CallState,
): CallBody {
  const shown: JsonObject = { status: state, result_omitted: resultOmitted('state') };
  // Of a success, these names are the tool's own.
  if (!success) for (const name of ['code', 'error_type', 'retryable']) shown[name] = metadata[name] ?? null;
  const error = success ? null : `The call ended: ${state}`;
  return { success, output: null, text: '', error, metadata: shown, execution_time_ms, usage, call_id };
}

/** The state in which a call with this result ends, unless it was cancelled. */
export function stateOf(result: CallResult): CallState {
  if (result.ok) return 'succeeded';
  if (result.failure?.code === 'OUTCOME_UNKNOWN') return 'outcome_unknown';
  return result.failure?.code === 'DEADLINE_EXCEEDED' ? 'expired' : 'failed';
}
