/**
 * The process of plugins. It loads plugin files and runs their handlers, and has no connection to NATS, Redis or another service: what a
 * handler `needs` it asks of the executor; it kills the process of a handler that does not end.
 */
import { isToolError } from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';
import { SystemClock } from '@toolfleet/resilience';
import { serveJobs, type JobContext } from '@toolfleet/resilience/child-program';
import type { BuiltinTool, ToolServices } from '../builtin-tool.js';
import { TENANT, type ToolRun } from '../tool-run.js';
import { readTools } from './plugin-api.js';
import {
  toError,
  WORKSPACE_METHODS,
  type PluginEnd,
  type PluginFault,
  type PluginJob,
  type ServiceAnswer,
} from './plugin-processes.js';

/** Maximum size of an outcome, in UTF-16 units of its JSON; the executor refuses results far below it. */
const MAX_OUTCOME = 64 * 1024 * 1024;

const clock = new SystemClock();
const versions = new Map<string, Promise<BuiltinTool[]>>();

serveJobs<PluginJob>(async (job, context) => {
  if (job.kind === 'describe')
    return async () => (await toolsOf(job.module)).map(({ metadata, needs }) => ({ metadata, needs }));
  const tool = (await toolsOf(job.module)).find(({ metadata }) => metadata.name === job.tool);
  if (!tool) throw new Error(`The file of ${job.tool} does not define it`);
  return () => run(tool, job, context);
}, MAX_OUTCOME);

/** A version that cannot be loaded is tried again. */
function toolsOf(module: string): Promise<BuiltinTool[]> {
  let tools = versions.get(module);
  if (!tools) {
    versions.set(module, (tools = readTools(module)));
    tools.catch(() => versions.delete(module));
  }
  return tools;
}

async function run(
  tool: BuiltinTool,
  { args, call, tenant, search }: Extract<PluginJob, { kind: 'run' }>,
  { signal, ask }: JobContext,
): Promise<PluginEnd> {
  const toolRun: ToolRun = {
    ...call,
    [TENANT]: tenant,
    signal,
    clock,
    progress: (progress) => void ask('progress', [progress]),
  };
  try {
    const { failure, ...outcome } = await tool.handle(args, toolRun, services(ask, search));
    return { outcome, failure: failure && toFault(failure) };
  } catch (error) {
    return { fault: toFault(error) };
  }
}

function toFault(error: unknown): PluginFault {
  if (isToolError(error)) return { failure: toFailure(error) };
  return { stack: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/** The services of the executor, as its tools have them; each method asks for one of them. */
function services(ask: JobContext['ask'], found: { name: string; maxResults: number } | undefined): ToolServices {
  const method =
    (name: string, count: number) =>
    async (...args: unknown[]): Promise<unknown> => {
      // What follows (bounds, signals) the executor knows itself.
      const answer = (await ask(name, args.slice(0, count))) as ServiceAnswer;
      if ('fault' in answer) throw toError(answer.fault);
      return answer.value;
    };
  const workspace = Object.fromEntries(
    Object.entries(WORKSPACE_METHODS).map(([name, count]) => [name, method(`workspaces.${name}`, count)]),
  );
  const offered = {
    bounded: { run: (job: object, { timeoutMs }: { timeoutMs: number }) => method('bounded.run', 2)(job, timeoutMs) },
    pages: { read: method('pages.read', 2) },
    search: { ...found, search: method('search.search', 2) },
    workspaces: { of: () => workspace },
  };
  return offered as object as ToolServices;
}
