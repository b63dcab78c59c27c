import {
  isJsonObject,
  isToolError,
  ToolError,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import { failedResponse, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { OpenApiBinding } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import type { ExecutionGuard } from '@toolfleet/journal';
import { buildRequest, planFrom } from '@toolfleet/openapi';
import type { Clock } from '@toolfleet/resilience';
import type { Credentials } from './credentials.js';
import type { OperationOptions } from './operation-options.js';
import { readResponse } from './read-response.js';
import { outgoing, sendRequest, type OutgoingRequest } from './send-request.js';
import type { VendorAdapter } from './vendor-adapters/vendor-adapter.js';

/** A message whose binding is an operation. */
export type OperationMessage = ExecMessage & { binding: OpenApiBinding };

/** What an attempt needs beside its message. */
export interface OperationParts {
  egress: EgressClient;
  credentials: Credentials;
  gate: ExecutionGuard;
  clock: Clock;
  /** Hears of every request, without credentials. */
  onRequest?: (request: Readonly<OutgoingRequest>, tool: string) => void;
}

/** Time and cancellation of an attempt. */
export interface AttemptLimits {
  remainingMs: Milliseconds;
  signal: AbortSignal;
}

/** A call that is ready to be sent, but for its credentials. */
export interface PreparedCall {
  message: OperationMessage;
  options: OperationOptions;
  adapter: VendorAdapter | undefined;
  request: OutgoingRequest;
  body: Json | undefined;
}

/**
 * Builds the request of a call. Nothing was sent yet: what is wrong here is the caller's to repair.
 * @throws ToolError ARGUMENTS_INVALID, EXECUTION_FAILED (adapter)
 */
export function prepareCall(
  message: OperationMessage,
  options: OperationOptions,
  adapter: VendorAdapter | undefined,
): PreparedCall {
  const { binding, context } = message;
  const promptParams = isJsonObject(context.prompt_params) ? context.prompt_params : {};
  const args: JsonObject = { ...message.arguments };
  const body = hook(adapter, () => adapter?.transformBody?.(args.body, binding.operationId, promptParams)) ?? args.body;
  if (body !== undefined) args.body = body;
  const request = outgoing(buildRequest(planFrom(binding.plan), binding.baseUrl, args));
  if (adapter?.transformHeaders) {
    const headers = { ...request.headers };
    const changed =
      hook(adapter, () => adapter.transformHeaders?.(headers, binding.operationId, promptParams)) ?? headers;
    request.headers = Object.fromEntries(Object.entries(changed).map(([name, value]) => [name.toLowerCase(), value]));
  }
  if (context.forward_idempotency_key) request.headers['idempotency-key'] ??= message.call_id;
  return { message, options, adapter, request, body };
}

/** Sends a prepared call and reads the answer. Failures of the network or the upstream are values, never exceptions. */
export async function callOperation(
  call: PreparedCall,
  parts: OperationParts,
  limits: AttemptLimits,
): Promise<ExecResponse> {
  return parts.gate.run(call.message, (begin) => sendAndRead(call, parts, { ...limits, begin }));
}

/** What one attempt may use, and what to call right before its effect. */
type GatedLimits = AttemptLimits & { begin: () => Promise<void> };

async function sendAndRead(call: PreparedCall, parts: OperationParts, limits: GatedLimits): Promise<ExecResponse> {
  const endsAt = parts.clock.monotonic() + limits.remainingMs;
  try {
    let { reply, usedToken } = await sendOnce(call, parts, limits, endsAt, false);
    if (usedToken && reply.metadata.http_status === 401) {
      // A 401 was refused before the operation ran: one more try with a fresh token repeats nothing.
      ({ reply, usedToken } = await sendOnce(call, parts, limits, endsAt, true));
    }
    if (!reply.ok) return reply;
    const { adapter, message } = call;
    if (!adapter?.transformResponse) return reply;
    const { output } = reply;
    const changed = hook(adapter, () => adapter.transformResponse?.(output, message.binding.operationId));
    return { ...reply, output: changed ?? null };
  } catch (error) {
    if (!isToolError(error) || error.entry.origin === 'request') throw error;
    return failedResponse(error);
  }
}

async function sendOnce(
  call: PreparedCall,
  parts: OperationParts,
  limits: GatedLimits,
  endsAt: number,
  again: boolean,
): Promise<{ reply: ExecResponse; usedToken: boolean }> {
  const { message, options } = call;
  const request: OutgoingRequest = { ...call.request, headers: { ...call.request.headers } };
  parts.onRequest?.(request, message.tool);
  const { usedToken } = await parts.credentials.apply(request, {
    collection: message.binding.collection,
    baseUrl: message.binding.baseUrl,
    options,
    security: planFrom(message.binding.plan).security,
    body: call.body,
    signal: limits.signal,
    freshToken: again,
  });
  await limits.begin();
  // The process may have slept since the call came in: what cannot finish in time must not begin.
  const remainingMs = endsAt - parts.clock.monotonic();
  if (remainingMs <= 0) throw new ToolError('ATTEMPT_TIMED_OUT', { details: { delivered: false } });
  const maxBytes = options.maxResponseBytes;
  const response = await sendRequest(parts.egress, request, { remainingMs, signal: limits.signal, maxBytes });
  return { reply: await readResponse(response, request.method, maxBytes, parts.clock.now()), usedToken };
}

function hook<T>(adapter: VendorAdapter | undefined, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `The vendor adapter ${adapter?.name ?? ''} failed: ${why.slice(0, 200)}`;
    throw new ToolError('EXECUTION_FAILED', { message, details: { vendor_adapter: adapter?.name ?? '' }, cause });
  }
}
