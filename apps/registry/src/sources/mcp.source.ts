import { toToolError, type EpochMs, type JsonObject, type ToolError } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply } from '@toolfleet/contracts/execution';
import type { DefinitionRegister, DefinitionRegisterReply, McpRegisterReply } from '@toolfleet/contracts/registry';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { KeyedMutex, type CancelTimer, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { registrationStamp, type Footing, type SourceLook, type StoredRegistration } from '../definition-store.js';
import { isSuperseded } from '../source-store.js';
import { toLookState } from './source-look.js';
import {
  discoverMessage,
  mcpSource,
  serverNotes,
  toAnnouncement,
  toFunctionDefinition,
  toServerDefinitions,
} from './mcp-definitions.js';
import { isFunctionEntry, type McpEntry } from '@toolfleet/fleet-file';
import { NOTHING_REGISTERED, toRegisterReply } from './mcp-register-reply.js';
import { sealMcpSecrets, type SealFor } from './secrets.js';

interface McpSourceDeps {
  /** `exec.mcp.discover`: only mcp-executor connects to MCP servers. */
  discover(message: DiscoverMessage, timeoutMs: number): Promise<DiscoverReply>;
  register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply>;
  /** Records what a look at a source gave; never rejects. */
  keepLook(source: ToolSource, look: SourceLook): Promise<void>;
  /** Seals stored registrations again whose secrets were sealed by an older version. */
  sealFor?: SealFor;
}

/** A server whose tool list is requested again and again. */
interface WatchedServer {
  readonly entry: McpEntry;
  /** Set for a server that was registered at run time. */
  readonly registration: StoredRegistration | undefined;
  failures: number;
  /** Tools that the server listed last. */
  tools: number;
  cancel?: CancelTimer;
  /** When `cancel` ends the wait for the next refresh. */
  nextAt?: EpochMs;
  isRefreshing: boolean;
  /** Its list changed while it was being requested, so the result may be outdated. */
  isStale: boolean;
}

const DISCOVER_TIMEOUT_MS = 30_000;
/** Used when neither the entry nor the server tells how long a list stays current. */
const DEFAULT_REFRESH_MS = 300_000;
const MIN_REFRESH_MS = 30_000;
const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/**
 * Keeps the definitions of MCP servers current. The tool list is requested at the start, when it expires (the server's TTL or
 * `refresh_seconds`), and when the server reports a change. A server that cannot be reached keeps its tools listed and is
 * requested again with exponential backoff.
 *
 * A refresh can finish after its server was replaced or removed, here or on another replica. Therefore results of one source are
 * registered one after another, only for the current `WatchedServer`, and together with the stored registration (`Footing`).
 */
export class McpSource {
  /** Servers by source name. */
  private readonly servers = new Map<string, WatchedServer>();
  /** Servers whose registration is in progress. */
  private readonly adding = new Set<WatchedServer>();
  /** Registrations of function entries, by source name. */
  private readonly functions = new Map<string, StoredRegistration>();
  private readonly mutex = new KeyedMutex();
  private stopped = false;

  constructor(
    private readonly deps: McpSourceDeps,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** Takes new and changed entries of the configuration file. Does not wait for the servers. */
  async start(entries: readonly McpEntry[]): Promise<void> {
    for (const entry of entries) {
      this.forget(mcpSource(entry).name);
      if (isFunctionEntry(entry)) await this.registerFunction(entry);
      else void this.refresh(this.watch(watchedServer(entry)));
    }
  }

  /** Ends all refreshing. */
  stop(): void {
    this.stopped = true;
    for (const watched of this.servers.values()) watched.cancel?.();
  }

  /** Adopts new and replaced registrations, and forgets those that are no longer stored. */
  async follow(stored: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(stored.map(({ name }) => name));
    for (const [name, { registration }] of this.servers) if (registration && !names.has(name)) this.forget(name);
    for (const name of this.functions.keys()) if (!names.has(name)) this.forget(name);
    for (const registration of stored) {
      const { name } = registration;
      const known = this.servers.get(name)?.registration ?? this.functions.get(name);
      if (known && registrationStamp(known) === registrationStamp(registration)) continue;
      const body = registration.body as unknown as McpEntry;
      const entry = this.deps.sealFor ? sealMcpSecrets(body, this.deps.sealFor(name)) : body;
      this.forget(name);
      if (!isFunctionEntry(entry)) void this.refresh(this.watch(watchedServer(entry, registration)));
      else if (await isStillRegistered(this.registerFunction(entry, { registration, isNew: false })))
        this.functions.set(name, registration);
    }
  }

  /** Registers the tools of a declared source again that the store lost. */
  async repeat(entry: McpEntry): Promise<void> {
    const isKnown = isFunctionEntry(entry) || (this.servers.get(mcpSource(entry).name)?.tools ?? 0) > 0;
    if (isKnown) await this.start([entry]);
  }

  /** Stops refreshing one source. */
  forget(name: string): void {
    this.servers.get(name)?.cancel?.();
    this.servers.delete(name);
    this.functions.delete(name);
  }

  /**
   * Registers an entry at run time. A server that cannot be reached is part of the reply.
   * @param registration stored together with the tools; without one nothing is stored
   * @throws ToolError TOOL_NAME_CONFLICT when all names belong to other sources
   */
  async add(entry: McpEntry, registration?: StoredRegistration): Promise<McpRegisterReply> {
    const footing = registration && { registration, isNew: true };
    if (isFunctionEntry(entry)) return toRegisterReply(entry.name, await this.registerFunction(entry, footing));
    const { outcome, notes } = await this.addServer(entry, footing);
    return toRegisterReply(entry.name, outcome, notes);
  }

  /** Refreshes a server that reported a changed list (`exec.mcp.changed`) or did not know a tool that was called. */
  changed(server: string): void {
    for (const watched of [...this.servers.values(), ...this.adding]) {
      if (watched.entry.name !== server) continue;
      if (watched.isRefreshing) watched.isStale = true;
      else this.schedule(watched, 0);
    }
  }

  /** Requests the tool list of one server now; resolves when it is registered, or has failed. @returns false for other sources */
  async look(name: string): Promise<boolean> {
    const watched = this.servers.get(name);
    if (watched) await this.refresh(watched);
    return watched !== undefined;
  }

  private async registerFunction(entry: McpEntry, footing?: Footing): Promise<DefinitionRegisterReply> {
    const definitions = [toFunctionDefinition(entry)];
    const reply = await this.deps.register(
      { source: mcpSource(entry), definitions, replace: true, options: { trusted: true } },
      footing,
    );
    this.logOutcome(entry.name, reply);
    const look = { ...toLookState(reply.registered, reply.refused), at: this.clock.now(), notes: [] };
    await this.deps.keepLook(mcpSource(entry), look);
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
      // Not a registration: what was registered under this name before stays.
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

  private watch(watched: WatchedServer): WatchedServer {
    const { name } = mcpSource(watched.entry);
    this.servers.get(name)?.cancel?.();
    this.servers.set(name, watched);
    return watched;
  }

  /** False after the server was replaced or forgotten; results of its refresh are then discarded. */
  private isCurrent(watched: WatchedServer): boolean {
    return !this.stopped && this.servers.get(mcpSource(watched.entry).name) === watched;
  }

  private async refresh(watched: WatchedServer): Promise<void> {
    const { entry, registration } = watched;
    const { name } = mcpSource(entry);
    watched.isRefreshing = true;
    try {
      const found = await this.discover(entry);
      await this.mutex.run(name, async () => {
        if (!this.isCurrent(watched)) return;
        const footing = registration && { registration, isNew: false };
        await this.onRegistered(watched, await this.deps.register(toAnnouncement(entry, found), footing), found);
      });
    } catch (error) {
      if (isSuperseded(error) && this.isCurrent(watched)) this.forget(name);
      else if (this.isCurrent(watched)) await this.onFailed(watched, toToolError(error));
    }
    this.onRefreshed(watched);
  }

  private async onRegistered(
    watched: WatchedServer,
    reply: DefinitionRegisterReply,
    found: DiscoverReply,
  ): Promise<void> {
    const { name, refresh_seconds: seconds } = watched.entry;
    const at = this.clock.now();
    watched.failures = 0;
    watched.tools = reply.registered.length;
    const notes = serverNotes(watched.entry, found);
    if (notes.length > 0)
      this.logger.warn(
        { server: name, notes },
        'the tools of an MCP server differ from what its entry or its schemas say',
      );
    this.logOutcome(name, reply);
    const refreshMs = seconds === undefined ? found.ttl_ms || DEFAULT_REFRESH_MS : seconds * 1_000;
    if (seconds !== 0) this.schedule(watched, Math.max(MIN_REFRESH_MS, refreshMs));
    const look = { ...toLookState(reply.registered, reply.refused), at, notes, nextAt: watched.nextAt };
    await this.deps.keepLook(mcpSource(watched.entry), look);
  }

  private async onFailed(watched: WatchedServer, { message, facts }: ToolError): Promise<void> {
    const state = facts?.reason === 'auth_failed' ? 'auth_failed' : 'failed';
    const at = this.clock.now();
    watched.failures += 1;
    this.logger.warn(
      { server: watched.entry.name, error: message, state },
      'the tools of an MCP server cannot be listed; trying again',
    );
    this.schedule(watched, Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (watched.failures - 1)));
    const { entry, nextAt } = watched;
    await this.deps.keepLook(mcpSource(entry), { state, at, error: message, refused: [], notes: [], nextAt });
  }

  private onRefreshed(watched: WatchedServer): void {
    watched.isRefreshing = false;
    if (!watched.isStale) return;
    watched.isStale = false;
    this.schedule(watched, 0);
  }

  private discover(entry: McpEntry): Promise<DiscoverReply> {
    return this.deps.discover(discoverMessage(entry), DISCOVER_TIMEOUT_MS);
  }

  private schedule(watched: WatchedServer, delayMs: number): void {
    watched.cancel?.();
    watched.nextAt = undefined;
    if (!this.isCurrent(watched)) return;
    watched.nextAt = this.clock.now() + delayMs;
    watched.cancel = this.clock.after(delayMs, () => void this.refresh(watched));
  }

  private logOutcome(server: string, { refused, quarantined }: DefinitionRegisterReply): void {
    for (const { name, message } of refused) {
      this.logger.warn({ server, tool: name, reason: message }, 'an MCP tool was refused');
    }
    if (quarantined.length > 0)
      this.logger.warn({ server, tools: quarantined.map(({ name }) => name) }, 'MCP tools changed and await approval');
  }
}

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
