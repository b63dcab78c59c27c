import type { CallRequest, JsonObject, Milliseconds } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { EngineSettings } from './settings.js';
import type { ToolPlan } from './tool-plan.js';

/** Attempt timeout that follows from the definition alone: metadata, prefix, class, global default. */
export function toolTimeoutMs(tool: RegisteredTool, settings: EngineSettings): Milliseconds | undefined {
  const kind = tool.binding.kind;
  if (tool.timeout_seconds !== undefined) {
    const declared = tool.timeout_seconds * 1_000;
    return kind === 'python' ? Math.min(declared, settings.pythonMaxTimeoutMs) : declared;
  }
  if (kind === 'python') return undefined;
  for (const [prefix, timeoutMs] of Object.entries(settings.prefixTimeoutsMs)) {
    if (tool.name.startsWith(prefix)) return timeoutMs;
  }
  if (kind === 'mcp') return settings.mcpTimeoutMs;
  return kind === 'openapi' ? settings.openapiTimeoutMs : settings.defaultTimeoutMs;
}

/** Longest run of one attempt of this call: what the tool allows, what the caller asked for, never more than is left. */
export function attemptTimeoutMs(
  plan: ToolPlan,
  request: CallRequest,
  args: JsonObject,
  settings: EngineSettings,
): Milliseconds {
  const ofTool = plan.timeoutMs ?? pythonTimeoutMs(args, settings);
  return request.timeoutMs === undefined ? ofTool : Math.min(ofTool, request.timeoutMs);
}

/** Run limit of a sandbox call: `timeout_seconds` of its arguments, else by strictness, never above the maximum. */
function pythonTimeoutMs(args: JsonObject, settings: EngineSettings): Milliseconds {
  if (typeof args.timeout_seconds === 'number' && args.timeout_seconds > 0) {
    return Math.min(args.timeout_seconds * 1_000, settings.pythonMaxTimeoutMs);
  }
  const level = args.strictness ?? settings.pythonStrictness;
  const byLevel =
    level === 'lenient' || level === 'strict' ? settings.pythonTimeoutsMs[level] : settings.pythonTimeoutsMs.standard;
  return Math.min(byLevel, settings.pythonMaxTimeoutMs);
}
