import { ToolError, type CallResult, type CallState } from '@toolfleet/contracts';
import { callBody, explainFailure, failed } from '@toolfleet/engine';
import { unknownOutcome, type Journal } from '@toolfleet/journal';
import type { JobQueue } from '@toolfleet/queue';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { AsyncCallJob, AcceptedCall } from './call-store.js';
import type { RedisCallStore } from './redis-call-store.js';
import { stateOf, type CallEnds } from './call-ends.js';

/** How often a gateway looks for calls after their time. */
const SWEEP_MS = 1_000;
/** Calls that one look ends; the next one ends further ones. */
const MAX_SWEPT = 500;

interface LostCallsDeps {
  queue: Pick<JobQueue<AsyncCallJob, unknown>, 'record' | 'withdraw' | 'discard' | 'time'>;
  store: Pick<RedisCallStore, 'overdue'>;
  /** Decides how a call with a begun effect ends. */
  journal: Pick<Journal, 'read' | 'withdraw'>;
  ends: CallEnds;
  clock: Clock;
}

/**
 * Ends the calls that no worker ends: their job waits past their deadline, or has ended or lost its worker. `rounds` is a lifecycle component;
 * every gateway looks for them each second, and readers of a call need not wait for that. A job is taken out of the queue first,
 * which fails while a worker has it, so a call is ended here or by its worker, never by both.
 */
export class LostCalls {
  readonly rounds: Rounds;

  constructor(private readonly deps: LostCallsDeps) {
    this.rounds = new Rounds({
      name: 'ends of lost calls',
      clock: deps.clock,
      everyMs: SWEEP_MS,
      work: () => this.sweep(),
    });
  }

  /** Ends the calls that are past their deadline. */
  async sweep(): Promise<void> {
    const { store, queue } = this.deps;
    const calls = await store.overdue(queue.time.now(), MAX_SWEPT);
    await Promise.all(calls.map((call) => this.settle(call)));
  }

  /** Ends an open call if its job has failed, or its time is over and no worker has it. */
  async settle(call: AcceptedCall): Promise<void> {
    const { queue } = this.deps;
    const { callId, jobId = callId, deadlineAt = Infinity } = call;
    const job = await queue.record(jobId);
    if (job.state !== 'failed') {
      if (queue.time.now() < deadlineAt || job.isHeld) return;
      const isOut = job.state === 'completed' || job.state === 'unknown' || (await queue.withdraw(jobId));
      if (!isOut) return;
    }
    const end = await this.#findEnd(call, job.error);
    if (!end) return;
    await this.#end(call, end);
    // Its record has the arguments (may be large).
    if (job.state === 'failed') await queue.discard(jobId);
  }

  /**
   * How a call without a worker ends; undefined while an executor may still store its outcome.
   * @param failure of its job
   */
  async #findEnd({ callId, tool, state }: AcceptedCall, failure?: ToolError): Promise<CallResult | undefined> {
    const { journal } = this.deps;
    const entered = await journal.withdraw(callId, 'expired');
    if (entered === 'claimed') return undefined;
    if (entered === 'succeeded' || entered === 'failed' || entered === 'outcome_unknown')
      return (await journal.read(callId))?.outcome ?? unknownOutcome(callId, tool);
    if (failure && failure.code !== 'DEADLINE_EXCEEDED') return failed(failure);
    // A call outside the journal may run twice, so it may have begun.
    if (entered === undefined && state === 'claimed') {
      const message = `The gateway that ran '${tool}' was lost, and the time of the call is over`;
      return failed(new ToolError('ATTEMPT_TIMED_OUT', { message }));
    }
    return failed(
      failure ?? new ToolError('DEADLINE_EXCEEDED', { message: 'The call waited for a worker until its deadline' }),
    );
  }

  async #end(call: AcceptedCall, result: CallResult): Promise<void> {
    const { ends, clock } = this.deps;
    const explained = result.ok ? result : explainFailure(call.tool, result);
    const state: CallState = stateOf(result);
    await ends.end(call, state, callBody(call.callId, explained, Math.max(0, clock.now() - call.acceptedAt)));
  }
}
