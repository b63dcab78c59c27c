import { DEFAULT_SETTINGS, type EngineSettings } from '@toolfleet/engine';
import type { BreakerRule } from '@toolfleet/resilience';
import type { GatewayConfig } from '../gateway.config.js';

/** ENFORCE_CB_*: a tool opens by its error rate and is tried again after one window. */
export function toolBreakerRule(settings: GatewayConfig): BreakerRule {
  const windowMs = settings.ENFORCE_CB_WINDOW_SECONDS * 1_000;
  return {
    errorRate: { threshold: settings.ENFORCE_CB_ERROR_THRESHOLD, windowMs, minCalls: settings.ENFORCE_CB_MIN_REQUESTS },
    recoveryMs: windowMs,
  };
}

/** Figures of the engine from the gateway's configuration. */
export function engineSettings(settings: GatewayConfig): EngineSettings {
  return {
    ...DEFAULT_SETTINGS,
    attempts: { mcp: settings.MCP_RETRIES, openapi: settings.OPENAPI_RETRIES },
    mcpTimeoutMs: settings.MCP_TIMEOUT_SECONDS * 1_000,
    openapiTimeoutMs: settings.OPENAPI_TIMEOUT_SECONDS * 1_000,
    defaultTimeoutMs: settings.TOOL_TIMEOUT_SECONDS * 1_000,
    pythonMaxTimeoutMs: settings.WASI_TIMEOUT_SECONDS * 1_000,
    gracefulErrorAsSuccess: settings.GRACEFUL_ERROR_AS_SUCCESS,
    parallelism: settings.TOOL_PARALLELISM,
    maxConcurrentCalls: settings.GATEWAY_MAX_CALLS,
    cacheTtlMs: settings.RESULT_CACHE_TTL_SECONDS * 1_000,
    historyTtlMs: settings.RESULT_CACHE_TTL_SECONDS * 1_000,
    staleTtlMs: settings.RESULT_STALE_SECONDS * 1_000,
    rateLimits: {
      web_search: settings.WEB_SEARCH_RATE_LIMIT,
      calculator: settings.CALCULATOR_RATE_LIMIT,
      execute_python: settings.PYTHON_EXECUTOR_RATE_LIMIT,
    },
  };
}
