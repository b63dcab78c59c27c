import { isJsonObject, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { CallScope } from './call-scope.js';
import { mapToolResult, reportsExpiredToken } from './map-mcp-content.js';
import { judgeMcpError, type McpFault } from './mcp-error.js';
import { withinLimits, type McpSession } from './mcp-session.js';
import type { McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';

/** What one attempt needs beside its message. */
export interface AttemptLimits {
  /** Until the deadline of the call. */
  remainingMs: Milliseconds;
  /** Longest silence when the server's registration names none. */
  defaultIdleMs: Milliseconds;
  signal: AbortSignal;
  /** Awaited once, when everything is ready and right before the request leaves: the claim in the journal. */
  beforeEffect?: () => Promise<void>;
  /** Told of the server's progress notifications. */
  onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
  traceparent?: string;
}

/** Outcome of an attempt, and what it says about the target. */
export interface Attempt {
  reply: ExecResponse;
  targetFault: boolean;
}

/** Key under which the fleet's idempotency key goes to a server that asked for it; MCP has none of its own. */
const IDEMPOTENCY_META = 'io.toolfleet/idempotency-key';

/**
 * One attempt at a tool of an MCP server. A refusal because of our session, era or credential happened before the tool
 * ran: then, and only then, the session is renewed and the call sent once more.
 */
export async function callMcpTool(
  message: ExecMessage & { binding: McpBinding },
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
      // The server hid an expired token in a 200: the next call gets a new one. This one is not repeated, it may have run.
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
  message: ExecMessage & { binding: McpBinding },
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: AttemptLimits,
): Promise<Once> {
  const scope = new CallScope();
  let session: McpSession | undefined;
  try {
    const result = await withinLimits(
      scope,
      { idleMs: target.timeoutMs ?? limits.defaultIdleMs, totalMs: limits.remainingMs, signal: limits.signal },
      clock,
      (touch) =>
        pool.use(target, async (opened) => {
          session = opened;
          await limits.beforeEffect?.();
          return opened.client.callTool(
            { name: message.binding.remoteName, arguments: message.arguments, ...metaOf(message, limits) },
            {
              signal: scope.signal,
              // Behind our own limits, which carry the reason.
              timeout: limits.remainingMs + 5_000,
              ...(limits.onProgress || target.livesOnProgress
                ? {
                    onprogress: (progress) => {
                      touch();
                      limits.onProgress?.(progress);
                    },
                  }
                : {}),
              ...toolDefinition(message),
            },
          );
        }),
    );
    return { reply: mapToolResult(result), targetFault: false, session };
  } catch (error) {
    return { fault: judgeMcpError(error, target.server), session };
  }
}

function metaOf(message: ExecMessage, limits: AttemptLimits): { _meta?: JsonObject } {
  const meta: JsonObject = {};
  if (message.context.forward_idempotency_key) meta[IDEMPOTENCY_META] = message.call_id;
  if (limits.traceparent) meta['traceparent'] = limits.traceparent;
  return Object.keys(meta).length > 0 ? { _meta: meta } : {};
}

/** Parameters that travel as `Mcp-Param-*` headers are found in the schema; the registry puts it into the options only then. */
function toolDefinition(message: ExecMessage & { binding: McpBinding }) {
  const schema = message.binding.options?.['header_schema'];
  if (!isJsonObject(schema)) return {};
  return { toolDefinition: { name: message.binding.remoteName, inputSchema: { ...schema, type: 'object' as const } } };
}
