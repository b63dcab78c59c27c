import { isToolError, type ToolError } from '@toolfleet/contracts';
import type { DefinitionRegisterReply, McpRegisterReply } from '@toolfleet/contracts/registry';
import { refuseNamesOfOthers } from '../refusals.js';

/** What a server that lists nothing leaves behind. */
export const NOTHING_REGISTERED: DefinitionRegisterReply = {
  registered: [],
  added: [],
  changed: [],
  removed: [],
  refused: [],
  quarantined: [],
};

/**
 * What became of a registration at run time, for whoever made it.
 * @param notes lines about registered tools, such as dropped patterns
 * @throws ToolError TOOL_NAME_CONFLICT when all there is belongs to somebody else
 */
export function registerReply(
  name: string,
  outcome: DefinitionRegisterReply | ToolError,
  notes: readonly string[] = [],
): McpRegisterReply {
  if (isToolError(outcome)) {
    const message = `Registration error: ${outcome.message}${adviceOn(outcome)}`;
    return { success: false, tool_name: name, message, registered: [] };
  }
  refuseNamesOfOthers(outcome);
  const { registered } = outcome;
  return {
    success: registered.length > 0,
    tool_name: registered[0] ?? name,
    message: [inWords(outcome), ...(registered.length > 0 ? notes : [])].join('; '),
    registered,
  };
}

function inWords({ registered, refused }: DefinitionRegisterReply): string {
  const reasons = refused.map(({ name, message }) => `${name}: ${message}`).join('; ');
  if (registered.length > 0)
    return reasons ? `Registered, except ${reasons}` : `Registered ${registered.length} tool(s)`;
  return reasons
    ? `Nothing registered: ${reasons}`
    : 'Nothing registered: the server lists no tools, or none of those the entry allows';
}

/** Another service refuses the address; whoever registers a server cannot know where to let it in. */
function adviceOn({ code }: ToolError): string {
  if (code !== 'EGRESS_REFUSED') return '';
  return '; allow the host in MCP_ALLOWED_DOMAINS of mcp-executor, or a private address as exact origin in EGRESS_ALLOWED_ENDPOINTS';
}
