import type { ExecResponse } from '@toolfleet/contracts/execution';
import { execMessageOf, Executor, type Call } from '@toolfleet/engine';
import type { NatsClient } from '@toolfleet/transport';
import type { Delegate } from './delegate.js';

/** Raises the fence of a journalled call; undefined when its effect may have begun. */
export type RaiseFence = (callId: string) => Promise<number | undefined>;

/** Runs attempts at an executor over NATS, acknowledged first. */
export class RemoteExecutor extends Executor {
  constructor(
    private readonly nats: NatsClient,
    private readonly subject: string,
    private readonly raiseFence: RaiseFence,
    private readonly delegate: Delegate,
  ) {
    super();
  }

  override execute(call: Call): Promise<ExecResponse> {
    const { onProgress } = call.request;
    return this.nats.requestAcked<ExecResponse>(this.subject, execMessageOf(call, this.delegate(call)), {
      timeoutMs: call.deadline.remainingMs(),
      signal: call.signal,
      ...(onProgress ? { onProgress } : {}),
      // Without a journal entry the call is idempotent: a second executor may run it under any higher fence.
      bumpFence: (fence) => (call.journalled ? this.raiseFence(call.callId) : Promise.resolve(fence + 1)),
    });
  }
}
