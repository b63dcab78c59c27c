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

/**
 * For processes without a journal (compute and web have no Redis): a repeatable tool may run, since keyed calls of it are
 * replayed by the gateway from its outcome; what must not run twice does not run at all.
 */
export class RepeatableOnlyGate extends EffectGate {
  /** @param isRepeatable whether a handler's tool is declared idempotent */
  constructor(private readonly isRepeatable: (handler: string) => boolean) {
    super();
  }

  override claim(message: ExecMessage): Promise<void> {
    if (message.binding.kind === 'builtin' && this.isRepeatable(message.binding.handler)) return Promise.resolve();
    return Promise.reject(unavailable(message, 'This executor has no call journal (REDIS_URL)', 'no_journal'));
  }
}

/** Claims in the journal; a journal that is away keeps the gate closed. */
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
    if (!claimed) throw unavailable(message, 'Another attempt of this call has the claim', 'claim_refused');
  }
}

function unavailable(message: ExecMessage, text: string, reason: string, cause?: unknown): ToolError {
  return new ToolError('EXECUTOR_UNAVAILABLE', { message: text, details: { tool: message.tool, reason }, cause });
}
