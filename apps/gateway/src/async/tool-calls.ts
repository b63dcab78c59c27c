import type { AcceptedBody, CallBody, CallRequest, CallResult } from '@toolfleet/contracts';
import { callBody, type ExecuteCall } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { AsyncCalls } from './async-calls.js';

/** The answer of a plain door to one call. */
export interface CallAnswer {
  body: CallBody;
  /** True when an earlier call with the same idempotency key gave this outcome. */
  replayed: boolean;
}

/** What every door does with a call request: run it now, or accept it for later. */
export class ToolCalls {
  constructor(
    private readonly executeCall: ExecuteCall,
    private readonly async: AsyncCalls,
    private readonly clock: Clock,
  ) {}

  /** The result of the engine as it is, for doors with a format of their own. @throws ToolError when the call is refused */
  execute(request: CallRequest): Promise<CallResult> {
    return this.executeCall(request);
  }

  /** Runs a call to its end. @throws ToolError when the call is refused */
  async run(request: CallRequest): Promise<CallAnswer> {
    const from = this.clock.monotonic();
    const result = await this.executeCall(request);
    const { idempotent_replay: replayed, replayed_call_id: firstId } = result.metadata;
    // A replay is the first call's answer, its id included.
    const callId = replayed === true && typeof firstId === 'string' ? firstId : request.callId;
    return { body: callBody(callId, result, this.clock.monotonic() - from), replayed: replayed === true };
  }

  /** Stores a call for asynchronous execution; durable when this resolves. @throws ToolError when it is refused */
  async accept(request: CallRequest): Promise<AcceptedBody> {
    // A dry run refuses now what would only fail later: unknown tool, rights, arguments, policy.
    await this.executeCall({ ...request, dryRun: true });
    await this.async.accept(request);
    return { call_id: request.callId, status: 'accepted' };
  }
}
