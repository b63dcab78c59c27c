import { ToolError, type ExecMessage } from '@toolfleet/contracts';
import type { Journal } from '@toolfleet/journal';

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
      throw unavailable(message, 'The call journal is away', 'journal_away', cause);
    }
    // Whoever has the claim may have begun: that is not "never started".
    if (!claimed)
      throw unavailable(message, 'Another attempt of this call has the claim', 'claim_refused', undefined, true);
  }
}

function unavailable(message: ExecMessage, text: string, reason: string, cause?: unknown, started = false): ToolError {
  const details = { tool: message.tool, reason, ...(started ? {} : { started: false }) };
  return new ToolError('EXECUTOR_UNAVAILABLE', { message: text, details, cause });
}
