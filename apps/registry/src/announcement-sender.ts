import { ToolError } from '@toolfleet/contracts';
import { registerSubject } from '@toolfleet/contracts/subjects';
import { ANNOUNCED_KINDS, TOOLSETS, toolsetSource, type ToolSource } from '@toolfleet/contracts/tool-definition';

/** Sources by the subject on which alone they are announced. */
const SOURCES: ReadonlyMap<string, readonly ToolSource[]> = new Map(
  TOOLSETS.map((toolset) => [registerSubject(toolset), ANNOUNCED_KINDS.map((kind) => toolsetSource(kind, toolset))]),
);

/**
 * Checks that an announcement arrived on the subject of the toolset it speaks for. The broker lets only that toolset's user
 * publish there, so a compromised executor cannot replace the tools of another executor, of an OpenAPI document or of an MCP
 * server.
 *
 * @throws ToolError PERMISSION_DENIED
 */
export function checkSender(subject: string, source: ToolSource): void {
  const own = SOURCES.get(subject);
  if (own?.some(({ kind, name }) => kind === source.kind && name === source.name)) return;
  throw new ToolError('PERMISSION_DENIED', {
    message: `The source ${source.kind}/${source.name} cannot be announced on ${subject}`,
  });
}
