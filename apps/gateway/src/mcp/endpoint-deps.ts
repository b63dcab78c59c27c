import type { Principal } from '@toolfleet/contracts';
import type { Projects } from '@toolfleet/access';
import type {
  CallCancellations,
  McpServerDeps,
  McpServerOptions,
  McpServerPorts,
  OperationMetrics,
} from '@toolfleet/mcp';
import type { EventStreams } from '../server/event-streams.js';

/** Dependencies of the MCP endpoint. Optional members switch a feature off when they are missing. */
export interface McpEndpointDeps extends McpServerPorts {
  /** The caller of a request, from its raw headers. @throws ToolError UNAUTHENTICATED, RATE_LIMITED */
  authenticate(rawHeaders: readonly string[]): Promise<Principal>;
  /** Counts the messages of a JSON-RPC batch beyond the request that `authenticate` counted. @throws ToolError RATE_LIMITED */
  countCalls(principal: Principal, calls: number): Promise<void>;
  /**
   * The caller with the toolset that its request names (`support`, `support@3`) or that its credential is bound to.
   * @throws ToolError NOT_FOUND, PERMISSION_DENIED, REQUEST_INVALID
   */
  selectToolset(principal: Principal, requested: string | undefined): Principal | Promise<Principal>;
  /** Calls `changed` after every change of the catalog. @returns how to unsubscribe */
  onCatalogChanged(changed: () => void): () => void;
  /** Cancels calls of 2025 clients. */
  cancellations: CallCancellations;
  /** Which project a call works on. */
  projects: Pick<Projects, 'choose'>;
  /** Slots for long-lived streams. */
  streams: Pick<EventStreams, 'enter'>;
  /** Counts requests and notifications. */
  metrics: OperationMetrics;
}

/** Settings of the endpoint. */
export interface McpEndpointOptions extends McpServerOptions {
  /** Public base URL (`https://tools.example.com`). Without it there is no resource metadata outside development. */
  publicUrl?: string;
  /** Resource metadata may name the loopback address. */
  development?: boolean;
  /** Authorization server of JWT callers, named in the protected-resource metadata. */
  issuer?: string;
  /** The fleet's own authorization server is there, at the address of the gateway; the metadata names it first. */
  signIn?: boolean;
  /** Host names accepted on loopback in addition to the loopback names (DNS rebinding protection). */
  allowedHosts?: readonly string[];
  /** Origins of web pages that may call the endpoint in addition to its own. */
  allowedOrigins?: readonly string[];
  maxBodyBytes: number;
}

/** What serving one request needs. */
export interface McpRequestDeps extends McpEndpointDeps, McpServerDeps {
  options: McpEndpointOptions;
}
