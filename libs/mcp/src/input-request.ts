/**
 * Input of a person for tools of MCP servers: relayed to the caller's own client, and back. Nothing is stored between two requests of a
 * 2026 client: the state of the call travels in the sealed `requestState`, with the server's own state inside.
 */
import { randomUUID } from 'node:crypto';
import {
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  toToolError,
  ToolError,
  type PersonInput,
  type CallRequest,
  type Json,
  type JsonObject,
  type RequiredInput,
} from '@toolfleet/contracts';
import { markHidden } from '@toolfleet/contracts/text';
import type { GrantWatch } from '@toolfleet/engine-adapters';
import {
  answersApproval,
  elicitApproval,
  expiredApproval,
  readApproval,
  readRequiredApproval,
  requestApproval,
} from './approval.js';
import {
  elicitAccount,
  readConnecting,
  readRequiredAccount,
  requestAccount,
  untilConnected,
} from './connect-account.js';
import { readClientCapabilities, type ClientFeatures } from './client-features.js';
import { askClient, type OpenRequest } from './elicitation.js';
import type { McpServerDeps } from './server-deps.js';
import { fromWaiting, toWaiting, type CallBinding, type WaitingStates } from './waiting-call.js';

/** Key of `_meta` that names the server that asks. */
const SERVER_META = 'io.toolfleet/server';
const NO_SECRETS = 'Do not enter passwords, keys or other secrets.';

/** How often a 2025 client is asked for one call. */
const MAX_ROUNDS = 10;

/** The client of a call with a person to ask. */
export interface AskedClient {
  deps: McpServerDeps;
  server: McpServer;
  /** Protocol revision 2026-07-28 or later. */
  isModern: boolean;
}

/** A call with a person to ask. */
interface CallWithQuestions<T> {
  binding: CallBinding;
  /** The first request of the call: of its entry point, or the one that the fast path made, with its refusal. */
  begun: { request: CallRequest; refusal?: unknown };
  /** The request anew: its deadline does not include the time that the person took. */
  build(): CallRequest;
  /** @throws ToolError APPROVAL_REQUIRED, INPUT_REQUIRED, AUTHORIZATION_REQUIRED with what to ask; every other one ends the call */
  run(request: CallRequest): Promise<T>;
  /** Makes a task of the call that follows the one that the server answered with. */
  follow?(request: CallRequest): Promise<T>;
  /** Renders the end of a call that was refused. */
  refuse(request: CallRequest, error: unknown): T;
}

/**
 * Runs a call, asks its person for the approval or the input that it needs, and goes on with the same call, until it ends. A 2026 client
 * is asked by the result, and repeats the call; a 2025 client is asked while the call waits.
 * @throws ProtocolError for refusals that have a code of 2026-07-28; whatever `refuse` throws
 */
export async function runAsking<T>(
  { deps, server, isModern }: AskedClient,
  context: ServerContext,
  { binding, begun, build, run, follow, refuse }: CallWithQuestions<T>,
): Promise<T | CallToolResult> {
  const { requestState: states, elicitation: relay, clock, refusalOf } = deps;
  let { request, refusal } = begun;
  const { principal } = begun.request;
  /** The request with a new deadline. */
  const anew = ({ callId, reuse, approval, personInput }: CallRequest): CallRequest => ({
    ...build(),
    callId,
    reuse,
    approval,
    personInput,
  });
  let isHeld = false;
  /** Set once the user agreed to open the connect page. */
  let grant: GrantWatch | undefined;
  // The engine ends an unasked or declined call, so that it is recorded like every other refusal.
  const orRefuse = async <R>(decision: () => R | Promise<R>): Promise<R> => {
    try {
      return await decision();
    } catch (error) {
      if (isHeld) deps.endCall(request.callId);
      await run({ ...request, approval: undefined, mode: { kind: 'refused', reason: toToolError(error) } });
      throw error;
    }
  };
  try {
    const { source, waiting } = await orRefuse(() => readWaitingCall(context, request, binding, states));
    request = { ...request, ...waiting };
    // Before the call runs: the account may be connected while it does.
    if (source !== undefined) grant = deps.watchGrant(principal, source);
    for (let rounds = 0; ; rounds += 1) {
      try {
        if (refusal) throw refusal;
        return await run(request);
      } catch (thrown) {
        refusal = undefined;
        const approval = request.approval?.asks ? readRequiredApproval(thrown) : undefined;
        const input = readRequiredInput(thrown);
        const account = readRequiredAccount(thrown, request);
        if (!approval && !input && !account) throw thrown;
        const following = follow && input && followingTask(request, input);
        if (following) return await follow(following);
        if (account && grant) {
          const watch = grant;
          grant = undefined;
          await orRefuse(() => untilConnected(account, watch, context.mcpReq.signal)).finally(() => watch.stop());
          request = anew(request);
          continue;
        }
        if (isModern && account) return requestAccount(account, request, binding, states);
        if (isModern && approval) return requestApproval(approval, binding, states);
        if (isModern && input) return requestInput(input, request, binding, states);
        if (!relay) throw thrown;
        isHeld = input?.executor !== undefined;
        const answers = await orRefuse(async () => {
          if (rounds >= MAX_ROUNDS) throw thrown;
          const open = { server, context, relay, clock, refusalOf };
          if (account) {
            await elicitAccount(account, request, open);
            grant = deps.watchGrant(principal, account.source);
            return {};
          }
          if (input) return elicitInput(input, request, open);
          await elicitApproval(approval!, binding, open);
          return { approval: { asks: false, given: approval!.approval } };
        });
        request = { ...anew(request), ...answers };
      }
    }
  } catch (error) {
    if (isModern) throwProtocolRefusal(error, context);
    return refuse(request, error);
  } finally {
    grant?.stop();
  }
}

/**
 * Capabilities for questions to the person of a call, and whether the call may become a task. A 2025 client is asked on a stream whose answers any
 * replica may get, so it needs a relay.
 * @param takesTasks of a client that declares them
 */
export function toAsking(
  { elicitation, tasks }: Pick<McpServerDeps, 'elicitation' | 'tasks'>,
  features: ClientFeatures,
  isModern: boolean,
  takesTasks = false,
): { approval: { asks: boolean; parks: boolean }; personInput: PersonInput | undefined } {
  const canAsk = isModern || elicitation !== undefined;
  const [forms, urls] = [canAsk && features.forms, canAsk && features.urls];
  const capabilities: JsonObject =
    forms || urls ? { elicitation: { ...(forms && { form: {} }), ...(urls && { url: {} }) } } : {};
  const takes = isModern && takesTasks && features.tasks && tasks !== undefined;
  const personInput =
    forms || urls || takes ? { capabilities, tasks: takes ? ('take' as const) : undefined } : undefined;
  return { approval: { asks: forms, parks: takes }, personInput };
}

/** The question of a tool's server; undefined when the call was refused for another reason, or when the caller cannot be asked. */
function readRequiredInput(refusal: unknown): RequiredInput | undefined {
  return isToolError(refusal) && refusal.code === 'INPUT_REQUIRED' ? refusal.facts?.input : undefined;
}

/** Asks a 2026 client: the result says what input is missing, and the client repeats the call with the answers and the state. */
function requestInput(
  { server, revision, requests, state, task, executor }: RequiredInput,
  request: CallRequest,
  call: CallBinding,
  states: WaitingStates,
): CallToolResult {
  const input = { ...toWaiting(request), revision, state, task, executor };
  return {
    resultType: 'input_required',
    ...(Object.keys(requests).length > 0 && { inputRequests: withAskers(requests, server) }),
    requestState: states.seal(call, { input }),
    _meta: { [SERVER_META]: server },
  } as unknown as CallToolResult;
}

/**
 * How a call goes on that a 2026 client repeats with answers; empty for a call that was not made before. It keeps its id and its
 * idempotency key, so that the journal holds one call, and no cache answers or keeps it.
 * @returns `source` when the user was sent to the connect page
 * @throws ToolError APPROVAL_DECLINED; APPROVAL_REQUIRED and INPUT_REQUIRED for a state that has expired or belongs to another call
 */
function readWaitingCall(
  context: ServerContext,
  { personInput: asked, reuse }: CallRequest,
  call: CallBinding,
  states: WaitingStates,
): { source?: string; waiting?: Partial<CallRequest> } {
  const sent = context.mcpReq.requestState<unknown>();
  if (typeof sent !== 'string') return {};
  const state = states.open(call, sent);
  if (!state) throw answersApproval(context) ? expiredApproval() : expiredInput();
  const connecting = readConnecting(state, context, reuse);
  if (connecting) return connecting;
  if (!('input' in state)) return { waiting: readApproval(state, context, reuse) };
  const { input } = state;
  const waiting = fromWaiting(input, reuse);
  const responses = (context.mcpReq.inputResponses ?? {}) as JsonObject;
  return {
    waiting: {
      ...waiting,
      personInput: answered(asked, input, responses),
      reuse: { ...waiting.reuse, cache: 'no-store' },
    },
  };
}

/**
 * Asks a 2025 client, one question after another, on the stream of its own request.
 * @throws ToolError INPUT_REQUIRED when one was not answered in time; CANCELLED when the client disconnected
 */
async function elicitInput(
  required: RequiredInput,
  { personInput, principal, reuse }: CallRequest,
  request: OpenRequest,
): Promise<Partial<CallRequest>> {
  const responses: JsonObject = {};
  for (const [key, asked] of Object.entries(required.requests)) {
    const late = new ToolError('INPUT_REQUIRED', {
      message: `The question of ${required.server} was not answered in time`,
    });
    const { params } = withAsker(asked, required.server);
    // 2025-11-25 identifies the purpose of a URL.
    const shown = params['mode'] === 'url' ? { elicitationId: randomUUID(), ...params } : params;
    responses[key] = (await askClient(shown, principal, late, request)) ?? { action: 'cancel' };
  }
  return { personInput: answered(personInput, required, responses), reuse: { ...reuse, cache: 'no-store' } };
}

function answered(
  input: PersonInput | undefined,
  { revision, state, task, executor }: Pick<RequiredInput, 'revision' | 'state' | 'task' | 'executor'>,
  responses: JsonObject,
): PersonInput {
  const { capabilities = {}, tasks } = input ?? {};
  return { capabilities, tasks, given: { responses, state, revision, task, executor } };
}

/** How a call goes on as a task of the fleet that follows a task of the server; undefined where the server asks first. */
function followingTask(request: CallRequest, required: RequiredInput): CallRequest | undefined {
  const { personInput, reuse } = request;
  if (required.task === undefined || personInput?.tasks === undefined) return undefined;
  return { ...request, personInput: answered(personInput, required, {}), reuse: { ...reuse, cache: 'no-store' } };
}

/** Questions with the server that asks them. */
export function withAskers(requests: JsonObject, server: string): JsonObject {
  return Object.fromEntries(Object.entries(requests).map(([key, request]) => [key, withAsker(request, server)]));
}

/** A question with the server that asks it: the client shows it as one of the fleet. */
function withAsker(request: Json, server: string): { method: string; params: JsonObject } {
  const { method, params: asked } = request as { method: string; params: JsonObject };
  // The id at the server of a URL: 2026-07-28 has none, and nothing of the fleet refers to it.
  const { elicitationId: _id, ...params } = asked;
  const asks = `The MCP server ${server} asks: ${markHidden(String(params['message'] ?? '')).text}`;
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
function throwProtocolRefusal(refusal: unknown, { mcpReq }: ServerContext): void {
  if (!isToolError(refusal) || refusal.code !== 'INPUT_REQUIRED') return;
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
