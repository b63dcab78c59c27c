import type { ToolSource } from '@toolfleet/contracts/tool-definition';

/** Key of a tool: names are unique per tenant, and fleet-wide for tools of no tenant. */
export function toolKey(name: string, tenant: string | undefined): string {
  return tenant === undefined ? name : `${tenant}/${name}`;
}

/** Owner of a source's tools. */
export function ownerOf(source: ToolSource): string {
  return `${source.kind}/${source.name}`;
}

/** Name in a key: what follows the tenant. */
export function nameOf(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Source of an owner. */
export function sourceOf(owner: string): ToolSource {
  const slash = owner.indexOf('/');
  return { kind: owner.slice(0, slash) as ToolSource['kind'], name: owner.slice(slash + 1) };
}
