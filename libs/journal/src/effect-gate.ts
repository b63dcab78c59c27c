import { ToolError, type ExecMessage } from '@toolfleet/contracts';
import type { Journal } from './journal.js';

/**
 * Claims a call in the journal right before its effect (reliability.md 1.2), so that no second executor begins it.
 * Injected by type.
 */
export abstract class EffectGate {
  /** @throws ToolError EXECUTOR_UNAVAILABLE when another attempt holds the claim, the fence is old, or the journal is away */
  abstract claim(message: ExecMessage): Promise<void>;
}

/** Claims in the journal; a journal that is away keeps the gate closed: nothing may run unrecorded. */
export class JournalGate extends EffectGate {
  constructor(private readonly journal: Pick<Journal, 'claim'>) {
    super();
  }

  override async claim(message: ExecMessage): Promise<void> {
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
}

/**
 * For processes without a journal: a repeatable tool may run, since keyed calls of it are replayed by the gateway from its
 * outcome; what must not run twice does not run at all.
 */
export class RepeatableOnlyGate extends EffectGate {
  /** @param isRepeatable whether the tool of a message is declared idempotent; without it nothing is */
  constructor(private readonly isRepeatable: (message: ExecMessage) => boolean = () => false) {
    super();
  }

  override claim(message: ExecMessage): Promise<void> {
    if (this.isRepeatable(message)) return Promise.resolve();
    return Promise.reject(notStarted(message, 'This executor has no call journal (REDIS_URL)', 'no_journal'));
  }
}

function notStarted(message: ExecMessage, text: string, reason: string, cause?: unknown): ToolError {
  const details = { tool: message.tool, reason, started: false };
  return new ToolError('EXECUTOR_UNAVAILABLE', { message: text, details, cause });
}
