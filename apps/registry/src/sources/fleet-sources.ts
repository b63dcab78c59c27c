import { invalidRequest, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { faultLine, isFunctionEntry, type FleetFile, type McpEntry, type OpenApiEntry } from '@toolfleet/fleet-file';
import { KeyedMutex, Rounds } from '@toolfleet/resilience';
import { canonicalJson } from '@toolfleet/bounded-schema';
import { FLEET_FILE_FAULT, type ServiceHost } from '@toolfleet/service';
import type { Declarations } from '../redis-declarations.js';
import type { DefinitionService } from '../definition-service.js';
import type { SourceStore } from '../source-store.js';
import { mcpSource } from './mcp-definitions.js';
import type { McpSource } from './mcp.source.js';
import { openApiSource } from './openapi-definitions.js';
import { NOT_DECLARED, type DeclaredSourceState } from './source-statuses.js';
import type { OpenApiSource } from './openapi.source.js';
import type { PythonSource } from './python.source.js';
import { sealMcpSecrets, type SealFor } from './secrets.js';
import { toOwner } from '../tool-key.js';

/** How often the store is compared with the declarations. */
const ROUND_EVERY_MS: Milliseconds = 5_000;
/** Rounds between two in which registrations that changed on other replicas are adopted: 30 s. */
const ROUNDS_PER_FOLLOW = 6;
/** Start of the subject of a source's faults; its owner follows. */
export const SOURCE_FAULT = 'source ';

/** An entry that is in force. */
type FileEntry = { kind: 'openapi'; entry: OpenApiEntry } | { kind: 'mcp'; entry: McpEntry };

/** A source that the configuration file declares, or declared before its entry became invalid. */
type DeclaredEntry = DeclaredSourceState & { inForce?: FileEntry };

interface FleetSourcesDeps {
  python: PythonSource;
  openapi: OpenApiSource;
  mcp: McpSource;
  mcpSealFor: SealFor;
  definitions: DefinitionService;
  sourceStore: SourceStore;
  declarations: Declarations;
  /** Called after each round over the sources. */
  onRound: () => Promise<void>;
}

/**
 * The sources that the registry itself reads: the tool of the sandbox, the entries of the configuration file, and stored
 * registrations that it follows while other replicas change them.
 *
 * An invalid entry keeps its earlier declaration. A source is removed only when a file without any fault no longer has it,
 * and no other replica declares it; a source of a registry that was restarted meanwhile has no entry, but its tools stay.
 */
export class FleetSources {
  readonly name = 'sources';
  private byOwner: ReadonlyMap<string, DeclaredEntry> = new Map();
  /** Owners of stored registrations. */
  private registered: ReadonlySet<string> = new Set();
  /** The file in force has no fault, so undeclared sources may be removed. */
  private isComplete = false;
  private readonly rounds: Rounds;
  private readonly mutex = new KeyedMutex();

  constructor(
    private readonly file: FleetFile,
    private readonly deps: FleetSourcesDeps,
    private readonly host: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
  ) {
    let round = 0;
    this.rounds = new Rounds({
      clock: host.clock,
      everyMs: ROUND_EVERY_MS,
      work: async () => {
        round += 1;
        // Registrations can hold whole documents, so they are read less often.
        await this.mutex.run('', () => (round % ROUNDS_PER_FOLLOW === 0 ? this.follow() : this.reconcile()));
        await deps.onRound();
      },
      onFailure: (error) => host.logger.warn({ error }, 'the sources in the store cannot be compared'),
    });
  }

  /** Sources of the configuration file, those with an invalid entry included. */
  get declared(): readonly DeclaredSourceState[] {
    return [...this.byOwner.values()];
  }

  async start(): Promise<void> {
    await this.deps.python.start();
    this.host.faults.set(FLEET_FILE_FAULT, await this.apply(this.file));
    this.rounds.start();
  }

  async stop(): Promise<void> {
    await this.rounds.stop();
    await this.deps.python.stop();
    this.deps.openapi.stop();
    this.deps.mcp.stop();
    // Best effort: otherwise the lease ends by itself.
    await this.deps.declarations.declare([]).catch(() => undefined);
  }

  /**
   * Puts the entries of a file into force: starts new and changed ones, and removes those that are gone.
   * @returns faults of the entries that are ignored
   */
  apply(file: FleetFile): Promise<readonly string[]> {
    return this.mutex.run('', async () => {
      const next = this.readEntries(file);
      const faults = [...next.values()].flatMap(({ fault }) =>
        fault === undefined ? [] : [`ignoring an entry: ${fault}`],
      );
      this.isComplete = file.isConfigured && file.refused.length === 0 && faults.length === 0;
      const started: FileEntry[] = [];
      for (const [owner, before] of this.byOwner) {
        const one = next.get(owner);
        if (!one && !this.isComplete) next.set(owner, before);
        else if (one?.fault !== undefined) one.inForce = before.inForce;
        else if (!one && before.inForce) this.deps[before.inForce.kind].forget(before.source.name);
      }
      for (const [owner, one] of next) {
        const before = this.byOwner.get(owner);
        if (one.inForce === undefined) continue;
        one.entry = one.inForce.entry as unknown as JsonObject;
        if (canonicalJson(one.entry) !== canonicalJson(before?.inForce ? before.entry : null))
          started.push(one.inForce);
      }
      this.deps.sourceStore.declare(next.keys());
      this.deps.openapi.start(started.flatMap((one) => (one.kind === 'openapi' ? [one.entry] : [])));
      await this.deps.mcp.start(started.flatMap((one) => (one.kind === 'mcp' ? [one.entry] : [])));
      // Only now: an apply that failed is repeated as a whole.
      this.byOwner = next;
      await this.follow();
      return faults;
    });
  }

  /**
   * Removes a source: its tools and its registration, so that no refresh or restart on any replica brings them back.
   * @returns the names of the removed tools
   * @throws ToolError TOOL_NAME_CONFLICT for a source of the configuration file, because the next start would register it again;
   *   NOT_FOUND when there is neither a registration nor a tool
   */
  async unregister(source: ToolSource): Promise<string[]> {
    const { kind, name } = source;
    if (kind !== 'openapi' && kind !== 'mcp') return (await this.deps.definitions.unregister(source)).removed;
    if (this.deps.sourceStore.isDeclared(kind, name))
      throw new ToolError('TOOL_NAME_CONFLICT', {
        message: `${name} is declared in the configuration file; remove it there`,
      });
    const { removed, wasRegistered } = await this.deps.definitions.unregister(source);
    this.deps[kind].forget(name);
    await this.round();
    if (!wasRegistered && removed.length === 0)
      throw new ToolError('NOT_FOUND', { message: `No source '${kind}/${name}'` });
    return removed;
  }

  /**
   * Removes every source that a tenant registered, or counts them. Sources of the configuration file stay: they are counted as
   * `declared_sources` and have to be removed there.
   */
  async purgeTenant(tenant: string, dryRun: boolean): Promise<Record<string, number>> {
    const counts = { sources: 0, definitions: 0, declared_sources: 0 };
    for (const source of await this.deps.definitions.sourcesOf(tenant)) {
      if (this.deps.sourceStore.isDeclared(source.kind as 'openapi' | 'mcp', source.name)) {
        counts.declared_sources += 1;
        continue;
      }
      counts.sources += 1;
      counts.definitions += dryRun
        ? this.deps.definitions.countOf(source)
        : (await this.deps.definitions.unregister(source)).removed.length;
      if (!dryRun && (source.kind === 'openapi' || source.kind === 'mcp')) this.deps[source.kind].forget(source.name);
    }
    return counts;
  }

  /**
   * Looks at a source now: reads the document, or requests the server's list. The outcome is recorded, not thrown.
   * @throws ToolError NOT_FOUND; REQUEST_INVALID when there is nothing to look at
   */
  async refresh(source: ToolSource): Promise<void> {
    const { kind, name } = source;
    if (kind !== 'openapi' && kind !== 'mcp')
      throw invalidRequest(`${name} announces its tools itself; it cannot be refreshed`);
    // Another replica may have registered it since the last round.
    await this.round();
    if (await this.deps[kind].look(name)) return;
    const fault = this.declared.find((one) => toOwner(one.source) === toOwner(source))?.fault;
    if (fault !== undefined) throw invalidRequest(`${fault}; correct the configuration file`);
  }

  private readEntries(file: FleetFile): Map<string, DeclaredEntry> {
    const found = new Map<string, DeclaredEntry>();
    const add = (source: ToolSource, inForce: FileEntry | undefined, fault?: string): void => {
      found.set(toOwner(source), { source, entry: {}, inForce, fault });
    };
    for (const entry of file.openapi) add(openApiSource(entry), { kind: 'openapi', entry });
    for (const entry of file.mcp) {
      try {
        add(mcpSource(entry), {
          kind: 'mcp',
          entry: sealMcpSecrets(entry, this.deps.mcpSealFor?.(mcpSource(entry).name)),
        });
      } catch (error) {
        add(
          mcpSource(entry),
          undefined,
          `${isFunctionEntry(entry) ? 'mcp_tools' : 'mcp_servers'}.${entry.name}: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
    }
    for (const { section, name, tenant, faults } of file.refused) {
      if (section === 'toolsets') continue;
      const source = section === 'openapi_tools' ? openApiSource({ name, tenant }) : mcpSource({ name, tenant });
      add(source, undefined, faults.map(faultLine).join('; '));
    }
    for (const { source, fault } of found.values())
      if (fault !== undefined)
        this.host.logger.error({ entry: source.name }, `an entry of the configuration file is ignored: ${fault}`);
    return found;
  }

  private round(): Promise<void> {
    return this.mutex.run('', () => this.follow());
  }

  /** Adopts registrations that changed on other replicas, and compares the store with the declarations. */
  private async follow(): Promise<void> {
    const registered = new Set<string>();
    for (const kind of ['openapi', 'mcp'] as const) {
      const registrations = await this.deps.sourceStore.registrations(kind);
      await this.deps[kind].follow(registrations);
      for (const { name } of registrations) registered.add(`${kind}/${name}`);
    }
    this.registered = registered;
    await this.reconcile();
  }

  /** Removes undeclared sources, reports those that cannot be removed, and restores lost ones. */
  private async reconcile(): Promise<void> {
    const { declarations, definitions } = this.deps;
    await declarations.declare(this.byOwner.keys());
    const others = await declarations.byOthers();
    const known = [this.byOwner, this.registered, others];
    const undeclared = (await definitions.sources()).filter(
      (source) => isReadHere(source) && !known.some((owners) => owners.has(toOwner(source))),
    );
    if (this.isComplete) for (const source of undeclared) await definitions.removeOrphans(source);
    const kept = new Set(this.isComplete ? [] : undeclared.map(toOwner));
    for (const owner of kept) this.host.faults.set(SOURCE_FAULT + owner, [NOT_DECLARED]);
    // Faults of sources that were removed here or on another replica.
    for (const { subject } of this.host.faults.list()) {
      const owner = subject.startsWith(SOURCE_FAULT) ? subject.slice(SOURCE_FAULT.length) : undefined;
      const isPresent = owner === undefined || kept.has(owner) || this.byOwner.has(owner) || this.registered.has(owner);
      if (!isPresent) this.host.faults.set(subject, []);
    }
    await this.repeatLost();
  }

  /** Registers declared sources again that another replica removed while its file was different. */
  private async repeatLost(): Promise<void> {
    for (const { source, inForce } of this.byOwner.values()) {
      if (!inForce || this.deps.definitions.countOf(source) > 0) continue;
      if (inForce.kind === 'openapi') this.deps.openapi.repeat(inForce.entry);
      else await this.deps.mcp.repeat(inForce.entry);
    }
  }
}

/** Whether the registry reads the source itself; all others announce their tools. */
function isReadHere({ kind }: ToolSource): boolean {
  return kind === 'openapi' || kind === 'mcp';
}
