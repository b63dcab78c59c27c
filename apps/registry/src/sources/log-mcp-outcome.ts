import type { DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { Logger } from '@toolfleet/telemetry';

/** Tells operators which tools of a server were not taken in, and which wait for them. */
export function logOutcome(
  logger: Logger,
  server: string,
  { refused, quarantined }: DefinitionRegisterReply,
  notes: readonly string[] = [],
): void {
  for (const { name, message } of refused) {
    logger.warn({ server, tool: name, reason: message }, 'an MCP tool was refused');
  }
  if (notes.length > 0) logger.warn({ server, notes }, 'schemas of MCP tools were changed');
  if (quarantined.length > 0) logger.warn({ server, tools: quarantined }, 'MCP tools changed and await approval');
}
