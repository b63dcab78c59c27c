import { isToolError, type ToolError } from '@toolfleet/contracts';
import type { DefinitionRegisterReply, McpRegisterReply } from '@toolfleet/contracts/registry';
import { checkNameConflict } from '../definition-service.js';
import { approvalNote } from '../quarantine.js';

/** Message of an answer to `preview`. */
export const PREVIEWED = 'Nothing was registered: a preview';

/** Result for a server that lists no tools. */
export const NOTHING_REGISTERED: DefinitionRegisterReply = {
  registered: [],
  added: [],
  changed: [],
  removed: [],
  refused: [],
  quarantined: [],
};

/**
 * The reply to a registration at run time.
 * @param notes lines about registered tools, such as dropped patterns
 * @throws ToolError TOOL_NAME_CONFLICT when all names belong to other sources
 */
export function toRegisterReply(
  name: string,
  outcome: DefinitionRegisterReply | ToolError,
  notes: readonly string[] = [],
): McpRegisterReply {
  if (isToolError(outcome)) {
    const message = `Registration error: ${outcome.message}`;
    return { success: false, tool_name: name, message, registered: [], quarantined: [] };
  }
  checkNameConflict(outcome);
  const { registered, quarantined } = outcome;
  return {
    success: registered.length > 0,
    tool_name: registered[0] ?? name,
    message: [summarize(outcome), approvalNote(quarantined) ?? [], registered.length > 0 ? notes : []]
      .flat()
      .join('; '),
    registered,
    quarantined,
  };
}

function summarize({ registered, refused }: DefinitionRegisterReply): string {
  const reasons = refused.map(({ name, message }) => `${name}: ${message}`).join('; ');
  if (registered.length > 0) return reasons ? `Registered, except ${reasons}` : `Registered ${counted(registered)}`;
  return reasons
    ? `Nothing registered: ${reasons}`
    : 'Nothing registered: the server lists no tools, or none of those the entry allows';
}

/** `6 tools, 1 prompt, resources`, by registered names: those of prompts, skills and resources have their kind before a colon. */
function counted(registered: readonly string[]): string {
  const kinds = registered.map((name) => (name.includes(':') ? name.replace(/:.*/, '') : 'tool'));
  return [...new Set(kinds)]
    .map((kind) => {
      const { length } = kinds.filter((one) => one === kind);
      // The resources of a server are one definition.
      return kind === 'resource' ? 'resources' : `${length} ${kind}${length === 1 ? '' : 's'}`;
    })
    .join(', ');
}
