import { toToolError, type JsonObject, type ToolError } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply } from '@toolfleet/contracts/execution';
import type { DefinitionRegister, DefinitionRegisterReply, McpRegisterReply } from '@toolfleet/contracts/registry';
import { Turns, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { registrationStamp, type Footing, type StoredRegistration } from '../definition-store.js';
import { isSuperseded } from '../refusals.js';
import {
  announcementOf,
  definitionOfFunction,
  definitionsOfServer,
  discoverMessage,
  droppedPatterns,
  mcpSource,
} from './mcp-definitions.js';
import { isFunctionEntry, type McpEntry } from './mcp-entry.js';
import { storableEntry } from './mcp-secrets.js';
import type { SealFor } from './openapi-secrets.js';
import { logOutcome } from './log-mcp-outcome.js';
import { NOTHING_REGISTERED, registerReply } from './mcp-register-reply.js';
import { newlyWatched, type McpServerState, type WatchedServer } from './watched-server.js';

/** What the source needs: mcp-executor, which alone dials MCP servers, and the registrar. */
export interface McpSourcePorts {
  /** `exec.mcp.discover`. */
  discover(message: DiscoverMessage, timeoutMs: number): Promise<DiscoverReply>;
  register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply>;
  /** Seals secrets of kept registrations that an older version sealed. */
  sealFor?: SealFor;
}

const DISCOVER_TIMEOUT_MS = 30_000;
/** A server that promises nothing about its list is asked again after this time. */
const DEFAULT_REFRESH_MS = 300_000;
const MIN_REFRESH_MS = 30_000;
const MAX_BACKOFF_MS = 60_000;
const FIRST_BACKOFF_MS = 1_000;

/**
 * Keeps the definitions of MCP servers current: asked at the start, after the time the server promises (or `refresh_seconds`),
 * and when it says that its list changed. A server that cannot be asked keeps its tools listed, and is tried again with backoff.
 */
export class McpSource {
  private readonly servers = new Map<string, WatchedServer>();
  /** Servers of registrations that are being made. */
  private readonly adding = new Set<WatchedServer>();
  /** Registrations of function entries that were taken up, by source name. */
  private readonly functions = new Map<string, StoredRegistration>();
  /** What was found about one source is registered in the order in which it replaces one another. */
  private readonly turns = new Turns();
  private stopped = false;

  constructor(
    private readonly ports: McpSourcePorts,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  /** Begins with the entries of the configuration file; servers that are away never hold this up. */
  async start(entries: readonly McpEntry[]): Promise<void> {
    for (const entry of entries) {
      if (isFunctionEntry(entry)) await this.registerFunction(entry);
      else void this.look(this.watch(newlyWatched(entry)));
    }
  }

  /** Takes up all registrations there are and drops those that are gone. */
  async follow(kept: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(kept.map(({ name }) => name));
    for (const [name, { registration }] of this.servers) if (registration && !names.has(name)) this.forget(name);
    for (const name of this.functions.keys()) if (!names.has(name)) this.forget(name);
    for (const registration of kept) {
      const { name, body } = registration;
      const known = this.servers.get(name)?.registration ?? this.functions.get(name);
      if (known && registrationStamp(known) === registrationStamp(registration)) continue;
      const stored = body as unknown as McpEntry;
      const entry = this.ports.sealFor ? storableEntry(stored, this.ports.sealFor(name)) : stored;
      this.forget(name);
      if (!isFunctionEntry(entry)) void this.look(this.watch(newlyWatched(entry, registration)));
      else if (await this.stillRegistered(this.registerFunction(entry, { registration, isNew: false })))
        this.functions.set(name, registration);
    }
  }

  /** Stops watching one source by its name. */
  forget(name: string): void {
    this.servers.get(name)?.cancel?.();
    this.servers.delete(name);
    this.functions.delete(name);
  }

  /** Ends all watching. */
  stop(): void {
    this.stopped = true;
    for (const watched of this.servers.values()) watched.cancel?.();
  }

  /**
   * A registration at run time; the answer says what became of it.
   * @param registration kept together with the tools; without one nothing is kept
   * @throws ToolError TOOL_NAME_CONFLICT when the name belongs to somebody else
   */
  async add(entry: McpEntry, registration?: StoredRegistration): Promise<McpRegisterReply> {
    const footing = registration && { registration, isNew: true };
    if (isFunctionEntry(entry)) return registerReply(entry.name, await this.registerFunction(entry, footing));
    const { outcome, notes } = await this.addServer(entry, footing);
    return registerReply(entry.name, outcome, notes);
  }

  /** The server said that its list changed (`exec.mcp.changed`), or a call met an unknown tool. */
  changed(server: string): void {
    for (const watched of [...this.servers.values(), ...this.adding]) {
      if (watched.entry.name !== server) continue;
      if (watched.isLooking) watched.looksAgain = true;
      else this.schedule(watched, 0);
    }
  }

  /** All servers, by name. */
  states(): McpServerState[] {
    return [...this.servers.values()]
      .map(({ state }) => ({ ...state }))
      .toSorted((a, b) => (a.server < b.server ? -1 : 1));
  }

  private async registerFunction(entry: McpEntry, footing?: Footing): Promise<DefinitionRegisterReply> {
    const reply = await this.ports.register(
      {
        source: mcpSource(entry),
        definitions: [definitionOfFunction(entry)],
        replace: true,
        options: { trusted: true },
      },
      footing,
    );
    logOutcome(this.logger, entry.name, reply);
    return reply;
  }

  private async addServer(
    entry: McpEntry,
    footing: Footing | undefined,
  ): Promise<{ outcome: DefinitionRegisterReply | ToolError; notes?: string[] }> {
    const watched = newlyWatched(entry, footing?.registration);
    watched.isLooking = true;
    this.adding.add(watched);
    try {
      const found = await this.discover(entry);
      // A server that lists nothing is no registration; what was registered under the name stays.
      if (definitionsOfServer(entry, found).length === 0) return { outcome: NOTHING_REGISTERED };
      const outcome = await this.turns.take(mcpSource(entry).name, async () => {
        const reply = await this.ports.register(announcementOf(entry, found), footing);
        if (reply.registered.length > 0) this.succeeded(this.watch(watched), reply, found);
        return reply;
      });
      return { outcome, notes: droppedPatterns(entry, found) };
    } catch (error) {
      return { outcome: toToolError(error) };
    } finally {
      this.adding.delete(watched);
      this.looked(watched);
    }
  }

  private watch(watched: WatchedServer): WatchedServer {
    const key = mcpSource(watched.entry).name;
    this.servers.get(key)?.cancel?.();
    this.servers.set(key, watched);
    return watched;
  }

  /** False once it was replaced or forgotten: what it finds is of no use any more. */
  private isCurrent(watched: WatchedServer): boolean {
    return !this.stopped && this.servers.get(mcpSource(watched.entry).name) === watched;
  }

  private async look(watched: WatchedServer): Promise<void> {
    watched.isLooking = true;
    await this.lookOnce(watched);
    this.looked(watched);
  }

  private looked(watched: WatchedServer): void {
    watched.isLooking = false;
    if (!watched.looksAgain) return;
    watched.looksAgain = false;
    this.schedule(watched, 0);
  }

  private async lookOnce(watched: WatchedServer): Promise<void> {
    const { entry, registration } = watched;
    try {
      const found = await this.discover(entry);
      await this.turns.take(mcpSource(entry).name, async () => {
        if (!this.isCurrent(watched)) return;
        const reply = await this.ports.register(
          announcementOf(entry, found),
          registration && { registration, isNew: false },
        );
        this.succeeded(watched, reply, found);
      });
    } catch (error) {
      if (!this.isCurrent(watched)) return;
      if (isSuperseded(error)) return this.forget(mcpSource(entry).name);
      const { message, details } = toToolError(error);
      watched.failures += 1;
      watched.state = {
        ...watched.state,
        state: details?.['state'] === 'auth_failed' ? 'auth_failed' : 'away',
        error: message,
      };
      this.logger.warn(
        { server: watched.entry.name, error: message, state: watched.state.state },
        'an MCP server cannot be asked for its tools',
      );
      this.schedule(watched, Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (watched.failures - 1)));
    }
  }

  private succeeded(watched: WatchedServer, reply: DefinitionRegisterReply, found: DiscoverReply): void {
    watched.failures = 0;
    watched.state = { server: watched.entry.name, state: 'ok', tools: reply.registered.length };
    logOutcome(this.logger, watched.entry.name, reply, droppedPatterns(watched.entry, found));
    const seconds = watched.entry.refresh_seconds;
    if (seconds === 0) return;
    const wantedMs = seconds === undefined ? found.ttl_ms || DEFAULT_REFRESH_MS : seconds * 1_000;
    this.schedule(watched, Math.max(MIN_REFRESH_MS, wantedMs));
  }

  private discover(entry: McpEntry): Promise<DiscoverReply> {
    return this.ports.discover(discoverMessage(entry), DISCOVER_TIMEOUT_MS);
  }

  /** False when the registration was undone or replaced meanwhile. */
  private async stillRegistered(registering: Promise<unknown>): Promise<boolean> {
    try {
      await registering;
      return true;
    } catch (error) {
      if (isSuperseded(error)) return false;
      throw error;
    }
  }

  private schedule(watched: WatchedServer, delayMs: number): void {
    watched.cancel?.();
    if (!this.isCurrent(watched)) return;
    watched.cancel = this.clock.after(delayMs, () => void this.look(watched));
  }
}
