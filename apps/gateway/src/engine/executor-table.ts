import { ToolError } from '@toolfleet/contracts';
import { builtinSubject, QUEUES, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Binding } from '@toolfleet/contracts/tool-definition';
import type { Executor } from '@toolfleet/engine';

/** How the table makes executors: one per NATS subject and one per queue, shared by all calls. */
export interface ExecutorMakers {
  remote(subject: string): Executor;
  queue(name: string): Executor;
}

/** Which process runs a tool: the one place that knows. */
export function executorTable(make: ExecutorMakers): (binding: Binding) => Executor {
  const table = {
    mcp: make.remote(SUBJECTS.execMcp),
    openapi: make.remote(SUBJECTS.execOpenapi),
    python: make.queue(QUEUES.pythonRuns),
    builtin: {
      compute: make.remote(builtinSubject('compute')),
      web: make.remote(builtinSubject('web')),
      files: make.remote(builtinSubject('files')),
      agent: make.queue(QUEUES.agentRuns),
    },
  } as const;
  return (binding) => {
    const executor = binding.kind === 'builtin' ? table.builtin[binding.toolset] : table[binding.kind];
    if (!executor) {
      throw new ToolError('EXECUTOR_UNAVAILABLE', { message: `No executor serves bindings of kind '${binding.kind}'` });
    }
    return executor;
  };
}
