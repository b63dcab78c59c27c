/** Pages of MCP Apps: pinned with the tools that show them, so that a page that changed after the approval is not shown. */
import { ProtocolError } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import { appPage, pageDigest, pinnedPage } from '@toolfleet/contracts/app-page';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { FeatureCaller } from './features.js';
import { SERVER_ERROR } from './rpc-errors.js';
import type { FoundResource } from './resource-subscriptions.js';

/**
 * Checks a resource that was read against the digest in the approved definition of the tool that shows it. Resources that are not pages,
 * and pages of servers whose changes need no approval, pass.
 * @throws ProtocolError when no tool that the caller sees shows this page unchanged
 */
export async function requireApprovedPage(
  { deps, principal }: Pick<FeatureCaller, 'deps' | 'principal'>,
  { definition, uri }: FoundResource,
  { contents }: JsonObject,
): Promise<void> {
  const pages = definition.listing?.['pages'];
  if (!Array.isArray(pages) || !pages.includes(uri)) return;
  const digest = pageDigest(contents);
  const isOfServer = ({ source }: RegisteredTool) => source.name === definition.source.name;
  const tools = await deps.listTools(principal, true);
  if (tools.some((tool) => isOfServer(tool) && appPage(tool.listing) === uri && pinnedPage(tool.listing) === digest))
    return;
  const message = `The page ${uri.slice(0, 200)} awaits approval: it has changed, or your key has no tool that shows it`;
  throw new ProtocolError(SERVER_ERROR, message, { code: 'TOOL_QUARANTINED' });
}
