import { isServerFault, type Json } from '@toolfleet/contracts';
import { failedResponse, sessionHeaders, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import { readFreshnessMs, type EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import type { OpenSecret } from '@toolfleet/service';
import type { UserCredentials } from '@toolfleet/service/executor';
import type { Attempt, AttemptLimits } from './call-mcp-tool.js';
import { classifyMcpError, statusFailure } from './mcp-error.js';
import type { McpTarget } from './mcp-target.js';
import type { PostMessage } from './http-transport.js';
import { MAX_TEXT, parseJsonOrText } from './tool-result.js';
import { UserRequests } from './user-requests.js';

/** The parts of this process that calls of function endpoints use. */
export interface FunctionDeps {
  egress: EgressClient;
  expand: OpenSecret;
  maxResponseBytes: number;
  users?: UserCredentials;
}

/**
 * One attempt at a plain function endpoint: `POST url {"function": <name>, "args": {...}}` with any JSON as answer. Never throws:
 * every failure is in the response.
 */
export async function callFunction(
  message: ExecMessage & { binding: McpBinding },
  target: McpTarget,
  deps: FunctionDeps,
  clock: Clock,
  limits: AttemptLimits,
): Promise<Attempt> {
  try {
    const expand = (value: string): string => deps.expand(value, target.registration);
    const headers = Object.fromEntries(Object.entries(target.headers).map(([name, value]) => [name, expand(value)]));
    const url = expand(target.url);
    deps.egress.check(url);
    await limits.beforeEffect?.();
    const send: PostMessage = (body, sent, signal) =>
      deps.egress.request({
        url,
        method: 'POST',
        headers: {
          accept: 'application/json',
          ...sent,
          'content-type': 'application/json',
          ...forwardedHeaders(message, limits),
        },
        body,
        signal,
        timeouts: {
          headersMs: null,
          bodyIdleMs: null,
          totalMs: Math.min(target.timeoutMs ?? Infinity, limits.remainingMs),
        },
        maxBytes: target.maxResponseBytes ?? deps.maxResponseBytes,
      });
    const post = target.user && deps.users ? new UserRequests(target.user, deps.users).post(send) : send;
    const call = JSON.stringify({ function: message.binding.remoteName, args: toArgs(message) });
    const response = await post(call, headers, limits.signal);
    const text = await response.body.text();
    if (response.status >= 200 && response.status < 300) {
      const cache_ttl_ms = readFreshnessMs(response.headers, clock.now());
      return { reply: { ...toResponse(text), cache_ttl_ms }, targetFault: false };
    }
    const { status } = response;
    const error = statusFailure(status, text, {}, readRetryAfterMs(response.headers['retry-after']));
    return { reply: failedResponse(error), targetFault: isServerFault(status) };
  } catch (error) {
    const fault = classifyMcpError(error, target.server);
    return { reply: failedResponse(fault.error), targetFault: fault.targetFault };
  }
}

/** Headers for this call only: session and user of a session-aware tool, the idempotency key where the endpoint asked for it, and the trace. */
function forwardedHeaders(message: ExecMessage, { traceparent }: AttemptLimits): Record<string, string> {
  const headers = sessionHeaders(message.context);
  if (message.context.forward_idempotency_key) headers['idempotency-key'] = message.call_id;
  if (traceparent) headers['traceparent'] = traceparent;
  return headers;
}

/** A tool without declared parameters takes one object `args` with all of the function's arguments. */
function toArgs(message: ExecMessage & { binding: McpBinding }): Json {
  if (message.binding.options?.['whole_args'] !== true) return message.arguments;
  return message.arguments['args'] ?? {};
}

function toResponse(text: string): ExecResponse {
  const output = text.trim() === '' ? null : parseJsonOrText(text);
  return {
    ok: true,
    output,
    text: (typeof output === 'string' ? output : text.trim()).slice(0, MAX_TEXT),
    metadata: {},
  };
}

function readRetryAfterMs(header: string | string[] | undefined): number | undefined {
  const seconds = Number(Array.isArray(header) ? header[0] : header);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : undefined;
}
