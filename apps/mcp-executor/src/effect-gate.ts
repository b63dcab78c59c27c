import { ToolError, type ExecMessage } from '@toolfleet/contracts';

/**
 * Claims a call in the journal right before its effect (reliability.md 1.2), so that no second executor begins it.
 * Injected by type.
 */
export abstract class EffectGate {
  /** @throws ToolError when another attempt holds the claim or the fence is old */
  abstract claim(message: ExecMessage): Promise<void>;
}

/** For processes without a journal: what must not run twice does not run at all. */
export class ClosedGate extends EffectGate {
  override claim(message: ExecMessage): Promise<void> {
    return Promise.reject(
      new ToolError('EXECUTOR_UNAVAILABLE', {
        message: 'This executor has no call journal (REDIS_URL)',
        details: { tool: message.tool, reason: 'no_journal' },
      }),
    );
  }
}
