import { ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import type { CancelTimer } from '@toolfleet/resilience';
import type { ServiceHost } from '@toolfleet/service';
import type { DefinitionService } from '../definition-service.js';
import type { SourceStore } from '../source-store.js';
import { readMcpEntries, type McpEntry } from './mcp-entry.js';
import { mcpSource } from './mcp-definitions.js';
import type { McpSource } from './mcp.source.js';
import { openApiSource } from './openapi-definitions.js';
import { readOpenApiEntries } from './openapi-entry.js';
import type { DeclaredSource } from './source-statuses.js';
import type { OpenApiSource } from './openapi.source.js';
import type { PythonSource } from './python.source.js';
import { sealMcpSecrets, type SealFor } from './secrets.js';
import { toOwner } from '../tool-key.js';

/** How often registrations changed on other replicas are adopted. */
const FOLLOW_EVERY_MS: Milliseconds = 30_000;
/** Start of the subject of a source's faults; its owner follows. */
export const SOURCE_FAULT = 'source ';

/**
 * The sources that the registry itself reads: the tool of the sandbox, the entries of the configuration file, and stored
 * registrations, which it follows while other replicas change them.
 */
export class FleetSources {
  readonly name = 'sources';
  /** Sources of the configuration file, those with an invalid entry included. */
  declared: DeclaredSource[] = [];
  private cancelTimer: CancelTimer | undefined;
  private stopped = false;

  constructor(
    private readonly file: JsonObject,
    private readonly sources: { python: PythonSource; openapi: OpenApiSource; mcp: McpSource; mcpSealFor: SealFor },
    private readonly definitions: DefinitionService,
    private readonly sourceStore: SourceStore,
    private readonly host: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
  ) {}

  async start(): Promise<void> {
    const openapi = readOpenApiEntries(this.file);
    const mcp = readMcpEntries(this.file);
    for (const { name, message } of openapi.faults) this.refuse({ kind: 'openapi', name }, message);
    for (const { name, message } of mcp.faults) this.refuse({ kind: 'mcp', name }, message);
    const servers = this.sealed(mcp.entries);
    for (const entry of openapi.entries) this.declare(openApiSource(entry), entry);
    for (const entry of servers) this.declare(mcpSource(entry), entry);
    this.sourceStore.declare(
      'openapi',
      openapi.entries.map((entry) => openApiSource(entry).name),
    );
    this.sourceStore.declare(
      'mcp',
      servers.map((entry) => mcpSource(entry).name),
    );
    await this.sources.python.start();
    await this.definitions.unregisterUnexpected(this.sourceStore.declared);
    this.sources.openapi.start(openapi.entries);
    await this.sources.mcp.start(servers);
    await this.follow();
    this.schedule();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    this.sources.python.stop();
    this.sources.openapi.stop();
    this.sources.mcp.stop();
  }

  /**
   * Removes a source: its tools and its registration, so that no refresh or restart on any replica brings them back.
   * @returns the names of the removed tools
   * @throws ToolError TOOL_NAME_CONFLICT for a source of the configuration file, which the next start would register again;
   *   NOT_FOUND when there is neither a registration nor a tool
   */
  async unregister(source: ToolSource): Promise<string[]> {
    const { kind, name } = source;
    if (kind !== 'openapi' && kind !== 'mcp') return (await this.definitions.unregister(source)).removed;
    if (this.sourceStore.isDeclared(kind, name))
      throw new ToolError('TOOL_NAME_CONFLICT', {
        message: `${name} is declared in the configuration file; remove it there`,
      });
    const { removed, wasRegistered } = await this.definitions.unregister(source);
    this.sources[kind].forget(name);
    await this.follow();
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
    for (const source of await this.definitions.sourcesOf(tenant)) {
      if (this.sourceStore.isDeclared(source.kind as 'openapi' | 'mcp', source.name)) {
        counts.declared_sources += 1;
        continue;
      }
      counts.sources += 1;
      counts.definitions += dryRun
        ? this.definitions.countOf(source)
        : (await this.definitions.unregister(source)).removed.length;
      if (!dryRun && (source.kind === 'openapi' || source.kind === 'mcp'))
        this.sources[source.kind].forget(source.name);
    }
    return counts;
  }

  /**
   * Looks at a source now: reads the document, or requests the server's list. What the look gave is recorded, not thrown.
   * @throws ToolError NOT_FOUND; REQUEST_INVALID when there is nothing to look at
   */
  async refresh(source: ToolSource): Promise<void> {
    const { kind, name } = source;
    if (kind !== 'openapi' && kind !== 'mcp')
      throw new ToolError('REQUEST_INVALID', { message: `${name} announces its tools itself; it cannot be refreshed` });
    // Another replica may have registered it since the last round.
    await this.follow();
    if (await this.sources[kind].look(name)) return;
    const fault = this.declared.find((one) => toOwner(one.source) === toOwner(source))?.fault;
    if (fault === undefined) return;
    const message = `${fault}; correct the configuration file and restart the registry`;
    throw new ToolError('REQUEST_INVALID', { message });
  }

  private declare(source: ToolSource, entry: object): void {
    this.declared.push({ source, entry: entry as JsonObject });
  }

  /** Ignores an invalid entry, visibly. */
  private refuse(source: ToolSource, message: string): void {
    const fault = `${source.name} ${message}`;
    this.declared.push({ source, entry: {}, fault });
    const refused = this.declared.flatMap((one) => one.fault ?? []);
    this.host.faults.set(
      'configuration file',
      refused.map((text) => `ignoring an entry: ${text}`),
    );
    this.host.logger.error({ entry: source.name }, `ignoring an entry of the configuration file: ${fault}`);
  }

  private async follow(): Promise<void> {
    const known = new Set(this.sourceStore.declared);
    for (const kind of ['openapi', 'mcp'] as const) {
      const registrations = await this.sourceStore.registrations(kind);
      await this.sources[kind].follow(registrations);
      for (const { name } of registrations) known.add(`${kind}/${name}`);
    }
    // Faults of sources that were removed here or on another replica.
    for (const { subject } of this.host.faults.list()) {
      const owner = subject.startsWith(SOURCE_FAULT) ? subject.slice(SOURCE_FAULT.length) : undefined;
      if (owner !== undefined && !known.has(owner)) this.host.faults.set(subject, []);
    }
  }

  private schedule(): void {
    if (this.stopped) return;
    this.cancelTimer = this.host.clock.after(FOLLOW_EVERY_MS, () => {
      this.follow()
        .catch((error: unknown) => this.host.logger.warn({ error }, 'stored registrations cannot be read'))
        .finally(() => this.schedule());
    });
  }

  /** Seals literal secrets of the file, because definitions contain them. An entry that cannot be sealed is left out. */
  private sealed(entries: readonly McpEntry[]): McpEntry[] {
    return entries.flatMap((entry) => {
      try {
        return [sealMcpSecrets(entry, this.sources.mcpSealFor?.(mcpSource(entry).name))];
      } catch (error) {
        this.refuse(mcpSource(entry), error instanceof Error ? error.message : String(error));
        return [];
      }
    });
  }
}
