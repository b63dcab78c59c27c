import type { JsonObject } from '@toolfleet/contracts';
import type { QuarantinedTool } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';

/**
 * Decides whether a remote definition may come into force: what was approved is pinned, and a change of it,
 * or a first sight that looks like an attempt to instruct the model, waits for an administrator.
 */
export abstract class PinPolicy {
  /**
   * Why `definition` has to wait, or null.
   * @param approved the definition in force; undefined at first sight
   * @param options of the source: `trusted`, `pin`
   * @param removed pin of the definition that was in force when the source stopped naming the tool
   */
  abstract holds(
    definition: ToolDefinition,
    approved: ToolDefinition | undefined,
    options: JsonObject,
    removed?: string,
  ): string | null;
  /** What of a definition is pinned, as a hash; undefined for definitions that are not pinned. */
  abstract pin(definition: ToolDefinition): string | undefined;
  /** What an approval would change, field by field. */
  abstract diff(approved: ToolDefinition | undefined, pending: ToolDefinition): QuarantinedTool['diff'];
}

/** Pins nothing: every definition comes into force. */
export class NoPins extends PinPolicy {
  override holds(): null {
    return null;
  }

  override pin(): undefined {
    return undefined;
  }

  override diff(): QuarantinedTool['diff'] {
    return [];
  }
}
