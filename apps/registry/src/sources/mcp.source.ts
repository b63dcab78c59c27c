import {
  isToolError,
  toToolError,
  ToolError,
  type DefinitionRegister,
  type DefinitionRegisterReply,
  type DiscoverMessage,
  type DiscoverReply,
  type McpRegisterReply,
} from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { connectionOptions, definitionOfFunction, definitionsOfServer, mcpSource } from './mcp-definitions.js';
import { isFunctionEntry, type McpEntry } from './mcp-entry.js';

/** What the source needs: mcp-executor, which alone dials MCP servers, and the registrar. */
export interface McpSourcePorts {
  /** `exec.mcp.discover`. */
  discover(message: DiscoverMessage, timeoutMs: number): Promise<DiscoverReply>;
  register(message: DefinitionRegister): Promise<DefinitionRegisterReply>;
}

/** State of one server, for operators. */
export interface McpServerState {
  server: string;
  /** `auth_failed` and `away` keep the tools listed. */
  state: 'pending' | 'ok' | 'auth_failed' | 'away';
  tools: number;
  error?: string;
}

interface Watched {
  entry: McpEntry;
  state: McpServerState;
  failures: number;
  cancel?: CancelTimer;
  running?: Promise<void>;
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
  private readonly servers = new Map<string, Watched>();
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
      else void this.look(this.watch(entry));
    }
  }

  /** Stops watching one source by its name. */
  forget(name: string): void {
    this.servers.get(name)?.cancel?.();
    this.servers.delete(name);
  }

  /** Ends all watching. */
  stop(): void {
    this.stopped = true;
    for (const watched of this.servers.values()) watched.cancel?.();
  }

  /**
   * A registration at run time; the answer says what became of it (shannon-compat section 3).
   * @throws ToolError TOOL_NAME_CONFLICT when the name belongs to somebody else
   */
  async add(entry: McpEntry): Promise<McpRegisterReply> {
    const reply = isFunctionEntry(entry) ? await this.registerFunction(entry) : await this.addServer(entry);
    if (isToolError(reply)) {
      return { success: false, tool_name: entry.name, message: `Registration error: ${reply.message}`, registered: [] };
    }
    const conflict = reply.refused.find(({ code }) => code === 'TOOL_NAME_CONFLICT');
    if (conflict && reply.registered.length === 0)
      throw new ToolError('TOOL_NAME_CONFLICT', { message: conflict.message });
    const refused = reply.refused.map(({ name, message }) => `${name}: ${message}`);
    return {
      success: reply.registered.length > 0,
      tool_name: reply.registered[0] ?? entry.name,
      message:
        refused.length > 0
          ? `Registered, except ${refused.join('; ')}`
          : `Registered ${reply.registered.length} tool(s)`,
      registered: reply.registered,
    };
  }

  /** The server said that its list changed (`exec.mcp.changed`), or a call met an unknown tool. */
  changed(server: string): void {
    for (const watched of this.servers.values()) if (watched.entry.name === server) this.schedule(watched, 0);
  }

  /** All servers, by name. */
  states(): McpServerState[] {
    return [...this.servers.values()]
      .map(({ state }) => ({ ...state }))
      .toSorted((a, b) => (a.server < b.server ? -1 : 1));
  }

  private async registerFunction(entry: McpEntry): Promise<DefinitionRegisterReply> {
    const reply = await this.ports.register({
      source: mcpSource(entry),
      definitions: [definitionOfFunction(entry)],
      replace: true,
      options: { trusted: true },
    });
    for (const refused of reply.refused)
      this.logger.warn({ tool: refused.name, reason: refused.message }, 'an MCP tool was refused');
    return reply;
  }

  private async addServer(entry: McpEntry): Promise<DefinitionRegisterReply | ToolError> {
    try {
      const reply = await this.discoverAndRegister(entry);
      const watched = this.watch(entry);
      this.succeeded(watched, reply.reply, reply.found);
      return reply.reply;
    } catch (error) {
      return toToolError(error);
    }
  }

  private watch(entry: McpEntry): Watched {
    const key = mcpSource(entry).name;
    this.servers.get(key)?.cancel?.();
    const watched: Watched = { entry, failures: 0, state: { server: entry.name, state: 'pending', tools: 0 } };
    this.servers.set(key, watched);
    return watched;
  }

  private async look(watched: Watched): Promise<void> {
    if (watched.running) return watched.running;
    watched.running = this.lookOnce(watched).finally(() => delete watched.running);
    return watched.running;
  }

  private async lookOnce(watched: Watched): Promise<void> {
    try {
      const { reply, found } = await this.discoverAndRegister(watched.entry);
      this.succeeded(watched, reply, found);
    } catch (error) {
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

  private succeeded(watched: Watched, reply: DefinitionRegisterReply, found: DiscoverReply): void {
    watched.failures = 0;
    watched.state = { server: watched.entry.name, state: 'ok', tools: reply.registered.length };
    for (const refused of reply.refused) {
      this.logger.warn(
        { server: watched.entry.name, tool: refused.name, reason: refused.message },
        'an MCP tool was refused',
      );
    }
    if (reply.quarantined.length > 0) {
      this.logger.warn(
        { server: watched.entry.name, tools: reply.quarantined },
        'MCP tools changed and await approval',
      );
    }
    const seconds = watched.entry.refresh_seconds;
    if (seconds === 0) return;
    const wantedMs = seconds === undefined ? found.ttl_ms || DEFAULT_REFRESH_MS : seconds * 1_000;
    this.schedule(watched, Math.max(MIN_REFRESH_MS, wantedMs));
  }

  private async discoverAndRegister(
    entry: McpEntry,
  ): Promise<{ reply: DefinitionRegisterReply; found: DiscoverReply }> {
    const found = await this.ports.discover(
      {
        server: entry.name,
        transport: entry.command === undefined ? 'streamable-http' : 'stdio',
        url: entry.url,
        ...connectionOptions(entry),
      },
      DISCOVER_TIMEOUT_MS,
    );
    const reply = await this.ports.register({
      source: mcpSource(entry),
      definitions: definitionsOfServer(entry, found),
      replace: true,
      options: { trusted: entry.trusted ?? false, pin: entry.pin ?? 'refuse' },
    });
    return { reply, found };
  }

  private schedule(watched: Watched, delayMs: number): void {
    watched.cancel?.();
    if (this.stopped || this.servers.get(mcpSource(watched.entry).name) !== watched) return;
    watched.cancel = this.clock.after(delayMs, () => void this.look(watched));
  }
}
