import { isJsonObject, type Json } from '@toolfleet/contracts';
import type { PythonJobPolicy, Strictness } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { DEFAULT_SETTINGS, type EngineSettings } from '@toolfleet/engine';
import type { BreakerRule } from '@toolfleet/resilience';
import type { GatewayConfig } from '../gateway.config.js';

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
    openapiTimeoutMs: config.OPENAPI_TIMEOUT_SECONDS * 1_000,
    defaultTimeoutMs: config.TOOL_TIMEOUT_SECONDS * 1_000,
    pythonMaxTimeoutMs: config.WASI_TIMEOUT_SECONDS * 1_000,
    gracefulErrorAsSuccess: config.GRACEFUL_ERROR_AS_SUCCESS,
    parallelism: config.TOOL_PARALLELISM,
    maxConcurrentCalls: config.GATEWAY_MAX_CALLS,
    cacheTtlMs: config.RESULT_CACHE_TTL_SECONDS * 1_000,
    sessionTtlMs: config.RESULT_CACHE_TTL_SECONDS * 1_000,
    staleTtlMs: config.RESULT_STALE_SECONDS * 1_000,
  };
}

const LEVELS: readonly Strictness[] = ['lenient', 'standard', 'strict'];
/** A Python module, with or without its packages. */
export const MODULE_NAME = /^[A-Za-z_][A-Za-z0-9_.]{0,99}$/;

/**
 * Reads section `code_execution` of the configuration file; an absent section gives the defaults.
 * @throws Error that lists every invalid key
 */
export function readPythonPolicy(section: Json | undefined): PythonJobPolicy {
  const policy: PythonJobPolicy = {
    default_strictness: 'standard',
    extra_allowed_modules: { standard: [], strict: [] },
  };
  if (section === undefined || section === null) return policy;
  if (!isJsonObject(section)) throw new Error('code_execution must be a mapping');
  const errors: string[] = [];
  for (const [key, value] of Object.entries(section)) {
    if (key === 'default_strictness' && LEVELS.includes(value as Strictness))
      policy.default_strictness = value as Strictness;
    else if (key === 'extra_allowed_modules' && isJsonObject(value)) readModules(value, policy, errors);
    else errors.push(`code_execution.${key} is not understood`);
  }
  if (errors.length > 0) throw new Error(errors.join('; '));
  return policy;
}

function readModules(lists: Record<string, Json>, policy: PythonJobPolicy, errors: string[]): void {
  for (const [level, modules] of Object.entries(lists)) {
    const key = `code_execution.extra_allowed_modules.${level}`;
    if (level !== 'standard' && level !== 'strict') errors.push(`${key} is not a level with a list`);
    else if (!Array.isArray(modules) || modules.some((name) => typeof name !== 'string' || !MODULE_NAME.test(name)))
      errors.push(`${key} must be a list of module names`);
    else policy.extra_allowed_modules[level] = modules as string[];
  }
}

/**
 * Completes the definitions of sandbox tools with the settings of this fleet: the default strictness and the memory limit. The
 * default is part of the definition so that the danger check, the policy, the time limit and every list see the strictness that
 * will run.
 * @param memoryLimitMb upper bound; a definition can only lower it
 */
export function withPythonDefaults(
  { default_strictness: strictness }: Pick<PythonJobPolicy, 'default_strictness'>,
  memoryLimitMb: number,
): (tool: RegisteredTool) => RegisteredTool {
  return (tool) => {
    if (tool.binding.kind !== 'python') return tool;
    const { input_schema: schema } = tool;
    const properties = isJsonObject(schema.properties) ? { ...schema.properties } : {};
    if (isJsonObject(properties.strictness)) {
      properties.strictness = { ...properties.strictness, default: strictness };
    }
    return {
      ...tool,
      input_schema: { ...schema, properties },
      memory_limit_mb: Math.min(tool.memory_limit_mb ?? memoryLimitMb, memoryLimitMb),
    };
  };
}
