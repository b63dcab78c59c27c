import { toToolError, type JsonObject, type ToolError } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply } from '@toolfleet/contracts/execution';
import type { DefinitionRegisterReply, McpRegisterReply } from '@toolfleet/contracts/registry';
import { START_SECONDS, type ToolSource } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { Footing, SourceLook, StoredRegistration } from '../definition-store.js';
import { isSuperseded } from '../source-store.js';
import { toLookState } from './source-look.js';
import { WatchedSources, type SourceDeps, type Watched } from './source-watch.js';
import {
  discoverMessage,
  mcpSource,
  serverNotes,
  toAnnouncement,
  toFunctionDefinition,
  toServerDefinitions,
} from './mcp-definitions.js';
import { isFunctionEntry, type McpEntry } from '@toolfleet/fleet-file';
import { NOTHING_REGISTERED, PREVIEWED, toRegisterReply } from './mcp-register-reply.js';

interface McpSourceDeps extends SourceDeps {
  /** `exec.mcp.discover`: only mcp-executor connects to MCP servers. */
  discover(message: DiscoverMessage, timeoutMs: number): Promise<DiscoverReply>;
}

/** A server with a tool list that is requested again and again. */
interface WatchedServer extends Watched<McpEntry> {
  isRefreshing: boolean;
  /** Its list changed while it was being requested, so the result may be outdated. */
  isStale: boolean;
}

/** Time for the lists of a server that has started. */
const LISTS_MS = 15_000;
/** A server that takes longer to start shows in the status of its source. */
const SLOW_START_MS = 2_000;
/** Used when neither the entry nor the server tells how long a list stays current. */
const DEFAULT_REFRESH_MS = 300_000;
const MIN_REFRESH_MS = 30_000;

/**
 * Keeps the definitions of MCP servers current. The tool list is requested at the start, when it expires (the server's TTL or
 * `refresh_seconds`), and when the server reports a change.
 */
export class McpSource extends WatchedSources<McpEntry, WatchedServer> {
  /** Servers with a registration in progress. */
  private readonly adding = new Set<WatchedServer>();
  /** Registrations of function entries, by source name. */
  private readonly functions = new Map<string, StoredRegistration>();

  constructor(
    private readonly deps: McpSourceDeps,
    clock: Clock,
    logger: Logger,
  ) {
    super(deps.keepLook, clock, logger);
  }

  protected override source(entry: McpEntry): ToolSource {
    return mcpSource(entry);
  }

  /** Takes new and changed entries of the configuration file. Does not wait for the servers. */
  async start(entries: readonly McpEntry[]): Promise<void> {
    for (const entry of entries) {
      this.forget(mcpSource(entry).name);
      if (isFunctionEntry(entry)) await this.registerFunction(entry);
      else void this.refresh(this.watch(watchedServer(entry)));
    }
  }

  override async follow(stored: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(stored.map(({ name }) => name));
    for (const name of this.functions.keys()) if (!names.has(name)) this.forget(name);
    await super.follow(stored);
  }

  protected override followed(name: string): StoredRegistration | undefined {
    return super.followed(name) ?? this.functions.get(name);
  }

  protected override async adopt(registration: StoredRegistration<JsonObject>): Promise<void> {
    const { name } = registration;
    const entry = registration.body as unknown as McpEntry;
    this.forget(name);
    if (!isFunctionEntry(entry)) void this.refresh(this.watch(watchedServer(entry, registration)));
    else if (await isStillRegistered(this.registerFunction(entry, { registration, isNew: false })))
      this.functions.set(name, registration);
  }

  /** Registers the tools of a declared source again that the store lost. */
  async repeat(entry: McpEntry): Promise<void> {
    const isKnown = isFunctionEntry(entry) || (this.watched.get(mcpSource(entry).name)?.tools ?? 0) > 0;
    if (isKnown) await this.start([entry]);
  }

  override forget(name: string): void {
    super.forget(name);
    this.functions.delete(name);
  }

  /**
   * Registers an entry at run time. A server that cannot be reached is part of the reply.
   * @param registration stored together with the tools; without one nothing is stored. `preview`: nothing is registered either
   * @throws ToolError TOOL_NAME_CONFLICT when all names belong to other sources
   */
  async add(entry: McpEntry, registration?: StoredRegistration | 'preview'): Promise<McpRegisterReply> {
    if (registration === 'preview') return this.#preview(entry);
    const footing = registration && { registration, isNew: true };
    if (isFunctionEntry(entry)) return toRegisterReply(entry.name, await this.registerFunction(entry, footing));
    const { outcome, notes } = await this.addServer(entry, footing);
    return toRegisterReply(entry.name, outcome, notes);
  }

  async #preview(entry: McpEntry): Promise<McpRegisterReply> {
    try {
      const definitions = isFunctionEntry(entry)
        ? [toFunctionDefinition(entry)]
        : toServerDefinitions(entry, await this.discover(entry));
      const registered = definitions.map(({ name }) => name);
      return { success: true, tool_name: registered[0] ?? entry.name, registered, message: PREVIEWED };
    } catch (error) {
      return toRegisterReply(entry.name, toToolError(error));
    }
  }

  /** Refreshes a server that reported a changed list (`exec.mcp.changed`) or did not know a tool that was called. */
  changed(server: string): void {
    for (const watched of [...this.watched.values(), ...this.adding]) {
      if (watched.entry.name !== server) continue;
      if (watched.isRefreshing) watched.isStale = true;
      else this.schedule(watched, 0);
    }
  }

  private async registerFunction(entry: McpEntry, footing?: Footing): Promise<DefinitionRegisterReply> {
    const definitions = [toFunctionDefinition(entry)];
    const reply = await this.deps.register(
      { source: mcpSource(entry), definitions, replace: true, options: { trusted: true } },
      footing,
    );
    this.logOutcome(entry.name, reply);
    const look = { ...toLookState(reply.registered, reply.refused), at: this.clock.now(), notes: [] };
    await this.keepLook(mcpSource(entry), look);
    return reply;
  }

  private async addServer(
    entry: McpEntry,
    footing: Footing | undefined,
  ): Promise<{ outcome: DefinitionRegisterReply | ToolError; notes?: string[] }> {
    const watched = watchedServer(entry, footing?.registration);
    watched.isRefreshing = true;
    this.adding.add(watched);
    try {
      const found = await this.discover(entry);
      // Not a registration: the earlier registration of this name stays.
      if (toServerDefinitions(entry, found).length === 0) return { outcome: NOTHING_REGISTERED };
      const outcome = await this.mutex.run(mcpSource(entry).name, async () => {
        const reply = await this.deps.register(toAnnouncement(entry, found), footing);
        if (reply.registered.length > 0) await this.onRegistered(this.watch(watched), reply, found);
        return reply;
      });
      return { outcome, notes: serverNotes(entry, found) };
    } catch (error) {
      return { outcome: toToolError(error) };
    } finally {
      this.adding.delete(watched);
      this.onRefreshed(watched);
    }
  }

  protected override async refresh(watched: WatchedServer): Promise<void> {
    watched.isRefreshing = true;
    await super.refresh(watched);
    this.onRefreshed(watched);
  }

  protected override async read(watched: WatchedServer): Promise<void> {
    const { entry, registration } = watched;
    const found = await this.started(watched);
    await this.mutex.run(mcpSource(entry).name, async () => {
      if (!this.isCurrent(watched)) return;
      const footing = registration && { registration, isNew: false };
      await this.onRegistered(watched, await this.deps.register(toAnnouncement(entry, found), footing), found);
    });
  }

  private async onRegistered(
    watched: WatchedServer,
    reply: DefinitionRegisterReply,
    found: DiscoverReply,
  ): Promise<void> {
    const { name, refresh_seconds: seconds } = watched.entry;
    watched.tools = reply.registered.length;
    const notes = serverNotes(watched.entry, found);
    if (notes.length > 0)
      this.logger.warn(
        { server: name, notes },
        'the tools of an MCP server differ from what its entry or its schemas say',
      );
    this.logOutcome(name, reply);
    const refreshMs = seconds === undefined ? found.ttl_ms || DEFAULT_REFRESH_MS : seconds * 1_000;
    const nextMs = seconds === 0 ? undefined : Math.max(MIN_REFRESH_MS, refreshMs);
    await this.onLooked(
      watched,
      { ...toLookState(reply.registered, reply.refused), notes, protocolVersion: found.protocol_version },
      nextMs,
    );
  }

  protected override logFailure({ name }: McpEntry, error: string, state: SourceLook['state']): void {
    this.logger.warn({ server: name, error, state }, 'the tools of an MCP server cannot be listed; trying again');
  }

  private onRefreshed(watched: WatchedServer): void {
    watched.isRefreshing = false;
    if (!watched.isStale) return;
    watched.isStale = false;
    this.schedule(watched, 0);
  }

  /** The answer of a server. A source that was not read before is shown as pending while it starts. */
  private async started(watched: WatchedServer): Promise<DiscoverReply> {
    const { entry, tools, failures } = watched;
    const since = this.clock.now();
    const notes = [`starting since ${new Date(since).toISOString()}; it has ${secondsOf(entry)} s (start_seconds)`];
    const cancel = this.clock.after(SLOW_START_MS, () => {
      if (tools + failures > 0 || !this.isCurrent(watched)) return;
      void this.keepLook(mcpSource(entry), { state: 'pending', at: since, refused: [], notes });
    });
    try {
      return await this.discover(entry);
    } finally {
      cancel();
    }
  }

  /** A server may be asked twice until it answers: by `server/discover`, then by `initialize`. */
  private discover(entry: McpEntry): Promise<DiscoverReply> {
    return this.deps.discover(discoverMessage(entry), 2 * secondsOf(entry) * 1_000 + LISTS_MS);
  }

  private logOutcome(server: string, { refused, quarantined }: DefinitionRegisterReply): void {
    for (const { name, message } of refused) {
      this.logger.warn({ server, tool: name, reason: message }, 'an MCP tool was refused');
    }
    if (quarantined.length > 0)
      this.logger.warn({ server, tools: quarantined.map(({ name }) => name) }, 'MCP tools changed and await approval');
  }
}

const secondsOf = ({ start_seconds: seconds = START_SECONDS }: McpEntry): number => seconds;

function watchedServer(entry: McpEntry, registration?: StoredRegistration): WatchedServer {
  return { entry, registration, failures: 0, tools: 0, isRefreshing: false, isStale: false };
}

/** Awaits a registration; false when it was removed or replaced meanwhile. */
async function isStillRegistered(registering: Promise<unknown>): Promise<boolean> {
  try {
    await registering;
    return true;
  } catch (error) {
    if (isSuperseded(error)) return false;
    throw error;
  }
}
