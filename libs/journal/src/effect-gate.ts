import { isToolError, ToolError } from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import type { Journal } from './journal.js';
import { LateOutcomes } from './late-outcomes.js';

/** Work of an executor; it calls `begin` right before its effect and has no effect when that throws. */
export type GatedWork = (begin: () => Promise<void>) => Promise<ExecResponse>;

/**
 * What stands before the effect of a journalled call, so that no second executor begins it.
 * Injected by type.
 */
export abstract class ExecutionGuard {
  /**
   * Runs the work of one attempt. `begin` claims a journalled call, once, however often it is called, and does nothing for
   * other calls. A refused claim is the answer, whatever the work makes of it: it is no outcome of the tool. The reply of
   * claimed work is kept for the journal in case the gateway cannot store it.
   * @throws ToolError EXECUTOR_UNAVAILABLE out of `begin` when another attempt holds the claim, the fence is old, or the
   *   journal is away; and whatever the work throws
   */
  async run(message: ExecMessage, work: GatedWork): Promise<ExecResponse> {
    if (!message.journalled) return work(() => Promise.resolve());
    let claiming: Promise<void> | undefined;
    let claimed = false;
    let refusal: { error: unknown } | undefined;
    const begin = () =>
      (claiming ??= this.claim(message).then(
        () => {
          claimed = true;
        },
        (error: unknown) => {
          refusal = { error };
          throw error;
        },
      ));
    try {
      const reply = await work(begin);
      if (refusal) throw refusal.error;
      if (claimed) this.keep(message, reply);
      return reply;
    } catch (error) {
      if (claimed && isToolError(error)) this.keep(message, failedResponse(error));
      throw error;
    }
  }

  /** Waits until what is kept has been handed to the journal. */
  async drain(): Promise<void> {}

  protected abstract claim(message: ExecMessage): Promise<void>;

  protected keep(_message: ExecMessage, _reply: ExecResponse): void {}
}

/** Claims in the journal; a journal that is away keeps the gate closed: nothing may run unrecorded. */
export class JournalGuard extends ExecutionGuard {
  readonly #outcomes: LateOutcomes;

  constructor(
    private readonly journal: Pick<Journal, 'claim' | 'finish'>,
    clock: Clock,
  ) {
    super();
    this.#outcomes = new LateOutcomes(journal, clock);
  }

  override drain(): Promise<void> {
    return this.#outcomes.drain();
  }

  protected override async claim(message: ExecMessage): Promise<void> {
    let claimed: boolean;
    try {
      claimed = await this.journal.claim(message.call_id, message.fence, message.attempt);
    } catch (cause) {
      throw notStarted(message, 'The call journal is away', 'journal_away', cause);
    }
    if (claimed) return;
    // Whoever has the claim may have begun: that is not "never started".
    const details = { tool: message.tool, reason: 'claim_refused' };
    throw new ToolError('EXECUTOR_UNAVAILABLE', { message: 'Another attempt of this call has the claim', details });
  }

  protected override keep(message: ExecMessage, reply: ExecResponse): void {
    this.#outcomes.keep(message, reply);
  }
}

/**
 * For processes without a journal: a repeatable tool may run, since keyed calls of it are replayed by the gateway from its
 * outcome; what must not run twice does not run at all.
 */
export class IdempotentOnlyGuard extends ExecutionGuard {
  /** @param isRepeatable whether the tool of a message is declared idempotent; without it nothing is */
  constructor(private readonly isRepeatable: (message: ExecMessage) => boolean = () => false) {
    super();
  }

  protected override claim(message: ExecMessage): Promise<void> {
    if (this.isRepeatable(message)) return Promise.resolve();
    return Promise.reject(notStarted(message, 'This executor has no call journal (REDIS_URL)', 'no_journal'));
  }
}

function notStarted(message: ExecMessage, text: string, reason: string, cause?: unknown): ToolError {
  const details = { tool: message.tool, reason, started: false };
  return new ToolError('EXECUTOR_UNAVAILABLE', { message: text, details, cause });
}
