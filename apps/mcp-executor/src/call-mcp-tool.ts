import type { Progress, RequestOptions } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type CallProgress, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import { RequestExchange, runWithLimits } from './exchange.js';
import { requestFeature, toFeatureResponse } from './feature-request.js';
import { OpenCall, type HeldCalls } from './held-calls.js';
import { asksForInput, toInputResponse } from './input-request.js';
import { classifyMcpError, inputRequired, isUnreadable, reportsMissingInput, type McpFault } from './mcp-error.js';
import type { UpstreamSession } from './mcp-session.js';
import type { McpMessage, McpTarget } from './mcp-target.js';
import { followTask, givenTask, readTask, type CreatedTask, type TaskMethod } from './server-task.js';
import type { SessionPool } from './session-pool.js';
import { reportsExpiredToken, toExecResponse, unreadableResult } from './tool-result.js';

/** What one attempt takes in addition to its message. */
export interface AttemptLimits {
  /** Time until the deadline of the call. */
  remainingMs: Milliseconds;
  signal: AbortSignal;
  /** Claims the call in the journal. Awaited once, right before the request is sent. */
  beforeEffect?: () => Promise<void>;
  /** Called for each progress notification of the server. */
  onProgress?: (progress: CallProgress) => void;
  traceparent?: string;
}

/** What calls share in this process. */
interface CallDeps {
  pool: SessionPool;
  held: HeldCalls;
  clock: Clock;
}

/** Outcome of one attempt. */
export interface Attempt {
  reply: ExecResponse;
  /** Whether the failure counts for the breaker of the target. */
  targetFault: boolean;
}

/** Longest time that a server may keep a call open beyond its first attempt, while its caller is asked. */
const MAX_OPEN_MS = 60 * 60_000;
/** Where the fleet's idempotency key is sent to servers that asked for it; MCP defines no key of its own. */
const IDEMPOTENCY_META = 'io.toolfleet/idempotency-key';
/** Session and user of the caller, for tools that the administrator declared session-aware. */
const SESSION_META = 'io.toolfleet/session-id';
const USER_META = 'io.toolfleet/user-id';

/**
 * One attempt at a tool, prompt or resource of an MCP server. If its transport refused the call because of the session, protocol revision or
 * credential, the tool has not run: only then is the session renewed and the call sent once more. An answer with the id of the call ends it,
 * whatever it says. A call that the server answers with a task waits for its end, unless the caller takes tasks. An attempt with answers to
 * a server that keeps its call open goes on with that call.
 */
export async function callMcpTool(
  message: McpMessage,
  target: McpTarget,
  { pool, held, clock }: CallDeps,
  limits: AttemptLimits,
): Promise<Attempt> {
  const endsAt = clock.monotonic() + limits.remainingMs;
  const follow = (task: CreatedTask) =>
    finishTask(task, message, target, pool, clock, { ...limits, remainingMs: endsAt - clock.monotonic() });
  const given = givenTask(message);
  if (given) {
    await limits.beforeEffect?.();
    return follow(given);
  }
  for (let renewed = false; ; renewed = true) {
    const left = { ...limits, remainingMs: endsAt - clock.monotonic() };
    const outcome = await attemptOnce(message, target, { pool, held, clock }, left);
    if ('task' in outcome) {
      if (message.input?.tasks !== 'take') return follow(outcome.task);
      return { reply: toInputResponse({}, message, target.server, { task: outcome.task.id }), targetFault: false };
    }
    if ('reply' in outcome) {
      if (!reportsExpiredToken(outcome.reply)) return outcome;
      // Renewed for the next call. This one is not repeated: the tool may have run.
      pool.expireToken(target, outcome.session);
      return outcome;
    }
    const { fault, session } = outcome;
    if (fault.reconnect) pool.retire(target, session, true);
    if (fault.reconnect === 'repeat' && !renewed) continue;
    return { reply: failedResponse(fault.error), targetFault: fault.targetFault };
  }
}

/** Follows a task of a server, each request on the session that the server has by then. */
async function finishTask(
  task: CreatedTask,
  message: McpMessage,
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: AttemptLimits,
): Promise<Attempt> {
  const { signal, remainingMs, onProgress } = limits;
  const request = async (method: TaskMethod, params: JsonObject, leftMs: Milliseconds): Promise<JsonObject> => {
    const idleMs = Math.min(leftMs, target.timeoutMs ?? Infinity);
    const exchange = new RequestExchange();
    let session: UpstreamSession | undefined;
    try {
      // The task is cancelled after the caller has gone.
      const stops = method === 'tasks/cancel' ? undefined : signal;
      return await runWithLimits(exchange, { idleMs, totalMs: leftMs, signal: stops }, clock, () =>
        pool.use(target, message.context.tenant_id, (opened) => {
          session = opened;
          return opened.requestTask(method, params, { signal: exchange.signal, timeout: leftMs + 5_000 });
        }),
      );
    } catch (error) {
      const fault = classifyMcpError(error, target.server);
      if (fault.reconnect) pool.retire(target, session, true);
      throw fault.error;
    }
  };
  try {
    const given = message.input?.given;
    if (given?.task !== undefined && given.revision !== message.revision) throw changedTool(target.server);
    if (message.input?.tasks === 'answer') {
      await request('tasks/update', { taskId: task.id, inputResponses: given?.responses ?? {} }, remainingMs);
      return { reply: { ok: true, output: null, text: '', metadata: {} }, targetFault: false };
    }
    return {
      reply: await followTask(task, message, { clock, request, remainingMs, signal, onProgress }),
      targetFault: false,
    };
  } catch (error) {
    const { error: reason, targetFault } = classifyMcpError(error, target.server);
    return { reply: failedResponse(reason), targetFault };
  }
}

/** The definition may name another server by now, without the task. */
function changedTool(server: string): ToolError {
  const message = `The definition of the tool changed while the MCP server ${server} ran its task`;
  return new ToolError('OUTCOME_UNKNOWN', { message, details: { server } });
}

type Once =
  | (Attempt & { session: UpstreamSession | undefined })
  | { fault: McpFault; session: UpstreamSession | undefined }
  | { task: CreatedTask };

async function attemptOnce(
  message: McpMessage,
  target: McpTarget,
  { pool, held, clock }: CallDeps,
  limits: AttemptLimits,
): Promise<Once> {
  const { input } = message;
  const asked = input?.capabilities['elicitation'] === undefined ? undefined : input.capabilities;
  const isResumed = input?.given?.executor !== undefined;
  const call = isResumed ? held.take(message) : new OpenCall();
  try {
    if (!call) {
      // Claimed first: the call has begun in an earlier attempt, so its outcome is unknown unless it is idempotent.
      await limits.beforeEffect?.();
      return { fault: lostQuestion(target.server), session: undefined };
    }
    const { exchange } = call;
    const answer = await runWithLimits(
      exchange,
      { idleMs: target.timeoutMs ?? limits.remainingMs, totalMs: limits.remainingMs, signal: limits.signal },
      clock,
      async (touch) => {
        call.reportTo((progress) => {
          touch();
          limits.onProgress?.(progress);
        });
        if (isResumed) {
          await limits.beforeEffect?.();
          call.answer(input?.given?.responses ?? {});
        } else {
          const work = async (opened: UpstreamSession): Promise<ExecResponse | CreatedTask> => {
            call.session = opened;
            await limits.beforeEffect?.();
            const options = {
              signal: exchange.signal,
              // Later than the limits of the exchange; their errors name the reason.
              timeout: limits.remainingMs + MAX_OPEN_MS,
              onprogress:
                limits.onProgress || target.livesOnProgress ? (one: Progress) => call.progressed(one) : undefined,
            };
            return opened.serve(exchange, () => sendCall(call, opened, message, options));
          };
          call.begin(pool.use(target, message.context.tenant_id, work, asked));
        }
        return call.next();
      },
    );
    if (answer && 'id' in answer) return { task: answer };
    return { reply: answer ?? holdOpen(call, message, target, held), targetFault: false, session: call.session };
  } catch (error) {
    const failed = classifyMcpError(error, target.server);
    const isInVain = call?.exchange.isAskedInVain && failed.error.code !== 'CANCELLED';
    const fault = isInVain ? askedInVain(target.server) : failed;
    return { fault: { ...fault, reconnect: !isResumed && fault.reconnect }, session: call?.session };
  }
}

/** Holds a call with a question of its server, and returns the questions. @throws ToolError QUEUE_FULL */
function holdOpen(call: OpenCall, message: McpMessage, { server }: McpTarget, held: HeldCalls): ExecResponse {
  const response = toInputResponse({ inputRequests: call.questions as never }, message, server, {
    executor: held.executor,
  });
  if (response.failure?.facts?.input) held.hold(message, call);
  else call.exchange.stop(new ToolError('CANCELLED', { message: response.failure?.message }));
  return response;
}

const lostQuestion = (server: string): McpFault => ({
  error: new ToolError('NETWORK_ERROR', {
    message: `The connection on which the MCP server ${server} asked for input is gone; the answer has not reached it`,
    details: { server },
    facts: { delivered: true },
  }),
  reconnect: false,
  targetFault: false,
});

const askedInVain = (server: string): McpFault => ({
  error: inputRequired(server, { required_capabilities: { elicitation: {} } }),
  reconnect: false,
  targetFault: false,
});

/** Sends a call by the method of its binding. @throws whatever the SDK throws */
async function sendCall(
  call: OpenCall,
  session: UpstreamSession,
  message: McpMessage,
  options: RequestOptions,
): Promise<ExecResponse | CreatedTask> {
  const { binding } = message;
  const isFeature = binding.method !== undefined;
  const result = isFeature
    ? await requestFeature(session.reader, message, options)
    : await callTool(session, message, options);
  if (asksForInput(result)) return readTask(result) ?? toInputResponse(result, message, binding.server);
  if (isFeature) return toFeatureResponse(result as JsonObject, binding, call.exchange.dropped);
  const response = toExecResponse(result as JsonObject, binding.authority);
  const isLegacy = session.client.getProtocolEra() !== 'modern';
  return isLegacy && !response.ok && (call.exchange.isAskedInVain || reportsMissingInput(response))
    ? failedResponse(askedInVain(binding.server).error)
    : response;
}

async function callTool(session: UpstreamSession, message: McpMessage, options: RequestOptions): Promise<object> {
  const params = { name: message.binding.remoteName, arguments: message.arguments, _meta: toMeta(message) };
  try {
    return await session.callTool(params, { ...options, toolDefinition: headerToolDefinition(message) }, message.input);
  } catch (error) {
    throw isUnreadable(error) ? unreadableResult(error.message) : error;
  }
}

function toMeta(message: ExecMessage): JsonObject | undefined {
  const meta: JsonObject = {};
  if (message.context.forward_idempotency_key) meta[IDEMPOTENCY_META] = message.call_id;
  const { session_id: session, user_id: user } = message.context;
  if (session !== undefined) meta[SESSION_META] = session;
  if (user !== undefined) meta[USER_META] = user;
  return Object.keys(meta).length > 0 ? meta : undefined;
}

/**
 * The SDK finds parameters that travel as `Mcp-Param-*` headers in the tool's schema; the registry adds it to the options of
 * such tools only.
 */
function headerToolDefinition(message: McpMessage) {
  const schema = message.binding.options?.['header_schema'];
  if (!isJsonObject(schema)) return undefined;
  return { name: message.binding.remoteName, inputSchema: { ...schema, type: 'object' as const } };
}
