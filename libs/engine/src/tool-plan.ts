import type { MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Rate } from '@toolfleet/resilience';
import { ArgumentReader, compileSchema, type CompiledSchema } from '@toolfleet/schema';
import { LRUCache } from 'lru-cache';
import type { EngineSettings } from './settings.js';
import { retryRuleOf, type RetryRule } from './retry-rule.js';
import { toolTimeoutMs } from './time-limits.js';
import { toolRateOf } from './tool-rate.js';

/** What the engine derives from a definition: once per revision, so that a call decides nothing twice. */
export interface ToolPlan {
  readonly reader: ArgumentReader;
  /** What a remote tool promised to answer; undefined for tools of our own, whose tests see to it. */
  readonly outputSchema: CompiledSchema | undefined;
  readonly idempotent: boolean;
  readonly retry: RetryRule;
  /** Longest attempt; undefined when it follows from the arguments (sandbox). */
  readonly timeoutMs: Milliseconds | undefined;
  /** False where waiting in a queue belongs to the attempt: then only the deadline ends it. */
  readonly bounded: boolean;
  /** 0: never cached. */
  readonly cacheTtlMs: Milliseconds;
  /** Undefined: no limit of its own. */
  readonly rate: Rate | undefined;
  readonly waitsForRate: boolean;
  /** Price when the tool reports none. */
  readonly microUsd: MicroUsd;
  /** Held before the call. */
  readonly reserveMicroUsd: MicroUsd;
}

/** Plans kept; a fleet of 5,000 tools fits. */
const MAX_PLANS = 5_000;

/** Plans by definition object, then by revision: a catalogue may hand out a fresh object for a revision it knew. */
export class ToolPlans {
  readonly #byTool = new WeakMap<RegisteredTool, ToolPlan>();
  readonly #byRevision = new LRUCache<string, ToolPlan>({ max: MAX_PLANS });

  constructor(private readonly settings: EngineSettings) {}

  /** @throws ToolError SPEC_INVALID when the input schema does not compile */
  of(tool: RegisteredTool): ToolPlan {
    const known = this.#byTool.get(tool);
    if (known) return known;
    const id = `${tool.name} ${tool.revision}`;
    const plan = this.#byRevision.get(id) ?? planOf(tool, this.settings);
    this.#byTool.set(tool, plan);
    this.#byRevision.set(id, plan);
    return plan;
  }
}

function planOf(tool: RegisteredTool, settings: EngineSettings): ToolPlan {
  const idempotent = tool.idempotent === true;
  const microUsd = tool.cost_per_use_micro_usd ?? 0;
  return {
    reader: new ArgumentReader(tool.input_schema, {
      toolName: tool.name,
      refuseUnknown: !idempotent,
      ...(tool.binding.kind === 'openapi' ? { bodyProperty: 'body' } : {}),
    }),
    outputSchema: remoteOutputSchema(tool),
    idempotent,
    retry: retryRuleOf(tool, settings),
    timeoutMs: toolTimeoutMs(tool, settings),
    bounded: !(tool.binding.kind === 'python' || (tool.binding.kind === 'builtin' && tool.binding.toolset === 'agent')),
    cacheTtlMs: idempotent
      ? tool.cache_ttl_seconds === undefined
        ? settings.cacheTtlMs
        : tool.cache_ttl_seconds * 1_000
      : 0,
    rate: toolRateOf(tool, settings),
    waitsForRate: tool.rate_limit_mode === 'wait',
    microUsd,
    reserveMicroUsd: Math.max(tool.cost_cap_micro_usd ?? 0, microUsd),
  };
}

/** An output schema that does not compile says nothing about results; it must not keep the tool from being called. */
function remoteOutputSchema({ binding, output_schema: schema }: RegisteredTool): CompiledSchema | undefined {
  if (binding.kind !== 'mcp' || !schema) return undefined;
  try {
    return compileSchema(schema);
  } catch {
    return undefined;
  }
}
