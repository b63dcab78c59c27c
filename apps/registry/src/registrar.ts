import { ToolError } from '@toolfleet/contracts';
import type { DefinitionChanged, DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { Catalog } from './catalog.js';
import type {
  DefinitionStore,
  Footing,
  PutChange,
  PutTerms,
  Quarantine,
  StoreChange,
  StoredTool,
  ToolWrite,
} from './definition-store.js';
import { decideDefinition } from './decide-definition.js';
import { checkDefinition, tenantOf } from './register-definition.js';
import type { Figures } from './figures.js';
import type { PinPolicy } from './pin-policy.js';
import { isAnnounced, raisedFloor, type Protections } from './protections.js';
import { changedAgain, foreignOwner, refusal, refuseLowered, superseded } from './refusals.js';
import { nameOf, ownerOf, sourceOf, toolKey } from './tool-key.js';

/** Largest announcement whose schemas are compiled one by one; larger documents are compiled when first used. */
const MOST_COMPILED = 300;

/** Definitions checked between two turns of the event loop: a large document must not hold up other messages. */
const CHECKED_AT_ONCE = 20;

/** Times a tool is decided on when others keep changing it meanwhile. */
const MOST_DECISIONS = 10;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** An announcement, and whether the remote side is as it was at the one before. */
interface Announcement {
  message: DefinitionRegister;
  isSameDocument: boolean;
  /** Pins of the tools that the source named before and names again. */
  removedPins: ReadonlyMap<string, string>;
}

/** Takes announcements: checks each definition, settles who owns a name, pins remote tools, tells others what changed. */
export class Registrar {
  constructor(
    private readonly store: DefinitionStore,
    private readonly catalog: Catalog,
    private readonly policies: { figures: Figures; pins: PinPolicy },
    private readonly clock: Clock,
    private readonly changed: (change: DefinitionChanged) => void,
  ) {}

  /**
   * Registers what is right and names what is not; one bad definition never costs the others.
   * @throws ToolError NOT_FOUND when the registration these definitions follow from was undone or replaced meanwhile
   */
  async register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply> {
    const { source } = message;
    const owner = ownerOf(source);
    await this.catalog.refresh();
    const refused: DefinitionRegisterReply['refused'] = [];
    const accepted = new Map<string, ToolWrite>();
    const named = new Set<string>();
    // Schemas of OpenAPI documents are our own work and tested to compile; a collection holds hundreds of large ones.
    const compile = source.kind !== 'openapi' && message.definitions.length <= MOST_COMPILED;
    const floors = await this.floorsFor(message);
    const raised = new Map<string, Protections>();
    const document = await this.documentFor(message, owner);
    const from: Announcement = {
      message,
      isSameDocument: document.isSame,
      removedPins: await this.removedPinsFor(message, owner),
    };
    for (const [index, announced] of message.definitions.entries()) {
      if (index % CHECKED_AT_ONCE === CHECKED_AT_ONCE - 1) await nextTurn();
      const name = (announced as { name?: unknown } | null)?.name;
      const key = toolKey(String(name), tenantOf(source));
      try {
        if (named.has(key))
          throw new ToolError('TOOL_NAME_CONFLICT', { message: 'The source announces this name twice' });
        named.add(key);
        const definition = this.policies.figures.apply(checkDefinition(announced, source, { compile }));
        this.refuseForeign(definition, owner);
        const floor = floors?.get(key);
        if (floor) refuseLowered(floor, definition);
        const next = floors && raisedFloor(floor, definition);
        if (next) raised.set(key, next);
        accepted.set(key, this.decide(key, owner, definition, from));
      } catch (error) {
        refused.push(refusal(announced, error));
      }
    }
    // Before the tools themselves: what is announced next must already find them.
    await this.store.raiseFloors(raised);
    const isRefused = accepted.size === 0 && refused.length > 0;
    const put = await this.write(owner, accepted, from, isRefused && footing?.isNew ? undefined : footing);
    if (put.isSuperseded) throw superseded(source);
    for (const conflict of put.conflicts) {
      accepted.delete(conflict.key);
      refused.push(refusal({ name: nameOf(conflict.key) }, foreignOwner(nameOf(conflict.key))));
    }
    for (const key of put.moved) {
      accepted.delete(key);
      refused.push(
        refusal({ name: nameOf(key) }, new ToolError('SERVICE_UNAVAILABLE', { message: 'Others keep changing it' })),
      );
    }
    // After the tools: until then the text counts as changed, which holds more than necessary, never less.
    if (document.sha256 !== document.kept) await this.store.keepDocument(owner, document.sha256);
    // A definition that is named but wrong keeps its last good version; only what is not named any more goes.
    if (message.replace && !isAnnounced(source)) await this.keepPinsOfOthers(owner, named);
    const retained = message.replace ? await this.store.retain(owner, [...named], footing?.registration) : undefined;
    this.announce(source, [put, ...(retained ? [retained] : [])]);
    const tools = [...accepted.values()].map(({ tool }) => tool);
    return {
      registered: tools.map((tool) => tool.definition.name),
      added: put.added.map(nameOf),
      changed: put.changed.map(nameOf),
      removed: (retained?.removed ?? []).map(nameOf),
      refused,
      quarantined: tools.filter((tool) => tool.quarantine).map((tool) => tool.definition.name),
    };
  }

  /**
   * Removes named tools of one source, and the protections kept for them, so that its executor may announce them with fewer.
   * Answers the names that were removed.
   */
  async remove(source: ToolSource, names: readonly string[]): Promise<string[]> {
    const keys = names.map((name) => toolKey(name, tenantOf(source)));
    const change = await this.store.remove(ownerOf(source), keys);
    if (isAnnounced(source)) await this.store.dropFloors(keys);
    this.announce(source, [change]);
    return change.removed.map(nameOf);
  }

  /** Removes a whole source with its registration. */
  async retire(source: ToolSource): Promise<{ removed: string[]; wasRegistered: boolean }> {
    const change = await this.store.forget(ownerOf(source));
    if (isAnnounced(source)) await this.store.dropFloors(change.removed);
    else {
      await this.store.keepDocument(ownerOf(source), undefined);
      await this.store.dropPins(ownerOf(source));
    }
    this.announce(source, [change]);
    return { removed: change.removed.map(nameOf), wasRegistered: change.wasKept };
  }

  /**
   * Removes the tools of OpenAPI and MCP sources that are neither configured nor registered any more. Executors' own tools
   * are left alone: they announce themselves.
   */
  async retireUnexpected(configured: ReadonlySet<string>): Promise<void> {
    await this.catalog.refresh();
    for (const owner of this.catalog.owners()) {
      const source = sourceOf(owner);
      if ((source.kind !== 'openapi' && source.kind !== 'mcp') || configured.has(owner)) continue;
      this.announce(source, [await this.store.removeOrphans(owner)]);
    }
  }

  /** Marks sources whose announcements stopped; their tools stay listed, unavailable. */
  async expire(): Promise<string[]> {
    const expired = await this.store.expire();
    for (const { owner, change } of expired) this.announce(sourceOf(owner), [change]);
    return expired.map(({ owner }) => owner);
  }

  /** Puts the pending definition of a quarantined tool into force. Refused when it is not the one that was shown. */
  async approve(key: string, pendingRevision: string): Promise<StoredTool> {
    const held = await this.held(key, pendingRevision);
    const { owner, quarantine } = held;
    const approved: StoredTool = { key, owner, definition: quarantine.pending, revision: pendingRevision };
    await this.replace(approved, held);
    return approved;
  }

  /** Keeps the pending definition out for good: it stays in quarantine, marked, until the server serves something else. */
  async reject(key: string, pendingRevision: string, by: string): Promise<void> {
    const held = await this.held(key, pendingRevision);
    await this.replace({ ...held, quarantine: { ...held.quarantine, rejected: { at: this.clock.now(), by } } }, held);
  }

  /** Puts a tool in the place of the one that was shown. */
  private async replace(tool: StoredTool, shown: StoredTool): Promise<void> {
    const change = await this.store.replace(tool, shown);
    if (change.changed.length === 0) throw changedAgain();
    this.announce(tool.definition.source, [change]);
  }

  /** A quarantined tool as it was shown. */
  private async held(key: string, pendingRevision: string): Promise<StoredTool & { quarantine: Quarantine }> {
    await this.catalog.refresh();
    const stored = this.catalog.stored(key);
    const quarantine = stored?.quarantine;
    if (!quarantine) throw new ToolError('NOT_FOUND', { message: 'No tool of this name awaits approval' });
    if (quarantine.pendingRevision !== pendingRevision) {
      throw changedAgain(quarantine.pendingRevision);
    }
    return { ...stored, quarantine };
  }

  /** The protections that announced tools must keep; undefined for sources whose definitions the registry makes itself. */
  private async floorsFor({ source, definitions }: DefinitionRegister): Promise<Map<string, Protections> | undefined> {
    if (!isAnnounced(source)) return undefined;
    return this.store.floors(
      definitions.map((announced) => toolKey(String((announced as { name?: unknown } | null)?.name), undefined)),
    );
  }

  /** The early answer to a foreign name; the store decides again in the step that writes. */
  private refuseForeign(definition: ToolDefinition, owner: string): void {
    const holder = this.catalog.stored(toolKey(definition.name, definition.tenant));
    const fleet = definition.tenant === undefined ? undefined : this.catalog.stored(definition.name);
    if ((holder && holder.owner !== owner) || fleet) throw foreignOwner(definition.name);
  }

  /** Writes what was decided, and decides again on what an administrator or another replica changed meanwhile. */
  private async write(
    owner: string,
    accepted: Map<string, ToolWrite>,
    from: Announcement,
    footing: Footing | undefined,
  ): Promise<PutChange> {
    const { ttl_ms } = from.message;
    const terms: PutTerms = {
      ...(ttl_ms === undefined ? {} : { ttlMs: ttl_ms }),
      ...(footing === undefined ? {} : { footing }),
    };
    const put = await this.store.put(owner, [...accepted.values()], terms);
    for (let round = 1; put.moved.length > 0 && round < MOST_DECISIONS; round += 1) {
      await this.catalog.refresh();
      const writes: ToolWrite[] = [];
      for (const key of put.moved) {
        const decided = accepted.get(key);
        if (!decided) continue;
        const announced = decided.tool.quarantine?.pending ?? decided.tool.definition;
        const again = this.decide(key, owner, announced, from);
        accepted.set(key, again);
        writes.push(again);
      }
      const { version, added, changed, conflicts, moved, isSuperseded } = await this.store.put(owner, writes, {
        ...terms,
        ...(footing === undefined ? {} : { footing: { ...footing, isNew: false } }),
      });
      put.isSuperseded = isSuperseded;
      put.version = version;
      put.added.push(...added);
      put.changed.push(...changed);
      put.conflicts.push(...conflicts);
      put.moved = moved;
    }
    return put;
  }

  private decide(key: string, owner: string, definition: ToolDefinition, from: Announcement): ToolWrite {
    const known = this.catalog.stored(key);
    const { message, isSameDocument, removedPins } = from;
    const removedPin = removedPins.get(key);
    const announced = { key, owner, definition, known, options: message.options ?? {}, isSameDocument, removedPin };
    return decideDefinition(announced, this.policies.pins, this.clock.now());
  }

  /**
   * The document the definitions come from and the one their owner's tools were made of. Where none was kept, by a registry that
   * did not pin documents yet, what is in force counts as made of this one.
   */
  private async documentFor(
    { options }: DefinitionRegister,
    owner: string,
  ): Promise<{ sha256?: string; kept?: string; isSame: boolean }> {
    const sha256 = options?.['document'];
    if (typeof sha256 !== 'string') return { isSame: false };
    const kept = await this.store.documentOf(owner);
    return { sha256, isSame: kept === undefined || kept === sha256, ...(kept === undefined ? {} : { kept }) };
  }

  /** A source that stops naming a tool and names it again later, changed, would otherwise have it taken as a new one. */
  private async keepPinsOfOthers(owner: string, named: ReadonlySet<string>): Promise<void> {
    const pins = new Map<string, string>();
    for (const { key, definition, quarantine } of this.catalog.storedOf(owner)) {
      const pin = named.has(key) || quarantine?.wasApproved === false ? undefined : this.policies.pins.pin(definition);
      if (pin !== undefined) pins.set(key, pin);
    }
    if (pins.size > 0) await this.store.keepPins(owner, pins);
  }

  private async removedPinsFor(
    { source, definitions }: DefinitionRegister,
    owner: string,
  ): Promise<Map<string, string>> {
    if (isAnnounced(source)) return new Map();
    const keys = definitions.map((one) => toolKey(String((one as { name?: unknown } | null)?.name), tenantOf(source)));
    const unknown = keys.filter((key) => !this.catalog.stored(key));
    return unknown.length > 0 ? this.store.removedPins(owner, unknown) : new Map();
  }

  private announce(source: ToolSource, changes: readonly StoreChange[]): void {
    const all = (list: 'added' | 'changed' | 'removed') => changes.flatMap((change) => change[list]).map(nameOf);
    const message: DefinitionChanged = {
      version: Math.max(...changes.map((change) => change.version)),
      source,
      added: all('added'),
      changed: all('changed'),
      removed: all('removed'),
    };
    if (message.added.length + message.changed.length + message.removed.length > 0) this.changed(message);
  }
}
