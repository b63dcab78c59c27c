import { isToolError, ToolError } from '@toolfleet/contracts';
import type {
  DefinitionChanged,
  DefinitionRegister,
  DefinitionRegisterReply,
  RefusedTool,
} from '@toolfleet/contracts/registry';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { checkProtections, isAnnounced, raisedFloor, type Protections } from './announcements.js';
import type { Catalog } from './catalog.js';
import { checkDefinition } from './check-definition.js';
import {
  sharingSince,
  toDefinitionChanged,
  type Footing,
  type PutChange,
  type StoreChange,
  type ToolWrite,
} from './definition-store.js';
import type { DefinitionStore } from './redis-definition-store.js';
import { admitOrQuarantine, isPinned, toPendingApproval, toPin } from './quarantine.js';
import { supersededError } from './source-store.js';
import { keyName, parseOwner, sourceTenant, toolKey, toOwner } from './tool-key.js';
import type { RegisteredOverrides } from './tool-overrides.js';

/** Largest announcement with schemas that are compiled one by one; larger ones' are compiled at first use. */
const MAX_COMPILED = 300;

/** Definitions checked in one turn of the event loop, so that a large document does not block other messages. */
const CHECKED_PER_TURN = 20;

/** Attempts to write a tool that others keep changing. */
const MAX_DECISIONS = 10;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** An announcement with the stored state of its source. */
interface Announcement {
  message: DefinitionRegister;
  owner: string;
  /** The remote document is the one from which the stored tools were made. */
  isSameDocument: boolean;
  /** Pins of tools that the source listed before, stopped listing, and lists again. */
  removedPins: ReadonlyMap<string, string>;
  /** Definitions of the source that are in effect. */
  inEffect: readonly ToolDefinition[];
}

/** Findings of the checks of an announcement. */
interface Checked {
  accepted: Map<string, ToolWrite>;
  refused: RefusedTool[];
  /** Keys the source lists, including refused definitions. */
  listed: Set<string>;
}

/**
 * Registers and removes definitions: checks each announced definition, resolves who owns a name, applies protections, quarantine
 * and overrides, writes the store, and publishes what changed.
 */
export class DefinitionService {
  constructor(
    private readonly store: DefinitionStore,
    private readonly catalog: Catalog,
    private readonly overrides: RegisteredOverrides,
    private readonly clock: Clock,
    private readonly publish: (change: DefinitionChanged) => void,
  ) {}

  /**
   * Registers the valid definitions of an announcement and reports the others as refused, each with its reason.
   * @param footing the registration the definitions result from, when they were registered at run time
   * @throws ToolError NOT_FOUND when that registration was removed or replaced meanwhile (`isSuperseded`)
   */
  async register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply> {
    const { source } = message;
    const owner = toOwner(source);
    await this.catalog.refresh();
    const sha256 = typeof message.options?.['document'] === 'string' ? message.options['document'] : undefined;
    const storedSha256 = sha256 === undefined ? undefined : await this.store.documentHash(owner);
    const announcement: Announcement = {
      message,
      owner,
      // Tools registered before document hashes were stored count as made of this document.
      isSameDocument: sha256 !== undefined && (storedSha256 === undefined || storedSha256 === sha256),
      removedPins: await this.removedPins(message, owner),
      inEffect: this.catalog
        .ownedBy(owner)
        .filter(({ quarantine }) => quarantine?.wasApproved ?? true)
        .map(({ definition }) => definition),
    };
    const { accepted, refused, listed } = await this.check(announcement);
    const isRefused = accepted.size === 0 && refused.length > 0;
    const put = await this.write(announcement, accepted, isRefused && footing?.isNew ? undefined : footing);
    if (put.isSuperseded) throw supersededError(source);
    for (const { key } of put.conflicts) {
      accepted.delete(key);
      refused.push(toRefusal(keyName(key), foreignOwner(keyName(key))));
    }
    for (const key of put.moved) {
      accepted.delete(key);
      const error = new ToolError('SERVICE_UNAVAILABLE', { message: 'Concurrent changes of this tool; retry later' });
      refused.push(toRefusal(keyName(key), error));
    }
    // After the tools: until then the document counts as changed; this holds more definitions than necessary, never fewer.
    if (sha256 !== storedSha256) await this.store.keepDocumentHash(owner, sha256);
    // An invalid definition keeps its last valid version; only tools that are no longer listed are removed.
    if (message.replace && !isAnnounced(source)) await this.keepPinsOfUnlisted(owner, listed);
    const retained = message.replace ? await this.store.retain(owner, [...listed], footing?.registration) : undefined;
    this.publishChanges(source, retained ? [put, retained] : [put]);
    const tools = [...accepted.values()].map(({ tool }) => tool);
    return {
      registered: tools.map((tool) => tool.definition.name),
      added: put.added.map(keyName),
      changed: put.changed.map(keyName),
      removed: (retained?.removed ?? []).map(keyName),
      refused,
      quarantined: tools.flatMap((tool) => toPendingApproval(tool) ?? []),
    };
  }

  /**
   * Removes named tools of one source and their stored protections, so that the executor may announce them with fewer.
   * @returns the names that were removed
   */
  async remove(source: ToolSource, names: readonly string[]): Promise<string[]> {
    const keys = names.map((name) => toolKey(name, sourceTenant(source)));
    const change = await this.store.remove(toOwner(source), keys);
    if (isAnnounced(source)) await this.store.dropFloors(keys);
    this.publishChanges(source, [change]);
    return change.removed.map(keyName);
  }

  /** Removes a whole source with its registration, its pins and protections. */
  async unregister(source: ToolSource): Promise<{ removed: string[]; wasRegistered: boolean }> {
    const owner = toOwner(source);
    const change = await this.store.forget(owner);
    if (isAnnounced(source)) await this.store.dropFloors(change.removed);
    else {
      await this.store.keepDocumentHash(owner, undefined);
      await this.store.dropPins(owner);
      await this.store.keepLook(owner, undefined);
    }
    this.publishChanges(source, [change]);
    return { removed: change.removed.map(keyName), wasRegistered: change.wasKept };
  }

  /** Sources of a tenant: those with tools, and stored registrations. */
  async sourcesOf(tenant: string): Promise<ToolSource[]> {
    await this.catalog.refresh();
    const registered = (await this.store.registrations()).map(({ kind, name }) => toOwner({ kind, name }));
    const owners = new Set([...this.catalog.owners(), ...registered]);
    return [...owners].map(parseOwner).filter((source) => sourceTenant(source) === tenant);
  }

  /** Number of stored tools of a source. */
  countOf(source: ToolSource): number {
    return [...this.catalog.ownedBy(toOwner(source))].length;
  }

  /** Sources with stored tools. */
  async sources(): Promise<ToolSource[]> {
    await this.catalog.refresh();
    return [...this.catalog.owners()].map(parseOwner);
  }

  /** Removes the tools of a source, unless a registration of it is stored. */
  async removeOrphans(source: ToolSource): Promise<void> {
    this.publishChanges(source, [await this.store.removeOrphans(toOwner(source))]);
  }

  /** Marks sources that stopped announcing; their tools stay listed as unavailable. Returns their owners. */
  async expire(): Promise<string[]> {
    const expired = await this.store.expire();
    for (const { owner, change } of expired) this.publishChanges(parseOwner(owner), [change]);
    return expired.map(({ owner }) => owner);
  }

  /** Checks every definition of an announcement on its own and stores the protections of the accepted ones. */
  private async check(announcement: Announcement): Promise<Checked> {
    const { message, owner } = announcement;
    const { source, definitions } = message;
    const accepted = new Map<string, ToolWrite>();
    const refused: RefusedTool[] = [];
    const listed = new Set<string>();
    // The schemas of OpenAPI tools are generated by our converter and tested to compile; a document holds hundreds of large ones.
    const compile = source.kind !== 'openapi' && definitions.length <= MAX_COMPILED;
    const floors = isAnnounced(source)
      ? await this.store.floors(definitions.map((one) => toolKey(announcedName(one), undefined)))
      : undefined;
    const raised = new Map<string, Protections>();
    for (const [index, announced] of definitions.entries()) {
      if (index % CHECKED_PER_TURN === CHECKED_PER_TURN - 1) await nextTurn();
      const name = announcedName(announced);
      const key = toolKey(name, sourceTenant(source));
      try {
        if (listed.has(key))
          throw new ToolError('TOOL_NAME_CONFLICT', { message: 'The source announces this name twice' });
        listed.add(key);
        const declared = checkDefinition(announced, source, compile);
        const definition = this.overrides.apply(declared);
        this.checkOwner(definition, owner);
        // Floors hold what executors announced, so that the operator can take settings back.
        const floor = floors?.get(key);
        if (floor) checkProtections(floor, declared);
        const next = floors && raisedFloor(floor, declared);
        if (next) raised.set(key, next);
        accepted.set(key, this.decide(key, definition, announcement));
      } catch (error) {
        refused.push(toRefusal((announced as { name?: unknown } | undefined)?.name, error));
      }
    }
    // Before the tools are written, so that the next announcement already finds them.
    await this.store.raiseFloors(raised);
    return { accepted, refused, listed };
  }

  /** Rejects the names of other owners early. The store checks again atomically when it writes. */
  private checkOwner(definition: ToolDefinition, owner: string): void {
    const holder = this.catalog.stored(toolKey(definition.name, definition.tenant));
    const fleet = definition.tenant === undefined ? undefined : this.catalog.stored(definition.name);
    if ((holder && holder.owner !== owner) || fleet) throw foreignOwner(definition.name);
  }

  /**
   * Writes the accepted tools. A tool that an administrator or another replica changed since the decision is decided again on
   * its new state, so that the write never undoes an approval. Updates `accepted`.
   */
  private async write(
    announcement: Announcement,
    accepted: Map<string, ToolWrite>,
    footing: Footing | undefined,
  ): Promise<PutChange> {
    const { owner, message } = announcement;
    const ttlMs = message.ttl_ms;
    const put = await this.store.put(owner, [...accepted.values()], { ttlMs, footing });
    for (let round = 1; put.moved.length > 0 && round < MAX_DECISIONS; round += 1) {
      await this.catalog.refresh();
      const writes: ToolWrite[] = [];
      for (const key of put.moved) {
        const decided = accepted.get(key);
        if (!decided) continue;
        const again = this.decide(key, decided.tool.quarantine?.pending ?? decided.tool.definition, announcement);
        accepted.set(key, again);
        writes.push(again);
      }
      const next = await this.store.put(owner, writes, { ttlMs, footing: footing && { ...footing, isNew: false } });
      put.isSuperseded = next.isSuperseded;
      put.version = next.version;
      put.added.push(...next.added);
      put.changed.push(...next.changed);
      put.conflicts.push(...next.conflicts);
      put.moved = next.moved;
    }
    return put;
  }

  private decide(key: string, definition: ToolDefinition, announcement: Announcement): ToolWrite {
    const { owner, message, isSameDocument, removedPins, inEffect } = announcement;
    const known = this.catalog.stored(key);
    const options = message.options ?? {};
    const removedPin = removedPins.get(key);
    const now = this.clock.now();
    const announced = { key, owner, definition, known, options, isSameDocument, removedPin, inEffect };
    const write = admitOrQuarantine(announced, now);
    return { ...write, tool: { ...write.tool, sharedSince: sharingSince(write.tool.definition, known, now) } };
  }

  /** Keeps the pins of tools about to be removed: a source must not drop a tool and list it again, changed, as a new one. */
  private async keepPinsOfUnlisted(owner: string, listed: ReadonlySet<string>): Promise<void> {
    const pins = new Map<string, string>();
    for (const { key, definition, quarantine } of this.catalog.ownedBy(owner)) {
      const isHeld = listed.has(key) || quarantine?.wasApproved === false || !isPinned(definition);
      if (!isHeld) pins.set(key, toPin(definition));
    }
    if (pins.size > 0) await this.store.keepPins(owner, pins);
  }

  private async removedPins({ source, definitions }: DefinitionRegister, owner: string): Promise<Map<string, string>> {
    if (isAnnounced(source)) return new Map();
    const keys = definitions.map((one) => toolKey(announcedName(one), sourceTenant(source)));
    const unknown = keys.filter((key) => !this.catalog.stored(key));
    return unknown.length > 0 ? this.store.removedPins(owner, unknown) : new Map();
  }

  private publishChanges(source: ToolSource, changes: readonly StoreChange[]): void {
    const message = toDefinitionChanged(source, changes);
    if (message) this.publish(message);
  }
}

/** Name of a definition that was not checked yet. */
function announcedName(announced: unknown): string {
  return String((announced as { name?: unknown } | null)?.name);
}

function foreignOwner(name: string): ToolError {
  return new ToolError('TOOL_NAME_CONFLICT', {
    message: `The name ${name} belongs to another source; choose another name or set name_prefix`,
  });
}

function toRefusal(name: unknown, error: unknown): RefusedTool {
  const known = isToolError(error) ? error : new ToolError('INTERNAL', { cause: error, message: String(error) });
  return { name: typeof name === 'string' ? name.slice(0, 128) : '', code: known.code, message: known.message };
}

/**
 * Fails a registration of which nothing was registered because its names belong to other sources.
 * @throws ToolError TOOL_NAME_CONFLICT
 */
export function checkNameConflict({ registered, refused }: DefinitionRegisterReply): void {
  const conflict = refused.find(({ code }) => code === 'TOOL_NAME_CONFLICT');
  if (conflict && registered.length === 0) throw new ToolError('TOOL_NAME_CONFLICT', { message: conflict.message });
}
