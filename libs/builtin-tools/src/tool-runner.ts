import { isToolError, ToolError, type CallProgress, type EpochMs } from '@toolfleet/contracts';
import { failedResponse, toFailure, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { BuiltinTool, ToolServiceName, ToolOutcome, ToolServices } from './builtin-tool.js';
import { TENANT, type ToolRun } from './tool-run.js';

/** Limits and listeners of an attempt. */
interface AttemptOptions {
  signal: AbortSignal;
  deadlineAt: EpochMs;
  progress?: (progress: CallProgress) => void;
}

/** Called for unexpected exceptions, that is, bugs in a handler. @returns what callers may read of it; undefined for nothing */
type UnexpectedErrorHook = (tool: string, error: unknown) => string | undefined;

/** Runs attempts of the tools that a process serves, and gives them the services they need. */
export class ToolRunner {
  private readonly byHandler = new Map<string, BuiltinTool>();

  constructor(
    tools: readonly BuiltinTool[],
    private readonly services: Partial<ToolServices>,
    private readonly clock: Clock,
    private readonly onUnexpectedError: UnexpectedErrorHook = () => undefined,
  ) {
    for (const tool of tools) this.add(tool);
  }

  /** The tools served now. */
  get tools(): BuiltinTool[] {
    return [...this.byHandler.values()];
  }

  /** Adds a tool, or replaces the one of the same name. @throws Error if a service that it needs is missing */
  add(tool: BuiltinTool): void {
    const missing = tool.needs.filter((need: ToolServiceName) => this.services[need] === undefined);
    if (missing.length > 0)
      throw new Error(`Tool ${tool.metadata.name} needs ${missing.join(', ')}, which this process does not provide`);
    this.byHandler.set(tool.metadata.name, tool);
  }

  /** True if a tool is served here and declared idempotent. */
  isIdempotent(name: string): boolean {
    return this.byHandler.get(name)?.metadata.idempotent === true;
  }

  /** Stops serving a tool. */
  remove(name: string): void {
    this.byHandler.delete(name);
  }

  /**
   * Runs one attempt. Never throws: failures of the tool and exceptions of its handler become the `failure` of the response.
   * The handler gets its own copy of the arguments and may modify it.
   */
  async run(message: ExecMessage, options: AttemptOptions): Promise<ExecResponse> {
    const startedAt = this.clock.monotonic();
    try {
      const outcome = await this.attempt(message, options);
      return { ...this.vouched(message, toResponse(message.tool, outcome)), execute_ms: this.elapsed(startedAt) };
    } catch (error) {
      const failure = this.classify(message.tool, error, options.signal);
      const response = failedResponse(failure, failure.message);
      return { ...this.vouched(message, response), execute_ms: this.elapsed(startedAt) };
    }
  }

  /** A plugin may report the state of its target. Whether the attempt began decides the charge, so only the fleet's own tools may say it. */
  private vouched({ binding }: ExecMessage, response: ExecResponse): ExecResponse {
    const facts = response.failure?.facts;
    const tool = binding.kind === 'builtin' ? this.byHandler.get(binding.handler) : undefined;
    if (!facts || !response.failure || tool?.build === undefined) return response;
    const { status, delivered, blame } = facts;
    const kept = { status, delivered, blame: blame === 'executor' || blame === 'tool' ? undefined : blame };
    return { ...response, failure: { ...response.failure, facts: kept } };
  }

  private attempt(message: ExecMessage, options: AttemptOptions): ToolOutcome | Promise<ToolOutcome> {
    const { binding } = message;
    const tool = binding.kind === 'builtin' ? this.byHandler.get(binding.handler) : undefined;
    if (!tool) throw new ToolError('EXECUTOR_UNAVAILABLE', { message: `This executor does not serve ${message.tool}` });
    options.signal.throwIfAborted();
    const { tenant_id: tenantId, ...context } = message.context;
    const receivesTenant = tool.metadata.contextKeys?.includes('tenant_id') === true;
    const run: ToolRun = {
      callId: message.call_id,
      tool: message.tool,
      context: receivesTenant ? message.context : context,
      [TENANT]: tenantId,
      signal: options.signal,
      clock: this.clock,
      deadlineAt: options.deadlineAt,
      progress: options.progress ?? ignore,
    };
    return tool.handle(message.arguments, run, this.services as ToolServices);
  }

  private classify(tool: string, error: unknown, signal: AbortSignal): ToolError {
    if (signal.aborted && (error === signal.reason || !isToolError(error))) return stopped(signal.reason);
    if (isToolError(error)) return error;
    // The message of an unexpected exception may contain paths or secrets, so it is logged but not returned.
    const shown = this.onUnexpectedError(tool, error);
    const message = `${tool} failed unexpectedly${shown === undefined ? '' : `: ${shown}`}`;
    return new ToolError('EXECUTION_FAILED', { message });
  }

  private elapsed(startedAt: number): number {
    return Math.round((this.clock.monotonic() - startedAt) * 1_000) / 1_000;
  }
}

function ignore(): void {}

/** The response to an outcome; one above `SIZES.toolResult` fails. Content is not counted: entry points leave it out where it does not fit. */
function toResponse(tool: string, outcome: ToolOutcome): ExecResponse {
  const { output, text, metadata, usage } = outcome;
  const bytes = Buffer.byteLength(JSON.stringify({ output, text, metadata }));
  if (bytes > SIZES.toolResult) {
    const limit = SIZES.toolResult;
    const message = `The result of '${tool}' has ${bytes} bytes, at most ${limit} are allowed`;
    return {
      ...failedResponse(
        outcome.failure ?? new ToolError('RESULT_TOO_LARGE', { message, details: { bytes, limit } }),
        message,
      ),
      usage,
    };
  }
  return {
    ok: outcome.failure === undefined,
    output: outcome.output,
    text: outcome.text,
    metadata: outcome.metadata ?? {},
    usage: outcome.usage,
    content: outcome.content,
    failure: outcome.failure && toFailure(outcome.failure),
  };
}

/** The error of an aborted attempt. A call deadline that passes during the attempt counts as the attempt's time-out. */
function stopped(reason: unknown): ToolError {
  if (isToolError(reason)) return reason.code === 'DEADLINE_EXCEEDED' ? new ToolError('ATTEMPT_TIMED_OUT') : reason;
  return new ToolError(reason instanceof Error && reason.name === 'TimeoutError' ? 'ATTEMPT_TIMED_OUT' : 'CANCELLED');
}
