import { isToolError, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS, quotaExceeded } from '@toolfleet/contracts/account';
import { ToolsetView } from '@toolfleet/catalog';
import { toolAllowed } from '@toolfleet/engine/access';
import { isForModels, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { PendingApproval } from '@toolfleet/contracts/registry';
import {
  TOOLSET_SCHEMA,
  type ServedToolset,
  type ToolOverride,
  type ToolsetDetail,
  type ToolsetOrigin,
  type ToolsetSpec,
  type ToolsetSummary,
  type ToolsetVersion,
} from '@toolfleet/contracts/toolset';
import { suggestion } from '@toolfleet/contracts/text';
import { faultLine, findToolsetFaults, type FleetFile } from '@toolfleet/fleet-file';
import type { Clock } from '@toolfleet/resilience';
import { canonicalJson, validateMessage } from '@toolfleet/bounded-schema';
import { FLEET_FILE_FAULT, type ServiceHost } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';
import type { Catalog } from './catalog.js';
import type { Declarations } from './redis-declarations.js';
import { sourceName, splitName } from './tool-key.js';
import type { OverridePin, RedisToolsetStore, StoredVersion } from './redis-toolset-store.js';
import { changedFields, coveredFields, findMisfits, toPinKey } from './toolset-overrides.js';

const readSpec = validateMessage<ToolsetSpec>(TOOLSET_SCHEMA as unknown as JsonObject);
const MAX_SPEC_CHARS = 64 * 1024;
/** Attempts to write a toolset that others keep changing. */
const MAX_WRITES = 5;
/** Prefix of the subject of a toolset's fault, before its id. */
const TOOLSET_FAULT = 'toolset ';

/** Tenants, undefined for the fleet. */
type TenantScope = readonly (string | undefined)[] | 'all';

/** A new version, from `spec` or from an older version. */
interface NewVersion {
  id: string;
  /** Checked as an entry of the configuration file is. */
  spec?: unknown;
  restore_version?: number;
  /** A user, for the history. */
  by: string;
}

/** The state of the overrides of one version. */
interface OverrideStates {
  approved: Record<string, string>;
  quarantined: PendingApproval[];
  notes: string[];
}

/**
 * Toolsets of the configuration file and of the API: their versions, and which of their overrides are in effect. Every change
 * makes a new version. Ids are `name`, or `name@tenant`; `ToolsetRoutes` checks who may use which.
 */
export class ToolsetService {
  readonly name = 'toolsets';
  private declared: ReadonlySet<string> = new Set();
  /** The file in force has no fault, so undeclared toolsets may be removed. */
  private isComplete = false;

  constructor(
    private readonly file: FleetFile,
    private readonly store: RedisToolsetStore,
    private readonly catalog: Catalog,
    private readonly host: { clock: Clock; logger: Logger; faults: Pick<ServiceHost['faults'], 'set'> },
    private readonly declarations: Declarations,
    private readonly publishChanged: (id: string) => void,
    /** Toolsets of one tenant, and shared ones. */
    private readonly most: number = DEFAULT_QUOTAS.toolsets,
  ) {}

  start(): Promise<void> {
    return this.apply(this.file);
  }

  /** Best effort: otherwise the lease of the declarations ends by itself. */
  async stop(): Promise<void> {
    await this.declarations.declare([]).catch(() => undefined);
  }

  /** Stores the toolsets of a configuration file that are new or changed. An invalid entry keeps the stored version. */
  async apply(file: FleetFile): Promise<void> {
    const refused = file.refused.filter(({ section }) => section === 'toolsets');
    const faults = new Map(refused.map(({ name, faults: found }) => [name, found.map(faultLine).join('; ')]));
    for (const [id, entry] of Object.entries(file.toolsets)) {
      try {
        await this.write(id, checkSpec(entry), { origin: 'config', by: FLEET_FILE_FAULT });
      } catch (error) {
        if (!isToolError(error) || error.code !== 'REQUEST_INVALID') throw error;
        faults.set(id, error.message);
      }
    }
    for (const id of new Set([...this.declared, ...faults.keys()])) {
      const fault = faults.get(id);
      this.host.faults.set(TOOLSET_FAULT + id, fault === undefined ? [] : [`its entry is ignored: ${fault}`]);
      if (fault !== undefined)
        this.host.logger.error({ toolset: id, fault }, 'a toolset of the configuration file is ignored');
    }
    this.isComplete = file.isConfigured && file.refused.length === 0 && faults.size === 0;
    const declared = new Set([...Object.keys(file.toolsets), ...faults.keys()]);
    this.declared = this.isComplete ? declared : new Set([...this.declared, ...declared]);
    await this.removeUndeclared();
  }

  /** Removes toolsets of configuration files that neither this replica's nor another's declares any more. */
  async removeUndeclared(): Promise<void> {
    await this.declarations.declare(this.declared);
    if (!this.isComplete) return;
    const others = await this.declarations.byOthers();
    for (const [id, { origin }] of await this.store.heads()) {
      if (origin !== 'config' || this.declared.has(id) || others.has(id)) continue;
      await this.store.remove(id);
      this.publishChanged(id);
    }
  }

  /** The toolset of this name that a tenant uses, in a version or the latest; null if there is none. */
  async get(tenantId: string, name: string, version?: number): Promise<ServedToolset | null> {
    for (const tenant of [tenantId, undefined]) {
      const id = sourceName(name, tenant);
      const head = await this.store.head(id);
      if (!head) continue;
      const wanted = version === undefined ? head : await this.store.version(id, version);
      if (!wanted) return null;
      const { approved, quarantined } = await this.overrideStates(id, wanted.spec, [tenantId]);
      return { name, tenant: tenant ?? null, version: wanted.version, spec: wanted.spec, approved, quarantined };
    }
    return null;
  }

  /** Toolsets by id. @param tenant null: shared ones; absent: all, for operators */
  async list(tenant: string | null | undefined): Promise<ToolsetSummary[]> {
    const heads = [...(await this.store.heads())].filter(
      ([id]) => tenant === undefined || (tenantOf(id) ?? null) === tenant,
    );
    const scopeOf = (id: string): TenantScope => (tenant === undefined && !tenantOf(id) ? 'all' : [tenantOf(id)]);
    const found = await Promise.all(
      heads.map(async ([id, head]) => toSummary(id, head, await this.overrideStates(id, head.spec, scopeOf(id)))),
    );
    return found.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** One toolset with its history. @throws ToolError NOT_FOUND, also for a version that is not kept */
  async show(id: string, version?: number): Promise<ToolsetDetail> {
    const head = await this.store.head(id);
    const shown = head && (version === undefined ? head : await this.store.version(id, version));
    if (!shown) throw noToolset(id, version);
    const states = await this.overrideStates(id, shown.spec);
    return {
      ...toSummary(id, shown, states),
      spec: shown.spec,
      notes: [...(await this.unmatched(id, shown.spec)), ...states.notes],
      versions: (await this.store.versions(id)).map(toVersion),
    };
  }

  /** Names of the tools that a tenant sees in a toolset, in its order; null if the tenant's own toolset has the name of this shared one. */
  async toolNames({ name, tenant, version }: ToolsetDetail, tenantId: string): Promise<string[] | null> {
    const served = await this.get(tenantId, name, version);
    if (served?.tenant !== tenant) return null;
    await this.catalog.refresh();
    const tools = this.catalog.toolsOf(tenantId).filter((tool) => !tool.dangerous && isForModels(tool));
    return new ToolsetView(served).list(tools).map((tool) => tool.name);
  }

  /**
   * Makes a new version.
   * @throws ToolError REQUEST_INVALID; NOT_FOUND for a version to restore that is not kept; TOOL_NAME_CONFLICT for a toolset of
   *   the configuration file
   */
  async put({ id, spec, restore_version: restores, by }: NewVersion): Promise<ToolsetDetail> {
    this.requireUndeclared(id);
    if (restores === undefined) {
      await this.write(id, checkSpec(spec), { origin: 'api', by });
    } else {
      const old = (await this.store.head(id)) && (await this.store.version(id, restores));
      if (!old) throw noToolset(id, restores);
      await this.write(id, old.spec, { origin: 'api', by, restores });
    }
    return this.show(id);
  }

  /** @throws ToolError NOT_FOUND; TOOL_NAME_CONFLICT for a toolset of the configuration file */
  async remove(id: string): Promise<void> {
    this.requireUndeclared(id);
    if (!(await this.store.remove(id))) throw noToolset(id);
    this.publishChanged(id);
  }

  /**
   * Puts an override into effect for the definition as it is now.
   * @throws ToolError NOT_FOUND when it awaits no approval; REQUEST_INVALID when the definition changed since it was shown, or
   *   the override does not fit it
   */
  async approve(id: string, tool: string, pendingRevision: string, by: string): Promise<ToolsetDetail> {
    const head = await this.store.head(id);
    if (!head) throw noToolset(id);
    const tenants = tenantOf(id) === undefined ? 'all' : [tenantOf(id)];
    const { quarantined } = await this.overrideStates(id, head.spec, tenants);
    const waiting = quarantined.filter(({ name }) => name === tool);
    const pending = waiting.find(({ pending_revision: revision }) => revision === pendingRevision) ?? waiting[0];
    const override = head.spec.overrides?.[tool];
    const tools = this.toolsNamed(tool, tenants);
    const definition = tools.find(({ revision }) => revision === pendingRevision) ?? tools[0];
    if (!pending || !override || !definition)
      throw new ToolError('NOT_FOUND', { message: `No override of ${tool} in toolset ${id} awaits an approval` });
    if (definition.revision !== pendingRevision) {
      const message = 'The tool changed since it was shown; review it again';
      throw new ToolError('REQUEST_INVALID', { message, details: { field: 'pending_revision' } });
    }
    const misfits = findMisfits(definition, override);
    if (misfits.length > 0) throw invalid(`overrides.${tool}`, misfits.join('; '));
    const pin = {
      revision: pendingRevision,
      fields: coveredFields(definition, override),
      at: this.host.clock.now(),
      by,
    };
    // Tenants may have the same definition.
    for (const one of tools)
      if (one.revision === pendingRevision) await this.store.keepPin(id, pinKey(id, one, override), pin, false);
    this.host.logger.warn(
      { toolset: id, tool, revision: pendingRevision, approved_by: by },
      'an override was approved',
    );
    this.publishChanged(id);
    return this.show(id);
  }

  /** Removes all toolsets of a tenant except the configuration file's, and its pins of shared ones; or counts the toolsets. */
  async purgeTenant(tenant: string, dryRun: boolean): Promise<number> {
    const all = [...(await this.store.heads()).keys()];
    const ids = all.filter((id) => tenantOf(id) === tenant && !this.declared.has(id));
    if (dryRun) return ids.length;
    for (const id of all) if (tenantOf(id) === undefined) await this.store.erasePins(id, pinPrefix(tenant));
    for (const id of ids) {
      await this.store.erase(id);
      this.publishChanged(id);
    }
    return ids.length;
  }

  private requireUndeclared(id: string): void {
    if (!this.declared.has(id)) return;
    const message = `Toolset ${id} is declared in the configuration file; change it there`;
    throw new ToolError('TOOL_NAME_CONFLICT', { message });
  }

  /** Stores a version unless the latest one is the same. */
  private async write(
    id: string,
    spec: ToolsetSpec,
    { origin, by, restores }: { origin: ToolsetOrigin; by: string; restores?: number },
  ): Promise<void> {
    if (origin === 'api') await this.checkNew(id, spec);
    for (let round = 1; round <= MAX_WRITES; round += 1) {
      const head = await this.store.head(id);
      if (head?.origin === origin && canonicalJson(head.spec as Json) === canonicalJson(spec as Json)) return;
      const version = (await this.store.latest(id)) + 1;
      const stored: StoredVersion = { version, spec, origin, createdAt: this.host.clock.now(), by, restores };
      if (await this.store.put(id, stored)) {
        this.host.logger.info({ toolset: id, version, changed_by: by }, 'a toolset changed');
        this.publishChanged(id);
        return;
      }
    }
    throw new ToolError('SERVICE_UNAVAILABLE', { message: `Concurrent changes of toolset ${id}; retry later` });
  }

  /** @throws ToolError QUOTA_EXCEEDED; REQUEST_INVALID for an override that does not fit its tool */
  private async checkNew(id: string, spec: ToolsetSpec): Promise<void> {
    const ids = [...(await this.store.heads()).keys()].filter((other) => tenantOf(other) === tenantOf(id));
    if (!ids.includes(id) && ids.length >= this.most) throw quotaExceeded('toolsets', this.most);
    await this.catalog.refresh();
    for (const [name, override] of Object.entries(spec.overrides ?? {})) {
      const tool = this.catalog.get(name, tenantOf(id));
      const misfits = tool?.name === name ? findMisfits(tool, override) : [];
      if (misfits.length > 0) throw invalid(`overrides.${name}`, misfits.join('; '));
    }
  }

  /**
   * Which overrides are in effect. An override is pinned to the definition of its tool when it is first checked against it.
   * @param tenants their tools count; `all` is for operators, because it shows the tools of every tenant
   */
  private async overrideStates(
    id: string,
    spec: ToolsetSpec,
    tenants: TenantScope = [tenantOf(id)],
  ): Promise<OverrideStates> {
    const states: OverrideStates = { approved: {}, quarantined: [], notes: [] };
    const overrides = Object.entries(spec.overrides ?? {});
    if (overrides.length === 0) return states;
    await this.catalog.refresh();
    const pins = await this.store.pins(id);
    for (const [name, override] of overrides) {
      const tools = this.toolsNamed(name, tenants);
      if (tools.length === 0) states.notes.push(`overrides.${name}: ${this.noTool(name, tenantOf(id))}`);
      for (const tool of tools) await this.addState(states, id, override, tool, pins.get(pinKey(id, tool, override)));
    }
    return states;
  }

  private async addState(
    states: OverrideStates,
    id: string,
    override: ToolOverride,
    tool: RegisteredTool,
    pin: OverridePin | undefined,
  ): Promise<void> {
    const { name, revision } = tool;
    if (tool.quarantine) return void states.notes.push(`overrides.${name}: the tool awaits an approval itself`);
    const fields = coveredFields(tool, override);
    const reasons = findMisfits(tool, override);
    const changed = pin ? changedFields(pin.fields, fields) : [];
    if (changed.length > 0) reasons.unshift(`changed: ${changed.join(', ')}`);
    if (reasons.length > 0)
      return void states.quarantined.push({ name, reason: reasons.join('; '), pending_revision: revision });
    const first = { revision, fields, at: this.host.clock.now() };
    if (!pin) await this.store.keepPin(id, pinKey(id, tool, override), first, true);
    states.approved[name] = revision;
  }

  /** Names and globs of a selection that match no tool: the toolset has less than its writer means. */
  private async unmatched(id: string, { include, exclude }: ToolsetSpec): Promise<string[]> {
    await this.catalog.refresh();
    const known = [...this.catalog.names(tenantOf(id))];
    return Object.entries({ include, exclude }).flatMap(([part, selection]) =>
      (selection?.tools ?? [])
        .filter((glob) => !known.some((name) => toolAllowed([glob], name)))
        .map((glob) => `${part}.tools: ${glob}: ${this.noTool(glob, tenantOf(id))}`),
    );
  }

  private noTool(name: string, tenant: string | undefined): string {
    const meant = suggestion(name, this.catalog.names(tenant));
    return tenant === undefined && meant === ''
      ? 'no tool of the fleet; it covers the tools of tenants with this name'
      : `no such tool${meant}`;
  }

  /** The tools that an override of this name covers. */
  private toolsNamed(name: string, tenants: TenantScope): RegisteredTool[] {
    const tools = (tenants === 'all' ? this.catalog.tenantsOf(name) : tenants).map((one) =>
      this.catalog.get(name, one),
    );
    return tools.filter((tool) => tool?.name === name) as RegisteredTool[];
  }
}

/** A tenant's own tool has another pin than a tool of the fleet with its name. */
function pinKey(id: string, { name, tenant }: RegisteredTool, override: ToolOverride): string {
  const key = toPinKey(name, override);
  return tenant === undefined || tenant === tenantOf(id) ? key : pinPrefix(tenant) + key;
}

const pinPrefix = (tenant: string): string => `${tenant}/`;

/** @throws ToolError REQUEST_INVALID naming the field */
function checkSpec(value: unknown): ToolsetSpec {
  if (JSON.stringify(value ?? null).length > MAX_SPEC_CHARS)
    throw invalid('toolset', `must have at most ${MAX_SPEC_CHARS} characters of JSON`);
  const spec = readSpec(value);
  const [fault] = findToolsetFaults(spec);
  if (fault) throw invalid(fault.path, fault.message);
  return spec;
}

function invalid(field: string, message: string): ToolError {
  return new ToolError('REQUEST_INVALID', { message: `${field}: ${message}`, details: { field } });
}

function noToolset(id: string, version?: number): ToolError {
  return new ToolError('NOT_FOUND', {
    message: version === undefined ? `No toolset '${id}'` : `No version ${version} of toolset '${id}' is kept`,
  });
}

const tenantOf = (id: string): string | undefined => splitName(id).tenant;

function toVersion({ version, createdAt, by, origin, restores }: StoredVersion): ToolsetVersion {
  return { version, created_at: new Date(createdAt).toISOString(), created_by: by, origin, restores };
}

function toSummary(id: string, stored: StoredVersion, { quarantined }: OverrideStates): ToolsetSummary {
  const { plain: name, tenant = null } = splitName(id);
  return {
    ...toVersion(stored),
    ...{ id, name, tenant },
    description: stored.spec.description ?? null,
    quarantined,
  };
}
