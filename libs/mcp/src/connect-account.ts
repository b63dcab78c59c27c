/**
 * Accounts that a tool needs and its caller has not connected. The client of the caller opens the connect page (URL elicitation); the user
 * signs in there, and the call goes on. The page tells the gateway nothing about the call: that the grant is there is what counts.
 */
import { randomUUID } from 'node:crypto';
import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  ToolError,
  type CallRequest,
  type CallReuse,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import { opensPages } from '@toolfleet/engine';
import type { GrantWatch } from '@toolfleet/engine-adapters';
import { askClient, type OpenRequest } from './elicitation.js';
import { fromWaiting, toWaiting, type CallBinding, type WaitingState, type WaitingStates } from './waiting-call.js';

const KEY = 'connect';
/** How long a call waits for its user after the page was opened. Clients wait for 60 s unless they say otherwise. */
const CONNECT_MS: Milliseconds = 45_000;

/** A call that waits for an account. */
interface RequiredAccount {
  source: string;
  url: string;
  /** The refusal, for clients that open no page. */
  message: string;
}

/** The account that a refused call needs; undefined for other refusals, and where the client opens no pages. */
export function readRequiredAccount(refusal: unknown, request: CallRequest): RequiredAccount | undefined {
  if (!isToolError(refusal) || refusal.code !== 'AUTHORIZATION_REQUIRED' || !opensPages(request)) return undefined;
  const { connect } = refusal.facts ?? {};
  return connect && { ...connect, message: refusal.message };
}

/** Sends the user of a 2026 client to the page: the result asks for it, and the client makes the call again. */
export function requestAccount(
  account: RequiredAccount,
  request: CallRequest,
  call: CallBinding,
  states: WaitingStates,
): CallToolResult {
  return {
    resultType: 'input_required',
    inputRequests: { [KEY]: { method: 'elicitation/create', params: toParams(account) } },
    requestState: states.seal(call, { connect: { ...toWaiting(request), source: account.source } }),
    // For clients that show the result.
    content: [{ type: 'text', text: account.message }],
  } as unknown as CallToolResult;
}

/**
 * How a call goes on that a 2026 client repeats after the page was opened; undefined for the state of another question.
 * @throws ToolError AUTHORIZATION_REQUIRED when the user declined
 */
export function readConnecting(
  state: WaitingState,
  context: ServerContext,
  reuse: CallReuse,
): { source: string; waiting: Partial<CallRequest> } | undefined {
  if (!('connect' in state)) return undefined;
  const { source } = state.connect;
  requireOpened(source, context.mcpReq.inputResponses?.[KEY]);
  return { source, waiting: fromWaiting(state.connect, reuse) };
}

/** Sends the user of a 2025 client to the page. @throws ToolError AUTHORIZATION_REQUIRED when the user declined; CANCELLED */
export async function elicitAccount(
  account: RequiredAccount,
  { principal }: CallRequest,
  open: OpenRequest,
): Promise<void> {
  const late = new ToolError('AUTHORIZATION_REQUIRED', { message: account.message });
  const params = { elicitationId: randomUUID(), ...toParams(account) };
  requireOpened(account.source, await askClient(params, principal, late, open));
}

/** Waits until the user has connected the account. @throws ToolError AUTHORIZATION_REQUIRED as text when that takes too long */
export async function untilConnected(
  { source, message }: RequiredAccount,
  watch: GrantWatch,
  signal: AbortSignal,
): Promise<void> {
  if (await watch.changed(CONNECT_MS, signal)) return;
  throw new ToolError('AUTHORIZATION_REQUIRED', { message, details: { source } });
}

const toParams = ({ source, url, message }: RequiredAccount): JsonObject => ({
  mode: 'url',
  url,
  message: `Connect your account at ${source}: ${message}`,
});

function requireOpened(source: string, answer: unknown): void {
  if (isJsonObject(answer) && answer['action'] === 'accept') return;
  throw new ToolError('AUTHORIZATION_REQUIRED', {
    message: `Your account at ${source} is not connected, and you declined to connect it`,
    details: { source },
  });
}
