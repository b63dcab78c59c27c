import type { GatewayConfig } from '../gateway.config.js';
import type { BreakerRule } from '@toolfleet/resilience';
import { type EngineSettings, DEFAULT_SETTINGS } from '@toolfleet/engine';

/** Age at which a cached definition is read again, should an announcement of the registry be lost. */
export const CATALOG_TTL_MS = 300_000;

/** The `ENFORCE_CB_*` settings: a tool's breaker opens by its error rate and is probed after one window. */
export function toolBreakerRule(config: GatewayConfig): BreakerRule {
  const windowMs = config.ENFORCE_CB_WINDOW_SECONDS * 1_000;
  return {
    errorRate: { threshold: config.ENFORCE_CB_ERROR_THRESHOLD, windowMs, minCalls: config.ENFORCE_CB_MIN_REQUESTS },
    recoveryMs: windowMs,
  };
}

/** Settings of the engine from the gateway's configuration. */
export function engineSettings(config: GatewayConfig): EngineSettings {
  return {
    ...DEFAULT_SETTINGS,
    attempts: { mcp: config.MCP_RETRIES, openapi: config.OPENAPI_RETRIES },
    mcpTimeoutMs: config.MCP_TIMEOUT_SECONDS * 1_000,
    mcpResponseBytes: config.MCP_MAX_RESPONSE_BYTES,
    pythonMaxTimeoutMs: config.WASI_TIMEOUT_SECONDS * 1_000,
    gracefulErrorAsSuccess: config.GRACEFUL_ERROR_AS_SUCCESS,
    maxConcurrentCalls: config.GATEWAY_MAX_CALLS,
  };
}
