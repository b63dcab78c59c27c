import { ToolError, type ExecutionFailure, type JsonObject } from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool } from '@toolfleet/resilience/child-pool';
import type { ExtractType } from '../web/extract-page.js';
import { boundsOf, type BoundedJob } from '../bounded/bounded-work.js';
import type { BuiltinTool, ToolServiceName, BuiltinMetadata, ToolOutcome, ToolServices } from '../builtin-tool.js';
import { TENANT, type ToolRun } from '../tool-run.js';

/** Work of a plugin process. `module` is the URL of a version of a plugin file. */
export type PluginJob =
  | { kind: 'describe'; module: string }
  | {
      kind: 'run';
      module: string;
      tool: string;
      args: JsonObject;
      call: Pick<ToolRun, 'callId' | 'tool' | 'context' | 'deadlineAt'>;
      tenant: string;
      /** The constants of the service `search`, where the tool needs it. */
      search: { name: string; maxResults: number } | undefined;
    };

/** Why a handler ended: a ToolError, or the stack of an unexpected exception. */
export type PluginFault = { failure: ExecutionFailure } | { stack: string };
/** The end of a handler, as its process reports it. */
export type PluginEnd =
  | { outcome: Omit<ToolOutcome, 'failure'>; failure?: PluginFault | undefined }
  | { fault: PluginFault };
/** The answers to jobs, by their kind. */
interface PluginAnswers {
  describe: { metadata: BuiltinMetadata; needs: ToolServiceName[] }[];
  run: PluginEnd;
}
/** The answer of a service to a plugin process. */
export type ServiceAnswer = { value: unknown } | { fault: PluginFault };

/** The services that a plugin may need, from within its process. */
export const PLUGIN_SERVICES = ['bounded', 'pages', 'search', 'workspaces'] as const satisfies ToolServiceName[];

/** The methods of the workspace of a call, with the number of their arguments. A change takes a function that stays in its process. */
export const WORKSPACE_METHODS = { stat: 1, read: 1, list: 3, write: 3, makeDirectory: 1, remove: 2 } as const;

/** Jobs of a tenant that a process runs at the same time. */
const JOBS_PER_PROCESS = 16;
/** Maximum number of waiting calls of a tenant: each occupies one of the 256 concurrent calls of its executor. */
const MAX_WAITING = 128;
/** How long a handler may take to end when its caller is gone or its time is over. */
const GRACE_MS = 1_000;
/** How long a file may take to load: it may connect to something. */
const LOAD_MS = 30_000;
const RESTART_PAUSE = { fromMs: 250, toMs: 30_000 };

/**
 * Runs the handlers of plugins in processes of their own, killed when a handler does not end (see `ChildPool`): the executor and
 * the calls of other tenants go on. A process has the environment of the executor without the fleet's own settings.
 */
export class PluginProcesses extends ChildPool<PluginJob, PluginAnswers> {
  constructor(
    clock: Clock,
    private readonly limits: { size: number; heapMb: number; environment: () => NodeJS.ProcessEnv },
  ) {
    super(clock, {
      program: childProgram(import.meta.url, 'plugin-child'),
      ...limits,
      maxWaiting: MAX_WAITING,
      jobsPerChild: JOBS_PER_PROCESS,
      graceMs: GRACE_MS,
      restartPause: RESTART_PAUSE,
      endedCode: 'OUTCOME_UNKNOWN',
      output: 'inherit',
    });
  }

  /** The tools of a version of a file. @throws Error if it cannot be loaded */
  async tools(module: string): Promise<BuiltinTool[]> {
    const late = AbortSignal.timeout(LOAD_MS);
    const described = await this.run({ kind: 'describe', module }, { signal: late, tenant: '' }).catch(
      (error: unknown) => {
        throw late.aborted ? new Error(`does not load within ${LOAD_MS / 1_000} s`) : error;
      },
    );
    return described.map(({ metadata, needs }) => ({
      // An author cannot choose a limit of the process.
      metadata: { ...metadata, memoryLimitMb: this.limits.heapMb },
      needs,
      handle: (args, run, services) => this.handle(module, { metadata, needs }, args, run, services),
    }));
  }

  private async handle(
    module: string,
    { metadata, needs }: Pick<BuiltinTool, 'metadata' | 'needs'>,
    args: JsonObject,
    run: ToolRun,
    services: ToolServices,
  ): Promise<ToolOutcome> {
    const { callId, tool, context, deadlineAt, signal } = run;
    const search = needs.includes('search') ? services.search : undefined;
    const job: Extract<PluginJob, { kind: 'run' }> = {
      kind: 'run',
      module,
      tool: metadata.name,
      args,
      call: { callId, tool, context, deadlineAt },
      tenant: run[TENANT],
      search: search && { name: search.name, maxResults: search.maxResults },
    };
    const answer = async (name: string, asked: unknown[]): Promise<ServiceAnswer | undefined> => {
      if (name === 'progress') return void run.progress(asked[0] as Parameters<ToolRun['progress']>[0]);
      try {
        if (!needs.includes(name.split('.')[0] as ToolServiceName)) throw new ToolError('INTERNAL');
        return { value: await serve(name, asked, run, services) };
      } catch (error) {
        const failure = error instanceof ToolError ? error : new ToolError('TOOL_ERROR', { message: String(error) });
        return { fault: { failure: toFailure(failure) } };
      }
    };
    const ended = await this.run(job, { signal, tenant: run[TENANT], answer });
    if ('fault' in ended) throw toError(ended.fault);
    return { ...ended.outcome, failure: ended.failure && (toError(ended.failure) as ToolError) };
  }
}

/** An error as a plugin process reported it. */
export function toError(fault: PluginFault): Error {
  if ('failure' in fault) return new ToolError(fault.failure.code, fault.failure);
  return Object.assign(new Error('A plugin failed'), { stack: fault.stack });
}

/** Asks a service on behalf of a call. */
function serve(
  name: string,
  args: unknown[],
  run: ToolRun,
  { bounded, pages, search, workspaces }: ToolServices,
): unknown {
  if (name === 'bounded.run')
    return bounded.run(args[0] as BoundedJob, { ...boundsOf(run), timeoutMs: args[1] as number });
  if (name === 'pages.read') return pages.read(args[0] as string, args[1] as ExtractType, boundsOf(run));
  if (name === 'search.search') return search.search(args[0] as string, args[1] as number, run.signal);
  const method = name.slice('workspaces.'.length);
  if (!isWorkspaceMethod(method)) throw new ToolError('INTERNAL');
  const workspace = workspaces.of(run);
  return Reflect.apply(workspace[method], workspace, args);
}

const isWorkspaceMethod = (name: string): name is keyof typeof WORKSPACE_METHODS =>
  Object.hasOwn(WORKSPACE_METHODS, name);
