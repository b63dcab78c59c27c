import { isToolError, ToolError } from '@toolfleet/contracts';
import {
  TASK_SILENT_MS,
  type ExecMessage,
  type ExecResponse,
  type NewExecJob,
  type PythonJobPolicy,
} from '@toolfleet/contracts/execution';
import { builtinSubject, QUEUES, resumeSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Binding } from '@toolfleet/contracts/tool-definition';
import { Executor, toExecMessage, type Call } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { JobQueue, ReplyChannel } from '@toolfleet/queue';
import type { NatsClient } from '@toolfleet/transport';
import type { CredentialWatch, TokenIssuer } from '@toolfleet/access';
import { approvedContents, type ListDefinitions } from './approved-contents.js';

/** Creates the executors of `executorTable`: one per NATS subject and one per queue, shared by all calls. */
interface ExecutorFactory {
  remote(subject: string): Executor;
  queue(name: string): Executor;
  programs(name: string): Executor;
  results(): Executor;
}

/**
 * Maps the binding of a tool to the process that runs it. This table is the only place that knows where a tool runs.
 * The returned function throws ToolError EXECUTOR_UNAVAILABLE for a binding that no executor serves.
 */
export function executorTable(create: ExecutorFactory): (binding: Binding) => Executor {
  const table = {
    mcp: create.remote(SUBJECTS.execMcp),
    openapi: create.remote(SUBJECTS.execOpenapi),
    python: create.queue(QUEUES.pythonRuns),
    program: create.programs(QUEUES.programRuns),
    result: create.results(),
    builtin: {
      compute: create.remote(builtinSubject('compute')),
      web: create.remote(builtinSubject('web')),
      files: create.remote(builtinSubject('files')),
      agent: create.queue(QUEUES.agentRuns),
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

/** Whether a call follows a task that it has begun at its server: its executor reports all the time, and any other one can go on. */
export function followsTask({ personInput: input }: Call['request']): boolean {
  return input?.tasks === 'follow' && input.given?.task !== undefined;
}

/** Runs attempts on an executor process over NATS; the executor acknowledges the request before it works on it. */
export class RemoteExecutor extends Executor {
  /** @param raiseFence raises the fence of a journalled call; resolves to undefined when its effect may have begun */
  constructor(
    private readonly nats: NatsClient,
    private readonly subject: string,
    private readonly raiseFence: (call: Call) => Promise<number | undefined>,
    private readonly issueToken: TokenIssuer,
    private readonly issueGrant: TokenIssuer,
    private readonly definitions: ListDefinitions,
  ) {
    super();
  }

  override async execute(call: Call): Promise<ExecResponse> {
    const approved = await approvedContents(call, this.definitions);
    const message = { ...toExecMessage(call, this.issueToken(call), this.issueGrant(call)), approved };
    const holder = message.input?.given?.executor;
    if (holder !== undefined) {
      try {
        return await this.#request(resumeSubject(holder), call, message);
      } catch (error) {
        // The executor is gone, and the open call with it: any other one ends the call.
        if (!isToolError(error) || !error.facts?.noResponders) throw error;
      }
    }
    return this.#request(this.subject, call, message);
  }

  #request(subject: string, call: Call, message: ExecMessage): Promise<ExecResponse> {
    return this.nats.requestAcked<ExecResponse>(subject, message, {
      timeoutMs: call.deadline.remainingMs(),
      signal: call.signal,
      onProgress: call.request.onProgress,
      silentMs: followsTask(call.request) && call.request.onProgress ? TASK_SILENT_MS : undefined,
      onAck: () => void (call.active.isUnacknowledged = false),
      onAckMissed: () => void (call.active.isUnacknowledged = true),
      // Without a journal entry the call is idempotent: a second executor may run it under any higher fence.
      bumpFence: (fence) => (call.journalled ? this.raiseFence(call) : Promise.resolve(fence + 1)),
    });
  }
}

interface QueueExecutorDeps {
  clock: Clock;
  issueToken: TokenIssuer;
  /** Ends the wait for a worker when the credential of a call is revoked. */
  credentials: Pick<CredentialWatch, 'during'>;
  /** Headers of the active trace; undefined when no trace is recorded. */
  traceHeaders: () => Readonly<Record<string, string>> | undefined;
  /** Policy of sandbox jobs. */
  python?: PythonJobPolicy;
}

/** Runs attempts as jobs of one queue and waits for the reply on this gateway's reply channel. */
export class QueueExecutor extends Executor {
  constructor(
    private readonly queue: JobQueue<NewExecJob, ExecResponse>,
    private readonly replies: ReplyChannel,
    private readonly deps: QueueExecutorDeps,
  ) {
    super();
  }

  override async execute(call: Call): Promise<ExecResponse> {
    const python = call.tool.binding.kind === 'python' ? this.deps.python : undefined;
    const job: NewExecJob = {
      ...toExecMessage(call, this.deps.issueToken(call)),
      tenant_id: call.request.principal.tenantId,
      timeout_ms: call.timeoutMs,
      traceparent: this.deps.traceHeaders()?.traceparent,
      python: python && { ...python, memory_limit_mb: call.tool.memory_limit_mb },
    };
    return this.deps.credentials.during(call.request.principal, (startUntil) =>
      this.replies.submit(this.queue, job, {
        deadlineAt: this.deps.clock.now() + call.deadline.remainingMs(),
        runMs: call.timeoutMs,
        startUntil,
        signal: call.signal,
        onProgress: call.request.onProgress,
      }),
    );
  }
}
