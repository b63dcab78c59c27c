import type { Json } from '@toolfleet/contracts';
import { ANNOUNCED_KINDS, type ToolDefinition, type ToolSource } from '@toolfleet/contracts/tool-definition';
import { canonicalJson } from '@toolfleet/schema';
import { PYTHON_SOURCE } from './sources/python-tool.js';

/** Fields of a definition that keep callers out. */
export type Protections = Pick<ToolDefinition, 'dangerous' | 'dangerous_when' | 'requires_auth' | 'required_roles'>;

/** Whether executors announce this source; the registry makes the definitions of all others itself. */
export function isAnnounced({ kind, name }: ToolSource): boolean {
  return ANNOUNCED_KINDS.some((announced) => announced === kind) && name !== PYTHON_SOURCE.name;
}

/** What protects a tool, without fields that protect nothing; undefined when nothing does. */
export function protectionsOf(definition: Protections): Protections | undefined {
  const { dangerous, dangerous_when: when, requires_auth: auth, required_roles: roles } = definition;
  const found: Protections = {};
  if (dangerous) found.dangerous = true;
  if (when?.length) found.dangerous_when = when;
  if (auth) found.requires_auth = true;
  if (roles?.length) found.required_roles = roles;
  return Object.keys(found).length > 0 ? found : undefined;
}

/**
 * Names of the protections that `definition` lowers below `floor`. Any one of `required_roles` admits a caller, so a role that
 * was not required before lowers the protection.
 */
export function loweredProtections(floor: Protections, definition: Protections): (keyof Protections)[] {
  const lowered: (keyof Protections)[] = [];
  if (floor.dangerous && !definition.dangerous) lowered.push('dangerous');
  if (!definition.dangerous) {
    const kept = new Set(argumentValues(definition));
    if (argumentValues(floor).some((value) => !kept.has(value))) lowered.push('dangerous_when');
  }
  if (floor.requires_auth && !definition.requires_auth) lowered.push('requires_auth');
  if (floor.required_roles?.length) {
    const { required_roles: roles = [] } = definition;
    if (roles.length === 0 || roles.some((role) => !floor.required_roles?.includes(role)))
      lowered.push('required_roles');
  }
  return lowered;
}

/** The floor after a definition that lowers nothing was accepted: the stricter of both, field by field. */
export function raisedFloor(floor: Protections | undefined, definition: Protections): Protections | undefined {
  const own = protectionsOf(definition);
  if (!floor || !own) return own ?? floor;
  const raised: Protections = { ...floor, ...own };
  const when = [...(floor.dangerous_when ?? []), ...(own.dangerous_when ?? [])];
  const unique = new Map(when.map((entry) => [canonicalJson(entry as unknown as Json), entry]));
  if (unique.size > 0) raised.dangerous_when = [...unique.values()];
  return raised;
}

/** Every dangerous value of every argument as a text that can be compared. */
function argumentValues({ dangerous_when: when = [] }: Protections): string[] {
  return when.flatMap(({ argument, values }) => values.map((value) => canonicalJson([argument, value])));
}
