/** How tools and sources are identified: keys, owners, tenants and content revisions. */
import type { Json } from '@toolfleet/contracts';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { canonicalJson, sha256Hex } from '@toolfleet/bounded-schema';

/**
 * Source of `execute_python`. It is separate from the sources of builtin-executor, because an announcement replaces all tools
 * of its source.
 */
export const PYTHON_SOURCE: ToolSource = { kind: 'builtin', name: 'python-sandbox' };

/** Key of a tool: `name`, or `tenant/name` for the tool of a tenant. Unique in the fleet. */
export function toolKey(name: string, tenant: string | undefined): string {
  return tenant === undefined ? name : `${tenant}/${name}`;
}

/** Tool name in a key, without the tenant. */
export function keyName(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Owner of the tools of a source: `kind/name`. */
export function toOwner(source: ToolSource): string {
  return `${source.kind}/${source.name}`;
}

/** Source of an owner made by `toOwner`. */
export function parseOwner(owner: string): ToolSource {
  const slash = owner.indexOf('/');
  return { kind: owner.slice(0, slash) as ToolSource['kind'], name: owner.slice(slash + 1) };
}

/** Source name of a registration: `name`, or `name@tenant`, so that two tenants can use the same name. */
export function sourceName(name: string, tenant: string | undefined): string {
  return tenant === undefined ? name : `${name}@${tenant}`;
}

/** Tenant of a source: `crm@acme` belongs to `acme`. */
export const sourceTenant = ({ name }: ToolSource): string | undefined => splitName(name).tenant;

/** The parts of a name that `sourceName` made. */
export function splitName(name: string): { plain: string; tenant: string | undefined } {
  const at = name.indexOf('@');
  return at < 0 ? { plain: name, tenant: undefined } : { plain: name.slice(0, at), tenant: name.slice(at + 1) };
}

/** Content hash of a definition (16 hex digits). Equal definitions have equal revisions on every replica. */
export function toRevision(definition: ToolDefinition): string {
  return sha256Hex(canonicalJson(definition as unknown as Json)).slice(0, 16);
}
