import { instantOrNull, isJsonObject, toInstant, type JsonObject } from '@toolfleet/contracts';
import type { SourceStatus } from '@toolfleet/contracts/registry';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { hideSecrets } from '@toolfleet/fleet-file';
import { canonicalJson, sha256Hex } from '@toolfleet/bounded-schema';
import type { Catalog } from '../catalog.js';
import type { StoredLook, StoredTool } from '../definition-store.js';
import type { DefinitionStore } from '../redis-definition-store.js';
import { toPendingApproval } from '../quarantine.js';
import { parseOwner, sourceTenant, splitName, toOwner } from '../tool-key.js';

/** The declaration of a source in the configuration file. */
export interface DeclaredSourceState {
  source: ToolSource;
  /** The last valid entry; empty when it is not known, because the registry was restarted since. */
  entry: JsonObject;
  /** The fault of an ignored entry. */
  fault?: string;
}

/** The fault of a source with tools that has no entry and no registration. */
export const NOT_DECLARED =
  'no configuration file declares it; its tools stay until a file without faults does not, or until it is removed over the API';

/**
 * All sources for operators and administrators: declarations, registrations, last refreshes, and the tools.
 * Refreshes of all replicas count, so every replica answers the same.
 */
export class SourceStatuses {
  constructor(
    private readonly store: DefinitionStore,
    private readonly catalog: Catalog,
    private readonly declared: () => readonly DeclaredSourceState[],
  ) {}

  /**
   * Sources by id; with `source` only that one, in detail.
   * @param question `tenant`: only sources of this tenant; null: only those shared with all tenants
   */
  async list({ tenant, source }: { tenant?: string | null | undefined; source?: ToolSource }): Promise<SourceStatus[]> {
    await this.catalog.refresh();
    const [registrations, looks] = await Promise.all([this.store.registrations(), this.store.looks()]);
    const tools = Map.groupBy(this.catalog.all(), (tool) => tool.owner);
    const found = new Map<string, SourceStatus>();
    const isWanted = (one: ToolSource): boolean =>
      source ? toOwner(source) === toOwner(one) : tenant === undefined || (sourceTenant(one) ?? null) === tenant;
    const add = (one: ToolSource, origin: SourceStatus['origin'], entry?: JsonObject, fault?: string): void => {
      const id = toOwner(one);
      if (found.has(id) || !isWanted(one)) return;
      const status = describe(one, origin, tools.get(id) ?? []);
      if (entry) Object.assign(status, { location: toLocation(entry) }, describeLook(looks.get(id)));
      if (origin === 'executor') status.state = this.catalog.isAway(id) ? 'unavailable' : 'ok';
      if (fault !== undefined) Object.assign(status, { state: 'refused', last_error: fault });
      if (source) Object.assign(status, describeDetails(tools.get(id) ?? [], looks.get(id)));
      found.set(id, status);
    };
    for (const { source: one, entry, fault } of this.declared()) add(one, 'config', entry, fault);
    for (const { kind, name, body } of registrations) {
      const fields = isJsonObject(body) ? body : {};
      add({ kind, name }, 'api', fields);
      const shown = source && found.get(toOwner(source));
      if (shown?.origin === 'api' && shown.id === toOwner({ kind, name })) shown.registration = toRegistration(fields);
    }
    for (const owner of tools.keys()) {
      const one = parseOwner(owner);
      if (one.kind === 'builtin' || one.kind === 'plugin') add(one, 'executor');
      else add(one, 'config', {}, NOT_DECLARED);
    }
    return [...found.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }
}

function describe(source: ToolSource, origin: SourceStatus['origin'], tools: readonly StoredTool[]): SourceStatus {
  const { plain: name, tenant = null } = splitName(source.name);
  return {
    id: toOwner(source),
    kind: source.kind,
    ...{ name, tenant, origin },
    location: null,
    state: 'pending',
    tool_count: tools.length,
    quarantined: tools.flatMap((tool) => toPendingApproval(tool) ?? []),
    last_look_at: null,
    last_success_at: null,
    last_error: null,
    next_look_at: null,
  };
}

function describeLook(look: StoredLook | undefined): Partial<SourceStatus> {
  if (!look) return {};
  return {
    state: look.state,
    last_look_at: instantOrNull(look.at),
    last_success_at: instantOrNull(look.okAt),
    last_error: look.error ?? null,
    next_look_at: instantOrNull(look.nextAt),
    protocol_version: look.protocolVersion,
    protocol_switch: look.protocolSwitch && {
      from: look.protocolSwitch.from,
      at: toInstant(look.protocolSwitch.at),
    },
  };
}

function describeDetails(tools: readonly StoredTool[], look: StoredLook | undefined): Partial<SourceStatus> {
  const names = tools.map(({ definition }) => definition.name).toSorted();
  return { tools: names, refused: look?.refused ?? [], notes: look?.notes ?? [] };
}

/** The registration, without its secrets and in place of an inline document its hash: the document may be larger than a message. */
export function toRegistration({
  name: _name,
  tenant: _tenant,
  spec_inline: document,
  ...fields
}: JsonObject): JsonObject {
  const { shown } = hideSecrets(fields);
  if (document === undefined || document === null) return shown;
  const text = typeof document === 'string' ? document : canonicalJson(document);
  return { ...shown, spec_inline: `sha256:${sha256Hex(text)}` };
}

/** Where the entry's tools come from. Passwords of URLs and queries (they can hold keys) are left out. */
function toLocation(entry: JsonObject): string | null {
  const { command, url, spec_url: specUrl, spec_path: specPath } = entry;
  const location = [command, url, specUrl, specPath].find((value) => typeof value === 'string' && value !== '');
  if (typeof location !== 'string') return null;
  return location.replace(/[?#].*$/s, '').replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1');
}
