import {
  isJsonObject,
  type CallRequest,
  type JsonObject,
  type MicroUsd,
  type Milliseconds,
} from '@toolfleet/contracts';
import {
  callsTools,
  DEFAULT_RATE_LIMIT,
  LOCAL_SERVER_MEMORY_MB,
  userAuthOf,
  type RegisteredTool,
} from '@toolfleet/contracts/tool-definition';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { RecentMap, type Rate } from '@toolfleet/resilience';
import { ArgumentReader, compileSchema, type CompiledSchema } from '@toolfleet/bounded-schema';
import { readSelect, type SelectExpression } from '@toolfleet/bounded-schema/select';
import type { EngineSettings } from './settings.js';
import { deriveRetryRule, type RetryRule } from './retry-rule.js';

/** The plan derived from a definition and its settings, once per revision. */
export interface ToolPlan {
  readonly reader: ArgumentReader;
  /** The declared output schema of an MCP tool; undefined for other tools: their own tests check their output. */
  readonly outputSchema: CompiledSchema | undefined;
  readonly idempotent: boolean;
  /** True: the tool calls other tools, with a delegation token of its own call. */
  readonly callsTools: boolean;
  /** True: the tool may report usage. Python reports nothing, and tools that call tools settle while they run. */
  readonly mayReport: boolean;
  /** Set: calls act upstream with the credential of the calling user. */
  readonly userAuth: UserAuth | undefined;
  readonly retry: RetryRule;
  /** Longest attempt; undefined where it follows from the arguments (sandbox). */
  readonly timeoutMs: Milliseconds | undefined;
  /** False for queued tools: waiting in the queue belongs to the attempt, so only the deadline ends it here. */
  readonly bounded: boolean;
  /** How long results are cached. 0: never; undefined: as long as the upstream allows. */
  readonly cacheTtlMs: Milliseconds | undefined;
  /** True: results answer no other call and are kept to replace failures only, because no response of such a tool allows more. */
  readonly isOnlyStale: boolean;
  /** True: a call may change what other tools of the same source answer. */
  readonly hasEffects: boolean;
  /** True: calls of other tools, on any replica, may change the result. Of builtin tools, only uncached ones depend on others. */
  readonly mutableSource: boolean;
  /** The part of each result for callers that select none. */
  readonly select: SelectExpression | undefined;
  /** Undefined: no rate limit. */
  readonly rate: Rate | undefined;
  /** True: a call waits for its token until the deadline instead of being refused. */
  readonly waitsForRate: boolean;
  /** Price of a call that reports none. */
  readonly microUsd: MicroUsd;
  /** Reserved before a call. */
  readonly reserveMicroUsd: MicroUsd;
}

/** Enough for a fleet of 5,000 tools. */
const MAX_PLANS = 5_000;
const MINUTE_MS = 60_000;

/** Caches plans by definition object and by revision: a catalog may return a new object for a known revision. */
export class ToolPlans {
  readonly #byTool = new WeakMap<RegisteredTool, ToolPlan>();
  readonly #byRevision = new RecentMap<string, ToolPlan>({ max: MAX_PLANS });

  constructor(private readonly settings: EngineSettings) {}

  /** @throws ToolError SPEC_INVALID when the input schema does not compile */
  get(tool: RegisteredTool): ToolPlan {
    const known = this.#byTool.get(tool);
    if (known) return known;
    const id = `${tool.name} ${tool.revision}`;
    const plan = this.#byRevision.get(id) ?? derivePlan(tool, this.settings);
    this.#byTool.set(tool, plan);
    this.#byRevision.set(id, plan);
    return plan;
  }
}

function derivePlan(tool: RegisteredTool, settings: EngineSettings): ToolPlan {
  const idempotent = tool.idempotent === true;
  const microUsd = tool.cost_per_use_micro_usd ?? 0;
  const cacheMs = idempotent ? cacheTtlMs(tool, settings) : 0;
  return {
    reader: argumentReader(tool),
    outputSchema: tool.binding.kind === 'mcp' ? outputSchemaOf(tool) : undefined,
    idempotent,
    callsTools: callsTools(tool),
    mayReport: tool.binding.kind !== 'python' && !callsTools(tool),
    userAuth: userAuthOf(tool.binding),
    retry: deriveRetryRule(tool, settings),
    timeoutMs: tool.binding.kind === 'python' ? undefined : timeoutSeconds(tool, settings) * 1_000,
    bounded: tool.binding.kind !== 'python' && !callsTools(tool),
    cacheTtlMs: cacheMs,
    isOnlyStale: cacheMs === undefined && tool.binding.kind === 'mcp',
    hasEffects: hasEffects(tool),
    mutableSource: tool.source.kind !== 'builtin',
    select: compileSelection(tool),
    rate: toolRate(tool),
    waitsForRate: tool.rate_limit_mode === 'wait',
    microUsd,
    reserveMicroUsd: reservedMicroUsd(tool),
  };
}

/** Reads the arguments of a tool's calls. @throws ToolError SPEC_INVALID when the input schema does not compile */
export function argumentReader({ name, input_schema: schema, idempotent, binding }: RegisteredTool): ArgumentReader {
  return new ArgumentReader(schema, {
    toolName: name,
    refuseUnknown: idempotent !== true,
    bodyProperty: binding.kind === 'openapi' ? 'body' : undefined,
  });
}

/** Reservation before a call of a tool. */
export function reservedMicroUsd({
  cost_cap_micro_usd: cap = 0,
  cost_per_use_micro_usd: price = 0,
}: Pick<RegisteredTool, 'cost_cap_micro_usd' | 'cost_per_use_micro_usd'>): MicroUsd {
  return Math.max(cap, price);
}

/** The declared TTL; without one, remote tools are cached only as their upstream allows, because only it knows what changes. */
function cacheTtlMs(tool: RegisteredTool, settings: EngineSettings): Milliseconds | undefined {
  if (tool.cache_ttl_seconds !== undefined) return tool.cache_ttl_seconds * 1_000;
  const { kind } = tool.binding;
  const isRemote = kind === 'openapi' || kind === 'mcp';
  return isRemote && settings.cacheTtlMs > 0 ? undefined : settings.cacheTtlMs;
}

/** Methods without effects: RFC 9110 section 9.2.1, and QUERY of OpenAPI 3.2. */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'QUERY']);

/** Whether an HTTP method has no effects. */
export const isSafeMethod = (method: string): boolean => SAFE_METHODS.has(method.toUpperCase());

/**
 * Whether a call may change something outside. A tool that is declared cacheable has no effects. Tools that call tools leave the
 * effects to the calls they make.
 */
export function hasEffects(tool: RegisteredTool): boolean {
  const { binding } = tool;
  if (callsTools(tool)) return false;
  if (!tool.idempotent) return true;
  if ((tool.cache_ttl_seconds ?? 0) > 0) return false;
  if (binding.kind === 'openapi') return !isSafeMethod(binding.method);
  const isReadOnly = tool.annotations?.readOnlyHint;
  return binding.kind === 'mcp' ? isReadOnly !== true : isReadOnly === false;
}

const outputSchemas = new WeakMap<JsonObject, CompiledSchema | undefined>();

/** The compiled output schema of a tool. One that does not compile is ignored: it must not make the tool unusable. */
export function outputSchemaOf({ output_schema: schema }: RegisteredTool): CompiledSchema | undefined {
  if (!schema || outputSchemas.has(schema)) return schema && outputSchemas.get(schema);
  let compiled: CompiledSchema | undefined;
  try {
    compiled = compileSchema(schema);
  } catch {}
  outputSchemas.set(schema, compiled);
  return compiled;
}

/** The registry refuses a wrong selection. */
function compileSelection({ select }: RegisteredTool): SelectExpression | undefined {
  return select === undefined || select === '@' ? undefined : readSelect(select);
}

/**
 * Calls that each tenant may make of a tool. Limits that an operator sets are part of the definition: the process that announces
 * the tool applies them, so that every gateway, list and view has the same one. 0 means no limit.
 */
export function toolRate(tool: Pick<RegisteredTool, 'rate_limit'>): Rate | undefined {
  const perMinute = tool.rate_limit ?? DEFAULT_RATE_LIMIT;
  return perMinute > 0 ? { perPeriod: perMinute, periodMs: MINUTE_MS } : undefined;
}

/** Key of the rate limit bucket of a tenant and a tool. `toolName` is the name of the definition, so aliases share a bucket. */
export function rateKey(tenantId: string, toolName: string): string {
  return `${tenantId}:${toolName}`;
}

/**
 * A definition with the limits that its calls have in this fleet, so that every list shows the enforced limits. Applied where definitions are
 * read, so that a limit has one source: the tool's own, else the default of its name, kind or strictness.
 */
export function withLimits(tool: RegisteredTool, settings: EngineSettings): RegisteredTool {
  const { binding, rate_limit: perMinute = DEFAULT_RATE_LIMIT, timeout_seconds: declared = Infinity } = tool;
  const limited = { ...tool, rate_limit: perMinute, timeout_seconds: timeoutSeconds(tool, settings) };
  if (binding.kind === 'mcp') {
    // The longest silence of a server, less than an attempt may take where its entry has `max_seconds`.
    const options: JsonObject = { timeout_seconds: settings.mcpTimeoutMs / 1_000, ...binding.options };
    options.max_response_bytes = Math.min(
      Number(options.max_response_bytes ?? settings.mcpResponseBytes),
      SIZES.message,
    );
    const memoryMb = binding.transport === 'stdio' ? (options.memory_limit_mb ?? LOCAL_SERVER_MEMORY_MB) : undefined;
    return { ...limited, memory_limit_mb: memoryMb as number | undefined, binding: { ...binding, options } };
  }
  const { properties } = tool.input_schema;
  if (binding.kind !== 'python' || !isJsonObject(properties) || !isJsonObject(properties.timeout_seconds))
    return limited;
  const maximum = Math.min(declared, maxPythonMs(tool, settings) / 1_000);
  const asked = { ...properties.timeout_seconds, maximum };
  return { ...limited, input_schema: { ...tool.input_schema, properties: { ...properties, timeout_seconds: asked } } };
}

/** The longest attempt of a tool, in seconds; of `execute_python` for a call without arguments about it. */
function timeoutSeconds(tool: RegisteredTool, settings: EngineSettings): number {
  const { name, timeout_seconds: declared, binding } = tool;
  if (binding.kind === 'python') return pythonTimeoutMs(tool, {}, settings) / 1_000;
  if (declared !== undefined) return declared;
  const byPrefix = Object.entries(settings.prefixTimeoutsMs).find(([prefix]) => name.startsWith(prefix))?.[1];
  const byKind = { mcp: settings.mcpTimeoutMs, openapi: settings.openapiTimeoutMs } as Partial<Record<string, number>>;
  return (byPrefix ?? byKind[binding.kind] ?? settings.defaultTimeoutMs) / 1_000;
}

/**
 * The attempt timeout of one call: the tool's, or the caller's `timeout_ms` where that is shorter. A call that follows a task of an MCP
 * server has the time until its deadline, because the server answers in between.
 */
export function attemptTimeoutMs(
  tool: RegisteredTool,
  plan: ToolPlan,
  request: CallRequest,
  args: JsonObject,
  settings: EngineSettings,
): Milliseconds {
  if (request.personInput?.given?.task !== undefined) return request.limits.timeoutMs ?? Number.POSITIVE_INFINITY;
  const ofTool = plan.timeoutMs ?? pythonTimeoutMs(tool, args, settings);
  return request.limits.timeoutMs === undefined ? ofTool : Math.min(ofTool, request.limits.timeoutMs);
}

/**
 * The run limit of a sandbox call: `timeout_seconds` of its arguments, else the tool's, else by strictness; at most the maximum.
 * The declared time belongs to the default strictness.
 */
function pythonTimeoutMs(tool: RegisteredTool, args: JsonObject, settings: EngineSettings): Milliseconds {
  const maxMs = maxPythonMs(tool, settings);
  if (typeof args.timeout_seconds === 'number' && args.timeout_seconds > 0)
    return Math.min(args.timeout_seconds * 1_000, maxMs);
  const { strictness } = isJsonObject(tool.input_schema.properties) ? tool.input_schema.properties : {};
  const preset = isJsonObject(strictness) ? strictness.default : undefined;
  const level = args.strictness ?? preset;
  if (level === preset && tool.timeout_seconds !== undefined) return Math.min(tool.timeout_seconds * 1_000, maxMs);
  return Math.min(settings.pythonTimeoutsMs[level === 'strict' ? level : 'standard'], maxMs);
}

/** The longest run that a call of a sandbox tool can ask for: the maximum of its argument once the definition has its limits. */
function maxPythonMs(tool: RegisteredTool, settings: EngineSettings): Milliseconds {
  const { timeout_seconds: asked } = isJsonObject(tool.input_schema.properties) ? tool.input_schema.properties : {};
  const maximum = isJsonObject(asked) && typeof asked.maximum === 'number' ? asked.maximum * 1_000 : Infinity;
  return Math.min(maximum, settings.pythonMaxTimeoutMs);
}
