import { ToolError, type Json } from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import type { Attempt, AttemptLimits } from './call-mcp-tool.js';
import { jsonOr } from './map-mcp-content.js';
import { judgeMcpError } from './mcp-error.js';
import type { McpTarget } from './mcp-target.js';
import type { OpenSecret } from './open-secret.js';

/** What a plain endpoint needs of this process. */
export interface FunctionParts {
  egress: EgressClient;
  expand: OpenSecret;
  maxResponseBytes: number;
}

const MAX_TEXT = 6_000;
const MAX_UPSTREAM_TEXT = 200;

/** One attempt at a plain endpoint: `POST url {"function": <name>, "args": {...}}`, any JSON back. */
export async function callFunction(
  message: ExecMessage & { binding: McpBinding },
  target: McpTarget,
  parts: FunctionParts,
  limits: AttemptLimits,
): Promise<Attempt> {
  try {
    const expand = (value: string): string => parts.expand(value, target.registration);
    const headers = Object.fromEntries(Object.entries(target.headers).map(([name, value]) => [name, expand(value)]));
    const url = expand(target.url);
    parts.egress.check(url);
    await limits.beforeEffect?.();
    const response = await parts.egress.request({
      url,
      method: 'POST',
      headers: {
        accept: 'application/json',
        ...headers,
        'content-type': 'application/json',
        ...(message.context.forward_idempotency_key ? { 'idempotency-key': message.call_id } : {}),
        ...(limits.traceparent ? { traceparent: limits.traceparent } : {}),
      },
      body: JSON.stringify({ function: message.binding.remoteName, args: argsOf(message) }),
      signal: limits.signal,
      timeouts: {
        headersMs: null,
        bodyIdleMs: null,
        totalMs: Math.min(target.timeoutMs ?? limits.defaultIdleMs, limits.remainingMs),
      },
      maxBytes: target.maxResponseBytes ?? parts.maxResponseBytes,
    });
    const text = await response.body.text();
    if (response.status >= 200 && response.status < 300) return { reply: replyOf(text), targetFault: false };
    return statusFault(response.status, text, retryAfterMs(response.headers['retry-after']));
  } catch (error) {
    const fault = judgeMcpError(error, target.server);
    return { reply: failedResponse(fault.error), targetFault: fault.targetFault };
  }
}

/** An entry without declared parameters takes one object `args`, which then is the whole of the arguments. */
function argsOf(message: ExecMessage & { binding: McpBinding }): Json {
  if (message.binding.options?.['whole_args'] !== true) return message.arguments;
  return message.arguments['args'] ?? {};
}

function replyOf(text: string): ExecResponse {
  const output = text.trim() === '' ? null : jsonOr(text);
  return {
    ok: true,
    output,
    text: (typeof output === 'string' ? output : text.trim()).slice(0, MAX_TEXT),
    metadata: {},
  };
}

function statusFault(status: number, text: string, retryAfter: number | undefined): Attempt {
  const retryable = status === 408 || status >= 500;
  const error = new ToolError(
    retryable ? 'NETWORK_ERROR' : status === 401 || status === 403 ? 'AUTH_NOT_CONFIGURED' : 'UPSTREAM_ERROR',
    {
      message: `HTTP ${status}: ${text.slice(0, MAX_UPSTREAM_TEXT)}`,
      details: { status, delivered: true },
      ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter }),
    },
  );
  return { reply: failedResponse(error), targetFault: retryable };
}

function retryAfterMs(header: string | string[] | undefined): number | undefined {
  const seconds = Number(Array.isArray(header) ? header[0] : header);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : undefined;
}
