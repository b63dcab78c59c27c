/**
 * Input of a person for tools of MCP servers: relayed to the caller's own client, and back. Nothing is stored between two requests of a
 * 2026 client: what the call needs travels in the sealed `requestState`, with the server's own state inside.
 */
import { randomUUID } from 'node:crypto';
import {
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  ToolError,
  type Approval,
  type CallInput,
  type CallRequest,
  type Json,
  type JsonObject,
  type RequiredInput,
} from '@toolfleet/contracts';
import { ANSWER_MS } from '@toolfleet/engine';
import { answersApproval, expiredApproval, readApproval } from './approval.js';
import { readClientCapabilities, type ClientFeatures } from './client-features.js';
import { askClient, type OpenRequest } from './elicitation.js';
import type { CallBinding, McpServerDeps, RequestStateCodec } from './mcp-deps.js';

/** Key of `_meta` that names the server that asks. */
const SERVER_META = 'io.toolfleet/server';
const NO_SECRETS = 'Do not enter passwords, keys or other secrets.';

/** How often a 2025 client is asked for one call. */
export const MAX_ROUNDS = 10;

/** What a client can be asked for. That of 2025 is asked on a stream whose answers any replica may get, so it needs a relay. */
export function askable(
  { elicitation }: Pick<McpServerDeps, 'elicitation'>,
  features: ClientFeatures,
  isModern: boolean,
): ClientFeatures {
  return isModern || elicitation !== undefined ? features : { ...features, forms: false, urls: false };
}

/** What a client that can be asked declared, as its call passes it on; undefined when it cannot be asked for anything. */
export function toCallInput({ forms, urls }: ClientFeatures): CallInput | undefined {
  if (!forms && !urls) return undefined;
  return { capabilities: { elicitation: { ...(forms && { form: {} }), ...(urls && { url: {} }) } } };
}

/** What the server of a tool asks for; undefined when the call was refused for another reason, or when the caller cannot be asked. */
export function readRequiredInput(refusal: unknown): RequiredInput | undefined {
  return isToolError(refusal) && refusal.code === 'INPUT_REQUIRED' ? refusal.facts?.input : undefined;
}

/** Asks a 2026 client: the result says what input is missing, and the client repeats the call with the answers and the state. */
export function requestInput(
  { server, revision, requests, state }: RequiredInput,
  { callId, idempotencyKey, approval }: CallRequest,
  call: CallBinding,
  states: RequestStateCodec,
): CallToolResult {
  const waiting: JsonObject = { call: callId, revision };
  if (state !== undefined) waiting['state'] = state;
  if (idempotencyKey !== undefined) waiting['key'] = idempotencyKey;
  if (approval?.given) waiting['approved'] = { ...approval.given, questions: [...approval.given.questions] };
  const asked = Object.entries(requests).map(([key, request]) => [key, withAsker(request, server)]);
  return {
    resultType: 'input_required',
    ...(asked.length > 0 && { inputRequests: Object.fromEntries(asked) }),
    requestState: states.seal(call, { input: waiting }, ANSWER_MS),
    _meta: { [SERVER_META]: server },
  } as unknown as CallToolResult;
}

/**
 * How a call goes on that a 2026 client repeats with answers; undefined for a call that was not made before. It keeps its id and its
 * idempotency key, so that the journal holds one call, and no cache answers or keeps it.
 * @throws ToolError APPROVAL_DECLINED; APPROVAL_REQUIRED and INPUT_REQUIRED for a state that has expired or belongs to another call
 */
export function readWaitingCall(
  context: ServerContext,
  { input: asked }: CallRequest,
  call: CallBinding,
  states: RequestStateCodec,
): Partial<CallRequest> | undefined {
  const sent = context.mcpReq.requestState<unknown>();
  if (typeof sent !== 'string') return undefined;
  const state = states.open(call, sent);
  if (!state) throw answersApproval(context) ? expiredApproval() : expiredInput();
  const { input } = state;
  if (!isJsonObject(input)) return readApproval(state, context);
  // The seal proves that `requestInput` wrote it, so its shape is known.
  const { call: callId, revision, state: theirs, key, approved } = input as Record<string, string | undefined>;
  const responses = (context.mcpReq.inputResponses ?? {}) as JsonObject;
  return {
    callId,
    ...(key !== undefined && { idempotencyKey: key }),
    ...(approved !== undefined && { approval: { asks: true, given: approved as unknown as Approval } }),
    ...answered(asked, { revision: revision!, state: theirs }, responses),
  };
}

/**
 * Asks a 2025 client, one question after another, on the stream of its own request.
 * @throws ToolError INPUT_REQUIRED when one was not answered in time; CANCELLED when the client disconnected
 */
export async function elicitInput(
  required: RequiredInput,
  { input, principal }: CallRequest,
  request: OpenRequest,
): Promise<Partial<CallRequest>> {
  const responses: JsonObject = {};
  for (const [key, asked] of Object.entries(required.requests)) {
    const late = new ToolError('INPUT_REQUIRED', {
      message: `The question of ${required.server} was not answered in time`,
    });
    const { params } = withAsker(asked, required.server);
    // 2025-11-25 identifies what a URL is for.
    const shown = params['mode'] === 'url' ? { elicitationId: randomUUID(), ...params } : params;
    responses[key] = (await askClient(shown, principal, late, request)) ?? { action: 'cancel' };
  }
  return answered(input, required, responses);
}

function answered(
  input: CallInput | undefined,
  { revision, state }: Pick<RequiredInput, 'revision' | 'state'>,
  responses: JsonObject,
): Pick<CallRequest, 'input' | 'cache'> {
  const { capabilities = {} } = input ?? {};
  return { input: { capabilities, given: { responses, state, revision } }, cache: 'no-store' };
}

/** A question with the server that asks it: the client shows it as one of the fleet. */
function withAsker(request: Json, server: string): { method: string; params: JsonObject } {
  const { method, params } = request as { method: string; params: JsonObject };
  const asks = `The MCP server ${server} asks: ${String(params['message'] ?? '')}`;
  const message = params['mode'] === 'url' ? asks : `${asks}\n\n${NO_SECRETS}`;
  return { method, params: { ...params, message } };
}

const expiredInput = (): ToolError =>
  new ToolError('INPUT_REQUIRED', {
    message: 'The answer came too late or belongs to another call; make the call again',
    facts: { rpcCode: ProtocolErrorCode.InvalidParams },
  });

/**
 * Answers refusals for which 2026-07-28 has errors of its own: a forged or expired `requestState`, and a call that needs capabilities which
 * the client did not declare.
 * @throws ProtocolError -32602, MissingRequiredClientCapabilityError
 */
export function throwProtocolRefusal(
  refusal: unknown,
  { isModern }: { isModern: boolean },
  { mcpReq }: ServerContext,
): void {
  if (!isModern || !isToolError(refusal) || refusal.code !== 'INPUT_REQUIRED') return;
  const { message, details, facts } = refusal;
  if (facts?.rpcCode === ProtocolErrorCode.InvalidParams) throw new ProtocolError(facts.rpcCode, message);
  const required = details?.['required_capabilities'];
  // A capability that the client did declare is one that the fleet does not pass on.
  if (isJsonObject(required) && lacks(readClientCapabilities(mcpReq.envelope), required))
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: required }, message);
}

function lacks(declared: Json | undefined, required: JsonObject): boolean {
  return Object.entries(required).some(([name, wanted]) => {
    const known = isJsonObject(declared) ? declared[name] : undefined;
    return known === undefined || (isJsonObject(wanted) && lacks(known, wanted));
  });
}
