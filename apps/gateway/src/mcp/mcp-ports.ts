import type { CallRequest, CallResult, JsonObject, Principal, ToolError } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { EventStreams } from '../http/event-streams.js';
import type { DoorExtras } from './extras.js';
import type { ElicitationRelay } from './elicitation.js';
import type { TaskStore } from './task-store.js';

/** What the door needs of the gateway. */
export interface McpEndpointDeps {
  /** The caller of a request, from its raw headers. @throws ToolError UNAUTHENTICATED */
  authenticate(rawHeaders: readonly string[]): Promise<Principal>;
  /** Counts the messages of a JSON-RPC batch, whose request was counted by `authenticate`. @throws ToolError RATE_LIMITED */
  countCalls?(principal: Principal, calls: number): Promise<void>;
  /** Tools the caller may see, by name in byte order; the same array as long as nothing changed. */
  listTools(principal: Principal): Promise<readonly RegisteredTool[]>;
  /** Runs a call to its end. @throws ToolError when the call is refused before its tool ran */
  executeCall(request: CallRequest): Promise<CallResult>;
  /** Keyword search over what the caller may see, best first. */
  searchTools(principal: Principal, query: string, limit: number): Promise<readonly RegisteredTool[]>;
  /** Calls `changed` whenever the catalog changed; returns how to stop that. */
  onCatalogChanged?(changed: () => void): () => void;
  /** Calls that outlive their request, for the tasks extension; without it the extension is not offered. */
  tasks?: TaskStore;
  /** Brings the answers of 2025 clients to the replica that asked; without it they cannot be asked. */
  elicitation?: ElicitationRelay;
  /** Signs and opens the state of a call that waits for its caller (`auth/request-state.ts`). */
  requestState: RequestStates;
  /** Why the caller's credential is void by now; undefined while it is in order. */
  refusalOf?(principal: Principal): Promise<ToolError | undefined>;
  /** Places for streams that last; without it their number has no limit. */
  streams?: Pick<EventStreams, 'enter'>;
  clock: Clock;
  onFault?(error: unknown): void;
}

/** Signed state bound to caller, tool and arguments. */
export interface RequestStates {
  seal(
    binding: { principal: Principal; tool: string; arguments: JsonObject },
    state: JsonObject,
    ttlMs: number,
  ): string;
  /** Null when it is forged, expired, or was made for another caller, tool or arguments. */
  open(binding: { principal: Principal; tool: string; arguments: JsonObject }, token: string): JsonObject | null;
}

/** How the door shows itself. */
export interface McpDoorOptions {
  version: string;
  /** Public base URL (`https://tools.example.com`). Without it there is no resource metadata outside development. */
  publicUrl?: string;
  /** Resource metadata may name the loopback address. */
  development?: boolean;
  /** Authorization server of JWT callers, named in the protected-resource metadata. */
  issuer?: string;
  /** Host names accepted beside the loopback ones, for requests that arrive on loopback (DNS rebinding). */
  allowedHosts?: readonly string[];
  /** Origins of web pages that may call the door beside the door's own. */
  allowedOrigins?: readonly string[];
  /** Longest call in ms (`GATEWAY_CALL_TIMEOUT_MS`). */
  maxCallMs: number;
  /** Time the list is promised not to change (`GATEWAY_CATALOG_TTL_MS`). */
  listTtlMs: number;
  /** `list`: every tool; `search`: only `search_tools` and `call_tool`; `auto`: search above `searchAbove` tools. */
  surface?: 'list' | 'search' | 'auto';
  searchAbove?: number;
  maxBodyBytes: number;
  /** Fixture tools, prompts and resources of the conformance suite; under a test flag only. */
  extras?: DoorExtras;
}
