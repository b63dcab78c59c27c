import { ToolError, type CallProgress, type JsonObject } from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import { SystemClock } from '@toolfleet/resilience';
import { schemaDefaults } from '@toolfleet/testing';
import type { BuiltinTool, ToolOutcome, ToolServices } from '../src/builtin-tool.js';
import { TENANT } from '../src/tool-run.js';

/** Options of a run in a spec. */
export interface RunOptions {
  context?: Partial<ExecContext>;
  services?: Partial<ToolServices>;
  signal?: AbortSignal;
  timeoutMs?: number;
  progress?: (progress: CallProgress) => void;
}

/** Runs a tool's handler as the executor would, with the services a spec gives it. */
export async function runTool(tool: BuiltinTool, args: JsonObject, options: RunOptions = {}): Promise<ToolOutcome> {
  const clock = new SystemClock();
  const { timeoutMs = 50_000 } = options;
  const deadline = new AbortController();
  const cancelTimer = clock.after(timeoutMs, () => deadline.abort(new ToolError('DEADLINE_EXCEEDED')));
  const run = {
    callId: 'call_spec',
    tool: tool.metadata.name,
    context: { ...options.context },
    [TENANT]: options.context?.tenant_id ?? 'acme',
    signal: options.signal ?? deadline.signal,
    clock,
    deadlineAt: clock.now() + timeoutMs,
    progress: options.progress ?? (() => {}),
  };
  try {
    return await tool.handle(
      { ...schemaDefaults(tool.metadata.inputSchema), ...args },
      run,
      (options.services ?? {}) as ToolServices,
    );
  } finally {
    cancelTimer();
  }
}
