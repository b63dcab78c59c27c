import type { Milliseconds } from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';

/** How long a person may take to approve a call or to give it input. */
export const ANSWER_MS: Milliseconds = 10 * 60_000;

/** Settings of the engine; most come from the gateway's configuration (variables in capitals). */
export interface EngineSettings {
  /** Attempt timeout by name prefix, for tools that declare none. */
  prefixTimeoutsMs: Readonly<Record<string, Milliseconds>>;
  /** MCP_TIMEOUT_SECONDS. */
  mcpTimeoutMs: Milliseconds;
  /** MCP_MAX_RESPONSE_BYTES: largest response of an MCP server without a limit of its own. */
  mcpResponseBytes: number;
  /** Attempt timeout of OpenAPI tools. */
  openapiTimeoutMs: Milliseconds;
  /** MCP_RETRIES and OPENAPI_RETRIES: attempts, the first included, of idempotent tools that declare no retry policy. */
  attempts: Readonly<Record<'mcp' | 'openapi', number>>;
  /** Run limit of a sandbox call by strictness. */
  pythonTimeoutsMs: Readonly<Record<'standard' | 'strict', Milliseconds>>;
  /** WASI_TIMEOUT_SECONDS: maximum of a sandbox run. */
  pythonMaxTimeoutMs: Milliseconds;
  /** Attempt timeout of all other tools. */
  defaultTimeoutMs: Milliseconds;
  /** For builtin tools and plugins that are idempotent and declare no TTL. */
  cacheTtlMs: Milliseconds;
  /** Age up to which a result may replace a failure. */
  staleTtlMs: Milliseconds;
  /** How long a session remembers a result. */
  sessionTtlMs: Milliseconds;
  /** GRACEFUL_ERROR_AS_SUCCESS: shows explained failures with `success: true`. */
  gracefulErrorAsSuccess: boolean;
  /** GATEWAY_MAX_CALLS: calls in flight, without cached and coalesced ones. */
  maxConcurrentCalls: number;
}

/** The documented defaults. */
export const DEFAULT_SETTINGS: EngineSettings = {
  prefixTimeoutsMs: { search_: 10_000, create_: 30_000 },
  mcpTimeoutMs: 30_000,
  mcpResponseBytes: SIZES.upstreamResponse,
  openapiTimeoutMs: 30_000,
  attempts: { mcp: 3, openapi: 3 },
  pythonTimeoutsMs: { standard: 10_000, strict: 5_000 },
  pythonMaxTimeoutMs: 60_000,
  defaultTimeoutMs: 15_000,
  cacheTtlMs: 300_000,
  staleTtlMs: 1_800_000,
  sessionTtlMs: 300_000,
  gracefulErrorAsSuccess: false,
  maxConcurrentCalls: 4_096,
};
