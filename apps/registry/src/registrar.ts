import {
  isToolError,
  ToolError,
  type DefinitionChanged,
  type DefinitionRegister,
  type DefinitionRegisterReply,
  type DefinitionRetire,
  type JsonObject,
  type ToolDefinition,
  type ToolSource,
} from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Catalog } from './catalog.js';
import type { DefinitionStore, PutChange, Quarantine, StoreChange, StoredTool, ToolWrite } from './definition-store.js';
import { checkDefinition, revisionOf, tenantOf } from './register-definition.js';
import type { Figures } from './figures.js';
import type { PinPolicy } from './pin-policy.js';
import { nameOf, ownerOf, sourceOf, toolKey } from './tool-key.js';

/** Largest announcement whose schemas are compiled one by one; larger documents are compiled when first used. */
const MOST_COMPILED = 300;

/** Definitions checked between two turns of the event loop: a large document must not hold up other messages. */
const CHECKED_AT_ONCE = 20;

/** Times a tool is decided on when others keep changing it meanwhile. */
const MOST_DECISIONS = 10;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Takes announcements: checks each definition, settles who owns a name, pins remote tools, tells others what changed. */
export class Registrar {
  constructor(
    private readonly store: DefinitionStore,
    private readonly catalog: Catalog,
    private readonly policies: { figures: Figures; pins: PinPolicy },
    private readonly clock: Clock,
    private readonly changed: (change: DefinitionChanged) => void,
  ) {}

  /** Registers what is right and names what is not; one bad definition never costs the others. */
  async register(message: DefinitionRegister): Promise<DefinitionRegisterReply> {
    const { source } = message;
    const owner = ownerOf(source);
    await this.catalog.refresh();
    const refused: DefinitionRegisterReply['refused'] = [];
    const accepted = new Map<string, ToolWrite>();
    const named = new Set<string>();
    // Schemas of OpenAPI documents are our own work and tested to compile; a collection holds hundreds of large ones.
    const compile = source.kind !== 'openapi' && message.definitions.length <= MOST_COMPILED;
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
        accepted.set(key, this.decide(key, owner, definition, message.options));
      } catch (error) {
        refused.push(refusal(announced, error));
      }
    }
    const put = await this.write(owner, accepted, message);
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
    // A definition that is named but wrong keeps its last good version; only what is not named any more goes.
    const retained = message.replace ? await this.store.retain(owner, [...named]) : undefined;
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

  /** Removes tools of one source. */
  async retire({ source, names }: DefinitionRetire, tenant?: string): Promise<string[]> {
    const keys = names?.map((name) => toolKey(name, tenant));
    const change = await this.store.remove(ownerOf(source), keys);
    this.announce(source, [change]);
    return change.removed.map(nameOf);
  }

  /**
   * Removes the tools of OpenAPI and MCP sources that are neither configured nor registered any more. Executors' own tools
   * are left alone: they announce themselves.
   */
  async retireUnexpected(expected: ReadonlySet<string>): Promise<void> {
    await this.catalog.refresh();
    for (const owner of this.catalog.owners()) {
      const source = sourceOf(owner);
      if ((source.kind === 'openapi' || source.kind === 'mcp') && !expected.has(owner)) await this.retire({ source });
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
    { ttl_ms, options }: DefinitionRegister,
  ): Promise<PutChange> {
    const put = await this.store.put(owner, [...accepted.values()], ttl_ms);
    for (let round = 1; put.moved.length > 0 && round < MOST_DECISIONS; round += 1) {
      await this.catalog.refresh();
      const writes: ToolWrite[] = [];
      for (const key of put.moved) {
        const decided = accepted.get(key);
        if (!decided) continue;
        const announced = decided.tool.quarantine?.pending ?? decided.tool.definition;
        const again = this.decide(key, owner, announced, options);
        accepted.set(key, again);
        writes.push(again);
      }
      const { version, added, changed, conflicts, moved } = await this.store.put(owner, writes, ttl_ms);
      put.version = version;
      put.added.push(...added);
      put.changed.push(...changed);
      put.conflicts.push(...conflicts);
      put.moved = moved;
    }
    return put;
  }

  /** What becomes of an announced definition: in force, or held until an administrator has seen it. */
  private decide(key: string, owner: string, definition: ToolDefinition, options: JsonObject = {}): ToolWrite {
    const revision = revisionOf(definition);
    const fresh: StoredTool = { key, owner, definition, revision };
    if (definition.binding.kind !== 'mcp') return { tool: fresh };
    const known = this.catalog.stored(key);
    const over = known ?? null;
    const approved = known && (!known.quarantine || known.quarantine.wasApproved) ? known : undefined;
    const reason = this.policies.pins.holds(definition, approved?.definition, options);
    if (reason === null) return { tool: fresh, over };
    // The same change announced again keeps the instant at which it was first seen, and what an administrator said of it.
    const same = known?.quarantine?.pendingRevision === revision ? known.quarantine : undefined;
    const tool: StoredTool = {
      key,
      owner,
      definition: approved?.definition ?? definition,
      revision: approved?.revision ?? revision,
      quarantine: {
        reason,
        sinceAt: same?.sinceAt ?? this.clock.now(),
        pending: definition,
        pendingRevision: revision,
        wasApproved: approved !== undefined,
        ...(same?.rejected ? { rejected: same.rejected } : {}),
      },
    };
    return { tool, over };
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

function changedAgain(pendingRevision?: string): ToolError {
  return new ToolError('REQUEST_INVALID', {
    message: 'The tool changed again since it was shown; look at it once more',
    details: { field: 'pending_revision', ...(pendingRevision ? { pending_revision: pendingRevision } : {}) },
  });
}

function foreignOwner(name: string): ToolError {
  return new ToolError('TOOL_NAME_CONFLICT', {
    message: `The name ${name} belongs to another source; choose another name or set name_prefix`,
  });
}

function refusal(announced: unknown, error: unknown): DefinitionRegisterReply['refused'][number] {
  const name = (announced as { name?: unknown } | undefined)?.name;
  const known = isToolError(error) ? error : new ToolError('INTERNAL', { cause: error, message: String(error) });
  return { name: typeof name === 'string' ? name.slice(0, 128) : '', code: known.code, message: known.message };
}
