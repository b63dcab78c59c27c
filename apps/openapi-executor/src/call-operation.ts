import {
  CATALOGUE,
  isJsonObject,
  isToolError,
  ToolError,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import { failedResponse, sessionHeaders, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { OpenApiBinding } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import { buildRequest, planFrom } from '@toolfleet/openapi';
import type { Clock } from '@toolfleet/resilience';
import type { UserCredentials } from '@toolfleet/service/executor';
import type { Credentials } from './credentials.js';
import type { OperationOptions } from './operation-options.js';
import { readResponse } from './read-response.js';
import { outgoing, sendRequest, type OutgoingRequest } from './send-request.js';
import type { VendorAdapter } from './vendor-adapters/vendor-adapter.js';

/** A message with an operation as its binding. */
export type OperationMessage = ExecMessage & { binding: OpenApiBinding };

/** Dependencies of attempts. */
export interface OperationDeps {
  egress: EgressClient;
  credentials: Credentials;
  /** For sources with calls that act as users. */
  users?: UserCredentials;
  clock: Clock;
  /** Called with every request before it gets its credentials. */
  onRequest?: (request: Readonly<OutgoingRequest>, tool: string) => void;
}

/** Time and cancellation of an attempt. */
export interface OperationLimits {
  remainingMs: Milliseconds;
  signal: AbortSignal;
  /** Awaited right before the request is sent: the claim in the journal. When it rejects, nothing is sent. */
  begin: () => Promise<void>;
}

/** A credential that can be renewed: the token, and the generation of a user's. */
interface SentCredential {
  token?: string | undefined;
  generation?: number | undefined;
}

/** A call that is ready to be sent, except for its credentials. */
interface PreparedCall {
  message: OperationMessage;
  options: OperationOptions;
  adapter: VendorAdapter | undefined;
  request: OutgoingRequest;
  body: Json | undefined;
}

/**
 * Builds the request of a call. Nothing has been sent yet, so the caller can correct the faults.
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
  Object.assign(request.headers, sessionHeaders(context));
  if (context.forward_idempotency_key) request.headers['idempotency-key'] ??= message.call_id;
  return { message, options, adapter, request, body };
}

/**
 * Sends a prepared call and reads the response. Failures of the network and the upstream are values.
 * @throws ToolError of origin `request`, and whatever `limits.begin` rejects with
 */
export async function callOperation(
  call: PreparedCall,
  deps: OperationDeps,
  limits: OperationLimits,
): Promise<ExecResponse> {
  const endsAt = deps.clock.monotonic() + limits.remainingMs;
  try {
    const { reply, ...sent } = await sendOnce(call, deps, limits, endsAt, {});
    if (sent.token === undefined || reply.failure?.facts?.status !== 401) return reply;
    // The upstream refused before the operation ran, so a second request with a fresh token repeats no effect.
    return (await sendOnce(call, deps, limits, endsAt, sent)).reply;
  } catch (error) {
    if (!isToolError(error) || CATALOGUE[error.code].origin === 'request') throw error;
    return failedResponse(error);
  }
}

async function sendOnce(
  call: PreparedCall,
  deps: OperationDeps,
  limits: OperationLimits,
  endsAt: number,
  refused: SentCredential,
): Promise<SentCredential & { reply: ExecResponse }> {
  const { message, options } = call;
  const request: OutgoingRequest = { ...call.request, headers: { ...call.request.headers } };
  deps.onRequest?.(request, message.tool);
  const { auth } = message.binding;
  const grant = auth && deps.users?.note(message.context);
  const credential = grant === undefined ? undefined : await deps.users?.get(grant, limits.signal, refused.generation);
  const { token } = await deps.credentials.apply(request, {
    collection: message.binding.collection,
    baseUrl: message.binding.baseUrl,
    options,
    security: planFrom(message.binding.plan).security,
    body: call.body,
    signal: limits.signal,
    refused: refused.token,
    user: auth && credential && { ...credential, header: auth.user.header },
  });
  await limits.begin();
  // The process may have been suspended since the call arrived: do not begin a request that cannot finish in time.
  const remainingMs = endsAt - deps.clock.monotonic();
  if (remainingMs <= 0) throw new ToolError('ATTEMPT_TIMED_OUT', { facts: { delivered: false } });
  const maxBytes = options.maxResponseBytes;
  const response = await sendRequest(deps.egress, request, { remainingMs, signal: limits.signal, maxBytes });
  const { adapter } = call;
  const transform = (output: Json) =>
    adapter?.transformResponse
      ? (hook(adapter, () => adapter.transformResponse?.(output, message.binding.operationId)) ?? null)
      : output;
  const reply = await readResponse(response, request.method, maxBytes, deps.clock.now(), transform);
  return { reply: deps.users?.redact(grant, reply) ?? reply, token, generation: credential?.generation };
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
