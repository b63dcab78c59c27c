import { isJsonObject, isToolError, ToolError, type CallMessage, type JsonObject } from '@toolfleet/contracts';
import { closed, list } from '@toolfleet/contracts/json-schema';
import { Semaphore } from '@toolfleet/resilience';
import { defineTool, ok, type ToolServices } from '../builtin-tool.js';
import type { ChatRequest } from './chat-model.js';
import {
  AGENT_TASK,
  BLOCKED_TOOLS,
  runSubAgent,
  type AgentEnvironment,
  type AgentTask,
  type TaskResult,
} from './sub-agent.js';
import { BudgetExhausted, TurnSlices } from './turn-slices.js';
import type { ToolRun } from '../tool-run.js';

/** Time reserved for the response: finished work is returned and charged. */
const ANSWER_MS = 1_000;
const ANSWER_SHARE = 0.2;
const SHOWN = 600;

type AgentRun = ToolRun & Pick<ToolServices, 'agent'>;

/** `multi_agent`: works on tasks in parallel, each in its own conversation. */
export const multiAgent = defineTool({
  name: 'multi_agent',
  description:
    'Give independent tasks to sub-agents that work in parallel. Each has its own conversation and may use the tools you ' +
    'may use (not multi_agent itself). A sub-agent sees only its instruction: put everything it needs there. ' +
    'Returns one response or error per task, in order.',
  category: 'agent',
  tags: ['agents'],
  toolset: 'agent',
  inputSchema: closed({
    tasks: list(AGENT_TASK, 'The tasks; they cannot see each other', { minItems: 1, maxItems: 10 }),
  }),
  // Its tools act with the caller's rights, whatever these are.
  annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  inputExamples: [
    { tasks: [{ name: 'sum', instruction: 'Compute 12.5% of 840 with the calculator', tools: ['calculator'] }] },
  ],
  contextKeys: ['project_id', 'model', 'prompt_params'],
  sessionAware: true,
  timeoutSeconds: 120,
  rateLimit: 20,
  cacheTtlSeconds: 0,
  needs: ['agent'],
  async handler({ tasks }, run) {
    const { agent } = run;
    const stop = new AbortController();
    let done = 0;
    const report = (message: string) => run.progress({ message, progress: done, total: tasks.length });
    const workMs = workingTime(run.deadlineAt - run.clock.now());
    const stopTimer = run.clock.after(workMs, () => stop.abort(new Error('Stopped: no time left')));
    const environment = await createEnvironment(run, workMs, stop.signal, (task, step) => report(`${task} ${step}`));
    const { slices } = environment;
    const semaphore = new Semaphore(agent.maxConcurrency);
    const results = await semaphore.map(tasks, async (task, index) => {
      const result = await work(task, index, environment, stop);
      done += 1;
      report(`${task.name} ${result.success ? 'is done' : 'failed'}`);
      return result;
    });
    stopTimer();
    await slices.settled();
    const { usage } = slices;
    const succeeded = results.filter((result) => result.success).length;
    const output = { success: succeeded > 0, results: results as unknown as JsonObject[], total: results.length };
    const lines = results.flatMap(({ task_name, response, error, approvals = [] }) => [
      `- ${task_name}: ${(response ?? `failed: ${error}`).slice(0, SHOWN)}`,
      ...approvals.map(
        ({ tool, id, url }) =>
          `  ${tool} waits for the approval ${id}: ${url}. Give the task again once it is approved.`,
      ),
    ]);
    return ok(output, `${succeeded} of ${results.length} tasks done\n${lines.join('\n')}`, {
      usage: usage.tokens > 0 ? usage : undefined,
      metadata: { succeeded, failed: results.length - succeeded, llm_tokens: usage.tokens },
      failure: run.signal.aborted ? stoppedBy(run.signal.reason) : undefined,
    });
  },
});

/** The failure of a call that was stopped. All tasks have ended; their work is returned and charged. */
function stoppedBy(reason: unknown): ToolError {
  const code = isToolError(reason) && reason.code === 'DEADLINE_EXCEEDED' ? 'ATTEMPT_TIMED_OUT' : 'CANCELLED';
  const message = code === 'CANCELLED' ? 'Cancelled by the caller; all tasks have stopped' : 'No time left';
  return new ToolError(code, { message, facts: { begun: 'ended' } });
}

/** The part of the remaining ms in which tasks may work. */
function workingTime(leftMs: number): number {
  return Math.max(0, leftMs - Math.min(ANSWER_MS, leftMs * ANSWER_SHARE));
}

async function createEnvironment(
  run: AgentRun,
  workMs: number,
  stopped: AbortSignal,
  onStep: AgentEnvironment['onStep'],
): Promise<AgentEnvironment> {
  const { agent, context } = run;
  const delegationToken = context.delegation_token;
  if (!delegationToken)
    throw new ToolError('TOOL_ERROR', {
      message: 'This call has no delegation token, which its sub-agents need to call tools',
    });
  const grant = {
    delegationToken,
    deadlineAt: run.clock.now() + workMs,
    signal: AbortSignal.any([run.signal, stopped]),
  };
  const offered = (await agent.tools.list(grant)).filter((tool) => !BLOCKED_TOOLS.has(String(tool['name'])));
  return {
    ...agent,
    grant,
    offered,
    fields: callFields(run),
    settings: readModelSettings(run),
    callKey: (task, iteration, call) => `${run.callId}:${task}:${iteration}:${call}`,
    onStep,
    slices: new TurnSlices(agent.spending, grant, agent.pricing, run.clock),
  };
}

/** Works on one task. An exhausted budget ends all tasks of the call, any other error only this one. */
async function work(
  task: AgentTask,
  index: number,
  environment: AgentEnvironment,
  stop: AbortController,
): Promise<TaskResult> {
  const failed = (error: string): TaskResult => ({
    task_name: task.name,
    success: false,
    error,
    iterations: 0,
    tool_calls: [],
  });
  if (stop.signal.aborted) return failed(String((stop.signal.reason as Error).message));
  if (environment.grant.signal.aborted) return failed('Stopped: cancelled');
  try {
    return await runSubAgent(task, index, environment);
  } catch (error) {
    if (error instanceof BudgetExhausted) {
      stop.abort(new Error(`Stopped: ${error.message}`));
      return failed(`Stopped: ${error.message}`);
    }
    if (stop.signal.aborted) return failed(String((stop.signal.reason as Error).message));
    if (environment.grant.signal.aborted) return failed('Stopped: cancelled');
    if (isToolError(error)) return failed(error.message);
    throw error;
  }
}

/** User, session and project of the call. Its budget is part of the delegation token, so that tools cannot change it. */
function callFields({ context }: AgentRun): Partial<CallMessage> {
  const { session_id: session, project_id: project, user_id: user } = context;
  return {
    user_id: typeof user === 'string' ? user : undefined,
    session_id: typeof session === 'string' ? session : undefined,
    project_id: typeof project === 'string' ? project : undefined,
  };
}

/** Model, max_tokens and temperature of the calling conversation. */
function readModelSettings({ context }: AgentRun): Pick<ChatRequest, 'model' | 'maxTokens' | 'temperature'> {
  const params = isJsonObject(context.prompt_params) ? context.prompt_params : {};
  const { max_tokens: maxTokens, temperature } = params;
  return {
    model: typeof context.model === 'string' ? context.model : undefined,
    maxTokens: typeof maxTokens === 'number' ? maxTokens : undefined,
    temperature: typeof temperature === 'number' ? temperature : undefined,
  };
}
