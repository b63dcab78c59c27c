import type { Milliseconds } from '@toolfleet/contracts';

/** Figures of the engine; every one has a default, most come from the gateway's configuration. */
export interface EngineSettings {
  /** Attempt timeout of a tool without one, by name prefix. */
  prefixTimeoutsMs: Readonly<Record<string, Milliseconds>>;
  /** MCP_TIMEOUT_SECONDS. */
  mcpTimeoutMs: Milliseconds;
  openapiTimeoutMs: Milliseconds;
  /** MCP_RETRIES and OPENAPI_RETRIES: attempts in all of an idempotent tool of that kind that declares no policy. */
  attempts: Readonly<Record<'mcp' | 'openapi', number>>;
  /** Run limit of a sandbox call by strictness. */
  pythonTimeoutsMs: Readonly<Record<'lenient' | 'standard' | 'strict', Milliseconds>>;
  /** Level used when a call names none. */
  pythonStrictness: 'lenient' | 'standard' | 'strict';
  /** WASI_TIMEOUT_SECONDS: hard maximum of a sandbox run. */
  pythonMaxTimeoutMs: Milliseconds;
  /** Attempt timeout of everything else. */
  defaultTimeoutMs: Milliseconds;
  /** TTL of a cached result of a tool that declares none. */
  cacheTtlMs: Milliseconds;
  /** Age up to which a result may stand in for a failed call. */
  staleTtlMs: Milliseconds;
  /** TTL of session history. */
  historyTtlMs: Milliseconds;
  /** GRACEFUL_ERROR_AS_SUCCESS: in-band failures with `success: true`, for callers that expect it. */
  gracefulErrorAsSuccess: boolean;
  /** Rate per minute by tool name, over what the definition says (WEB_SEARCH_RATE_LIMIT, …). */
  rateLimits: Readonly<Record<string, number>>;
  /** TOOL_PARALLELISM: calls of one batch that run at once. */
  parallelism: number;
  /** Calls in flight at once, cached and coalesced ones not counted. */
  maxConcurrentCalls: number;
  /** A lease outlives the call's deadline by this: settle may arrive late (NATS retry 2 s + clock skew 3 s). */
  leaseGraceMs: Milliseconds;
}

/** The published defaults. */
export const DEFAULT_SETTINGS: EngineSettings = {
  prefixTimeoutsMs: { search_: 10_000, create_: 30_000 },
  mcpTimeoutMs: 30_000,
  openapiTimeoutMs: 30_000,
  attempts: { mcp: 3, openapi: 3 },
  pythonTimeoutsMs: { lenient: 30_000, standard: 10_000, strict: 5_000 },
  pythonStrictness: 'standard',
  pythonMaxTimeoutMs: 60_000,
  defaultTimeoutMs: 15_000,
  cacheTtlMs: 300_000,
  staleTtlMs: 1_800_000,
  historyTtlMs: 300_000,
  gracefulErrorAsSuccess: false,
  rateLimits: {},
  parallelism: 5,
  maxConcurrentCalls: 4_096,
  leaseGraceMs: 5_000,
};
