import { isToolError, ToolError } from '@toolfleet/contracts';
import type { DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { loweredProtections, type Protections } from './protections.js';

const SUPERSEDED = 'superseded';

/** The registration that definitions follow from is not the kept one any more. */
export function superseded({ kind, name }: ToolSource): ToolError {
  return new ToolError('NOT_FOUND', {
    message: `The registration of ${kind}/${name} was undone or replaced meanwhile`,
    details: { reason: SUPERSEDED },
  });
}

/** True for what `superseded` makes: whoever looked for that registration looks no more. */
export function isSuperseded(error: unknown): boolean {
  return isToolError(error) && error.details?.['reason'] === SUPERSEDED;
}

/** What an administrator decided on is not what is there. */
export function changedAgain(pendingRevision?: string): ToolError {
  return new ToolError('REQUEST_INVALID', {
    message: 'The tool changed again since it was shown; look at it once more',
    details: { field: 'pending_revision', ...(pendingRevision ? { pending_revision: pendingRevision } : {}) },
  });
}

/** The name is another source's. */
export function foreignOwner(name: string): ToolError {
  return new ToolError('TOOL_NAME_CONFLICT', {
    message: `The name ${name} belongs to another source; choose another name or set name_prefix`,
  });
}

/** @throws ToolError PERMISSION_DENIED when a definition drops protections that its tool has had */
export function refuseLowered(floor: Protections, definition: ToolDefinition): void {
  const lowered = loweredProtections(floor, definition);
  if (lowered.length === 0) return;
  throw new ToolError('PERMISSION_DENIED', {
    message: `The announcement lowers ${lowered.join(', ')}; an operator has to remove the tool first`,
  });
}

/** @throws ToolError TOOL_NAME_CONFLICT when nothing was registered because names belong to other sources */
export function refuseNamesOfOthers({ registered, refused }: DefinitionRegisterReply): void {
  const conflict = refused.find(({ code }) => code === 'TOOL_NAME_CONFLICT');
  if (conflict && registered.length === 0) throw new ToolError('TOOL_NAME_CONFLICT', { message: conflict.message });
}

/** Why one announced definition was not taken, as the announcer is told. */
export function refusal(announced: unknown, error: unknown): DefinitionRegisterReply['refused'][number] {
  const name = (announced as { name?: unknown } | undefined)?.name;
  const known = isToolError(error) ? error : new ToolError('INTERNAL', { cause: error, message: String(error) });
  return { name: typeof name === 'string' ? name.slice(0, 128) : '', code: known.code, message: known.message };
}
