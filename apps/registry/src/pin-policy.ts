import type { JsonObject, QuarantinedTool, ToolDefinition } from '@toolfleet/contracts';

/**
 * Decides whether a remote definition may come into force: what was approved is pinned, and a change of it,
 * or a first sight that looks like an attempt to instruct the model, waits for an administrator.
 */
export abstract class PinPolicy {
  /**
   * Why `definition` has to wait, or null.
   * @param approved the definition in force; undefined at first sight
   * @param options of the source: `trusted`, `pin`
   */
  abstract holds(definition: ToolDefinition, approved: ToolDefinition | undefined, options: JsonObject): string | null;
  /** What an approval would change, field by field. */
  abstract diff(approved: ToolDefinition | undefined, pending: ToolDefinition): QuarantinedTool['diff'];
}

/** Pins nothing: every definition comes into force. */
export class NoPins extends PinPolicy {
  override holds(): null {
    return null;
  }

  override diff(): QuarantinedTool['diff'] {
    return [];
  }
}
