/**
 * An executor may announce only its own tools, and never with fewer protections than the tool had before. Executors are
 * the least trusted senders of definitions; the registry builds all other definitions itself.
 */
import { ToolError, type Json } from '@toolfleet/contracts';
import { registerSubject } from '@toolfleet/contracts/subjects';
import {
  ANNOUNCED_KINDS,
  TOOLSETS,
  toolsetSource,
  type ToolDefinition,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import { canonicalJson } from '@toolfleet/bounded-schema';
import { PYTHON_SOURCE } from './tool-key.js';

/** Sources by the only subject on which they may be announced. */
const SOURCES: ReadonlyMap<string, readonly ToolSource[]> = new Map(
  TOOLSETS.map((toolset) => [registerSubject(toolset), ANNOUNCED_KINDS.map((kind) => toolsetSource(kind, toolset))]),
);

/** Whether executors announce this source; the registry makes the definitions of all others itself. */
export function isAnnounced({ kind, name }: ToolSource): boolean {
  return ANNOUNCED_KINDS.some((announced) => announced === kind) && name !== PYTHON_SOURCE.name;
}

/**
 * Checks that an announcement arrived on the subject of its toolset. The broker lets only that toolset's user publish there, so
 * a compromised executor cannot replace the tools of another executor, an OpenAPI document or an MCP server.
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

/** Fields of a definition that restrict who may call the tool and how. */
export type Protections = Pick<ToolDefinition, 'dangerous' | 'dangerous_when' | 'requires_auth' | 'required_roles'>;

/**
 * Checks a definition against the protections its tool had in earlier announcements. Protections only ever rise; an operator
 * lowers them by removing the tool first.
 *
 * @throws ToolError PERMISSION_DENIED naming the protections that the definition lowers
 */
export function checkProtections(floor: Protections, definition: Protections): void {
  const lowered: (keyof Protections)[] = [];
  if (floor.dangerous && !definition.dangerous) lowered.push('dangerous');
  if (!definition.dangerous) {
    const kept = new Set(dangerousValues(definition));
    if (dangerousValues(floor).some((value) => !kept.has(value))) lowered.push('dangerous_when');
  }
  if (floor.requires_auth && !definition.requires_auth) lowered.push('requires_auth');
  if (floor.required_roles?.length) {
    // Any one of `required_roles` admits a caller, so an additional role lowers the protection.
    const { required_roles: roles = [] } = definition;
    if (roles.length === 0 || roles.some((role) => !floor.required_roles?.includes(role)))
      lowered.push('required_roles');
  }
  if (lowered.length === 0) return;
  throw new ToolError('PERMISSION_DENIED', {
    message: `The announcement lowers ${lowered.join(', ')}; an operator has to remove the tool first`,
  });
}

/** The floor after `definition` was accepted: the stricter of both, field by field; undefined when nothing is protected. */
export function raisedFloor(floor: Protections | undefined, definition: Protections): Protections | undefined {
  const own = pickProtections(definition);
  if (!floor || !own) return own ?? floor;
  const raised: Protections = { ...floor, ...own };
  const when = [...(floor.dangerous_when ?? []), ...(own.dangerous_when ?? [])];
  const unique = new Map(when.map((entry) => [canonicalJson(entry as unknown as Json), entry]));
  if (unique.size > 0) raised.dangerous_when = [...unique.values()];
  return raised;
}

/** The protections that are set, or undefined when none is. */
function pickProtections(definition: Protections): Protections | undefined {
  const { dangerous, dangerous_when: when, requires_auth: auth, required_roles: roles } = definition;
  const found: Protections = {};
  if (dangerous) found.dangerous = true;
  if (when?.length) found.dangerous_when = when;
  if (auth) found.requires_auth = true;
  if (roles?.length) found.required_roles = roles;
  return Object.keys(found).length > 0 ? found : undefined;
}

/** Each dangerous argument value as canonical JSON, for comparison. */
function dangerousValues({ dangerous_when: when = [] }: Protections): string[] {
  return when.flatMap(({ argument, values }) => values.map((value) => canonicalJson([argument, value])));
}
