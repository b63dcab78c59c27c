import type { CallToolResult, RequestOptions } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import { Exchange, runWithLimits } from './exchange.js';
import { requestFeature, toFeatureResponse } from './feature-request.js';
import { asksForInput, toInputResponse } from './input-request.js';
import { classifyMcpError, type McpFault } from './mcp-error.js';
import type { McpSession } from './mcp-session.js';
import type { McpMessage, McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';
import { reportsExpiredToken, toExecResponse } from './tool-result.js';

/** What one attempt takes in addition to its message. */
export interface AttemptLimits {
  /** Time until the deadline of the call. */
  remainingMs: Milliseconds;
  /** Longest silence of servers whose registration sets no limit. */
  defaultIdleMs: Milliseconds;
  signal: AbortSignal;
  /** Claims the call in the journal. Awaited once, right before the request is sent. */
  beforeEffect?: () => Promise<void>;
  /** Called for each progress notification of the server. */
  onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
  traceparent?: string;
}

/** Outcome of one attempt. */
export interface Attempt {
  reply: ExecResponse;
  /** Whether the failure counts for the breaker of the target. */
  targetFault: boolean;
}

/** Where the fleet's idempotency key is sent to servers that asked for it; MCP defines no key of its own. */
const IDEMPOTENCY_META = 'io.toolfleet/idempotency-key';
/** Session and user of the caller, for tools that the administrator declared session-aware. */
const SESSION_META = 'io.toolfleet/session-id';
const USER_META = 'io.toolfleet/user-id';

/**
 * One attempt at a tool, prompt or resource of an MCP server. If the server refused it because of the session, protocol revision or credential, the
 * tool has not run: only then is the session renewed and the call sent once more.
 */
export async function callMcpTool(
  message: McpMessage,
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: AttemptLimits,
): Promise<Attempt> {
  const endsAt = clock.monotonic() + limits.remainingMs;
  for (let renewed = false; ; renewed = true) {
    const outcome = await attemptOnce(message, target, pool, clock, {
      ...limits,
      remainingMs: endsAt - clock.monotonic(),
    });
    if ('reply' in outcome) {
      if (!reportsExpiredToken(outcome.reply)) return outcome;
      // Renewed for the next call. This one is not repeated: the tool may have run.
      pool.expireToken(target, outcome.session);
      return outcome;
    }
    const { fault, session } = outcome;
    if (fault.reconnect) {
      pool.retire(target, session, true);
      if (!renewed) continue;
    }
    return { reply: failedResponse(fault.error), targetFault: fault.targetFault };
  }
}

type Once = (Attempt & { session: McpSession | undefined }) | { fault: McpFault; session: McpSession | undefined };

async function attemptOnce(
  message: McpMessage,
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: AttemptLimits,
): Promise<Once> {
  const exchange = new Exchange();
  let session: McpSession | undefined;
  try {
    const reply = await runWithLimits(
      exchange,
      { idleMs: target.timeoutMs ?? limits.defaultIdleMs, totalMs: limits.remainingMs, signal: limits.signal },
      clock,
      (touch) =>
        pool.use(target, async (opened) => {
          session = opened;
          await limits.beforeEffect?.();
          return sendCall(opened, message, {
            signal: exchange.signal,
            // Later than the limits of the exchange, whose errors name the reason.
            timeout: limits.remainingMs + 5_000,
            onprogress:
              limits.onProgress || target.livesOnProgress
                ? (progress) => {
                    touch();
                    limits.onProgress?.(progress);
                  }
                : undefined,
          });
        }),
    );
    return { reply, targetFault: false, session };
  } catch (error) {
    return { fault: classifyMcpError(error, target.server), session };
  }
}

/** Sends a call by the method of its binding. @throws whatever the SDK throws */
async function sendCall(session: McpSession, message: McpMessage, options: RequestOptions): Promise<ExecResponse> {
  const { binding } = message;
  const isFeature = binding.method !== undefined;
  const result = isFeature
    ? await requestFeature(session.client, message, options)
    : await callTool(session, message, options);
  if (asksForInput(result)) return toInputResponse(result, message, binding.server);
  if (isFeature) return toFeatureResponse(result as JsonObject, binding);
  return toExecResponse(result as CallToolResult, binding.authority);
}

function callTool(session: McpSession, message: McpMessage, options: RequestOptions) {
  const params = { name: message.binding.remoteName, arguments: message.arguments, _meta: toMeta(message) };
  return session.callTool(params, { ...options, toolDefinition: headerToolDefinition(message) }, message.input);
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
 * The SDK finds parameters that travel as `Mcp-Param-*` headers in the tool's schema, which the registry adds to the options of
 * such tools only.
 */
function headerToolDefinition(message: McpMessage) {
  const schema = message.binding.options?.['header_schema'];
  if (!isJsonObject(schema)) return undefined;
  return { name: message.binding.remoteName, inputSchema: { ...schema, type: 'object' as const } };
}
