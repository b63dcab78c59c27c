import type { GatewayConfig } from '../gateway.config.js';
import type { BreakerRule } from '@toolfleet/resilience';
import { type EngineSettings, DEFAULT_SETTINGS } from '@toolfleet/engine';

/** Largest HTTP request body: that of the ingress in deploy/k8s, and more than a batch of large arguments needs. */
export const MAX_BODY_BYTES = 8 * 1_024 * 1_024;
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
    pythonMaxTimeoutMs: config.WASI_TIMEOUT_SECONDS * 1_000,
    gracefulErrorAsSuccess: config.GRACEFUL_ERROR_AS_SUCCESS,
    parallelism: config.TOOL_PARALLELISM,
    maxConcurrentCalls: config.GATEWAY_MAX_CALLS,
  };
}
