import { isToolError, ToolError, type CallProgress, type EpochMs } from '@toolfleet/contracts';
import { failedResponse, toFailure, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import type { BuiltinTool, ServiceName, ToolOutcome, ToolRun, ToolServices } from './builtin-tool.js';

/** Bounds and listeners of one attempt. */
export interface AttemptOptions {
  signal: AbortSignal;
  deadlineAt: EpochMs;
  progress?: (progress: CallProgress) => void;
}

/** Told of faults that are not the tool's way of saying no: a bug in a handler. */
export type FaultHook = (tool: string, error: unknown) => void;

/** The tools a process serves, with the services they need; runs attempts on them. */
export class ToolRunner {
  private readonly byHandler = new Map<string, BuiltinTool>();

  constructor(
    tools: readonly BuiltinTool[],
    private readonly services: Partial<ToolServices>,
    private readonly clock: Clock,
    private readonly onFault: FaultHook = () => {},
  ) {
    for (const tool of tools) this.add(tool);
  }

  /** Tools served at the moment. */
  get tools(): BuiltinTool[] {
    return [...this.byHandler.values()];
  }

  /** Adds a tool or replaces the one of the same name. @throws Error when a service it needs is missing */
  add(tool: BuiltinTool): void {
    const missing = tool.needs.filter((need: ServiceName) => this.services[need] === undefined);
    if (missing.length > 0)
      throw new Error(`Tool ${tool.metadata.name} needs ${missing.join(', ')}, which this process does not have`);
    this.byHandler.set(tool.metadata.name, tool);
  }

  /** True when a tool is declared idempotent; what is not served is not. */
  isIdempotent(name: string): boolean {
    return this.byHandler.get(name)?.metadata.idempotent === true;
  }

  /** Stops serving a tool. */
  remove(name: string): void {
    this.byHandler.delete(name);
  }

  /**
   * Runs one attempt. Never throws: what a tool did wrong is the reply's `failure`, so is a fault of its handler.
   * The handler's arguments are its own copy, whatever it does to them.
   */
  async run(message: ExecMessage, options: AttemptOptions): Promise<ExecResponse> {
    const startedAt = this.clock.monotonic();
    try {
      const outcome = await this.attempt(message, options);
      return { ...replyOf(outcome), execute_ms: this.elapsed(startedAt) };
    } catch (error) {
      return { ...this.failed(message.tool, error, options.signal), execute_ms: this.elapsed(startedAt) };
    }
  }

  private attempt(message: ExecMessage, options: AttemptOptions): ToolOutcome | Promise<ToolOutcome> {
    const { binding } = message;
    const tool = binding.kind === 'builtin' ? this.byHandler.get(binding.handler) : undefined;
    if (!tool) throw new ToolError('EXECUTOR_UNAVAILABLE', { message: `This executor does not serve ${message.tool}` });
    options.signal.throwIfAborted();
    const run: ToolRun = {
      callId: message.call_id,
      tool: message.tool,
      context: message.context,
      signal: options.signal,
      clock: this.clock,
      deadlineAt: options.deadlineAt,
      progress: options.progress ?? ignore,
    };
    return tool.handle(message.arguments, run, this.services as ToolServices);
  }

  private failed(tool: string, error: unknown, signal: AbortSignal): ExecResponse {
    const known = this.classify(tool, error, signal);
    return failedResponse(known, known.message);
  }

  private classify(tool: string, error: unknown, signal: AbortSignal): ToolError {
    if (signal.aborted && (error === signal.reason || !isToolError(error))) return stopped(signal.reason);
    if (isToolError(error)) return error;
    this.onFault(tool, error);
    // The text of an unexpected exception may hold paths or secrets: it is logged, not told.
    return new ToolError('EXECUTION_FAILED', { message: `${tool} failed unexpectedly` });
  }

  private elapsed(startedAt: number): number {
    return Math.round((this.clock.monotonic() - startedAt) * 1_000) / 1_000;
  }
}

function ignore(): void {}

function replyOf(outcome: ToolOutcome): ExecResponse {
  return {
    ok: outcome.failure === undefined,
    output: outcome.output,
    text: outcome.text,
    metadata: outcome.metadata ?? {},
    ...(outcome.usage ? { usage: outcome.usage } : {}),
    ...(outcome.content ? { content: outcome.content } : {}),
    ...(outcome.failure ? { failure: toFailure(outcome.failure) } : {}),
  };
}

/** A deadline that passes after the attempt began is the attempt's time-out. */
function stopped(reason: unknown): ToolError {
  if (isToolError(reason)) return reason.code === 'DEADLINE_EXCEEDED' ? new ToolError('ATTEMPT_TIMED_OUT') : reason;
  return new ToolError(reason instanceof Error && reason.name === 'TimeoutError' ? 'ATTEMPT_TIMED_OUT' : 'CANCELLED');
}
