import type { CallRequest, CallResult, McpMode, Principal, ToolError } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { GrantWatch } from '@toolfleet/engine-adapters';
import type { ToolPredicate } from '@toolfleet/catalog';
import type { ResultReader } from '@toolfleet/results';
import type { ElicitationRelay } from './elicitation.js';
import type { CatalogRenderer } from './rendered-catalog.js';
import type { ResourceSubscriptions } from './resource-subscriptions.js';
import type { SessionStreams } from './session-streams.js';
import type { TaskStore } from './tasks.js';
import type { WaitingStates } from './waiting-call.js';

/** Dependencies of the MCP server of a fleet. Optional members switch a feature off when they are missing. */
export interface McpServerPorts {
  /** Instructions of the caller's toolset; undefined when it has none. */
  toolsetInstructions(principal: Principal): Promise<string | undefined>;
  /**
   * Tools the caller may see, in the order of the list. Returns the same array until the catalog changes.
   * @param forApps also tools that only pages of MCP Apps call
   */
  listTools(principal: Principal, forApps: boolean): Promise<readonly RegisteredTool[]>;
  /** Prompts and resources of MCP servers that the caller may use, likewise; without it there are none. */
  listFeatures?(principal: Principal): Promise<readonly RegisteredTool[]>;
  /** Runs a call to its end. @throws ToolError when the call is refused before its tool ran */
  executeCall(request: CallRequest): Promise<CallResult>;
  /** Keyword search over the tools the caller may see, best match first. */
  searchTools(
    principal: Principal,
    query: string,
    limit: number,
    isWanted?: ToolPredicate,
  ): Promise<readonly RegisteredTool[]>;
  /** Calls that outlive their request; without it the tasks extension is not offered. */
  tasks?: TaskStore;
  /** Ends work that executors hold for a call without an answer. */
  endCall(callId: string): void;
  /** Routes answers of 2025 clients to the replica that asked; without it those clients are not asked for approval. */
  elicitation?: ElicitationRelay;
  /** Notices that a caller connects an account of a source. */
  watchGrant(principal: Principal, source: string): GrantWatch;
  /** Reads kept results; without it they are not available as resources. */
  readResult?: ResultReader['read'];
  /** Subscriptions to resources of MCP servers; without it there are none. */
  subscriptions?: ResourceSubscriptions;
  /** Streams of 2025 clients; without it they hear of no changes. */
  sessions?: SessionStreams;
  /** Seals the state of a call that waits for its caller. */
  requestState: WaitingStates;
  /** Why the caller's credential is void by now; undefined while it is valid. */
  refusalOf(principal: Principal): Promise<ToolError | undefined>;
  clock: Clock;
  onFault(error: unknown): void;
}

/** Settings of the server. */
export interface McpServerOptions {
  version: string;
  /** Maximum duration of a call in ms (`GATEWAY_CALL_TIMEOUT_MS`). */
  maxCallMs: number;
  /** How long clients may cache the tool list in ms. */
  listTtlMs: number;
  /** Mode of clients that choose none; `auto`: search above `searchAbove` tools. */
  surface: McpMode | 'auto';
  searchAbove: number;
  /** Maximum size of a result that is returned whole. */
  inlineBytes: number;
}

/** Shared by the handlers of all requests. */
export interface McpServerDeps extends McpServerPorts {
  options: McpServerOptions;
  renderer: CatalogRenderer;
  /** The choices in the URL of the request. */
  mode?: McpMode;
}
