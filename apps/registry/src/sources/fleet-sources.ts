import { ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { Registrations } from '../registrations.js';
import type { Registrar } from '../registrar.js';
import { readMcpEntries, type McpEntry } from './mcp-entry.js';
import { mcpSource } from './mcp-definitions.js';
import { storableEntry } from './mcp-secrets.js';
import type { McpSource } from './mcp.source.js';
import { openApiSource } from './openapi-definitions.js';
import { readOpenApiEntries } from './openapi-entry.js';
import type { SealFor } from './openapi-secrets.js';
import type { KeptOpenApiSource } from './kept-openapi.source.js';
import type { PythonSource } from './python.source.js';

/** How often registrations made, replaced or undone at another replica are looked for. */
const RESUME_EVERY_MS: Milliseconds = 30_000;

/** Starts everything the registry itself knows of: the sandbox's tool, the configuration file, and kept registrations. */
export class FleetSources {
  readonly name = 'sources';
  private cancelTimer: CancelTimer | undefined;
  private stopped = false;

  constructor(
    private readonly file: JsonObject,
    private readonly sources: { python: PythonSource; openapi: KeptOpenApiSource; mcp: McpSource; mcpSealFor: SealFor },
    private readonly registrar: Registrar,
    private readonly registrations: Registrations,
    private readonly host: { clock: Clock; logger: Logger },
  ) {}

  async start(): Promise<void> {
    const openapi = readOpenApiEntries(this.file);
    const mcp = readMcpEntries(this.file);
    for (const { name, message } of [...openapi.faults, ...mcp.faults]) {
      this.host.logger.error({ entry: name }, `an entry of the configuration file is left out: ${name} ${message}`);
    }
    const servers = this.storable(mcp.entries);
    this.registrations.declare(
      'openapi',
      openapi.entries.map((entry) => openApiSource(entry).name),
    );
    this.registrations.declare(
      'mcp',
      servers.map((entry) => mcpSource(entry).name),
    );
    await this.sources.python.start();
    await this.registrar.retireUnexpected(this.registrations.declared);
    this.sources.openapi.start(openapi.entries);
    await this.sources.mcp.start(servers);
    await this.resume();
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
   * Removes the tools of a whole source with its registration, so that neither a look, here or at another replica, nor a start
   * brings them back. Answers the names that were removed.
   * @throws ToolError TOOL_NAME_CONFLICT for a source of the configuration file: it would be back with the next start;
   *   NOT_FOUND when there is neither a registration nor a tool
   */
  async retire(source: ToolSource): Promise<string[]> {
    const { kind, name } = source;
    if (kind !== 'openapi' && kind !== 'mcp') return (await this.registrar.retire(source)).removed;
    if (this.registrations.isDeclared(kind, name))
      throw new ToolError('TOOL_NAME_CONFLICT', {
        message: `${name} is declared in the configuration file; remove it there`,
      });
    const { removed, wasRegistered } = await this.registrar.retire(source);
    this.sources[kind].forget(name);
    if (!wasRegistered && removed.length === 0)
      throw new ToolError('NOT_FOUND', { message: `No source '${kind}/${name}'` });
    return removed;
  }

  /** Takes up what was registered, replaced or undone at other replicas and before this process started. */
  private async resume(): Promise<void> {
    for (const kind of ['openapi', 'mcp'] as const) {
      await this.sources[kind].follow(await this.registrations.kept(kind));
    }
  }

  private schedule(): void {
    if (this.stopped) return;
    this.cancelTimer = this.host.clock.after(RESUME_EVERY_MS, () => {
      this.resume()
        .catch((error: unknown) => this.host.logger.warn({ error }, 'kept registrations cannot be read'))
        .finally(() => this.schedule());
    });
  }

  /** Literal secrets of the file are sealed like any other; one that cannot be costs its entry only. */
  private storable(entries: readonly McpEntry[]): McpEntry[] {
    return entries.flatMap((entry) => {
      try {
        return [storableEntry(entry, this.sources.mcpSealFor?.(mcpSource(entry).name))];
      } catch (error) {
        this.host.logger.error(
          { entry: entry.name },
          `an entry of the configuration file is left out: ${String(error)}`,
        );
        return [];
      }
    });
  }
}
