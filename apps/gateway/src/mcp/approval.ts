import { randomUUID } from 'node:crypto';
import {
  inputRequired,
  inputResponse,
  type CallToolResult,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { isJsonObject, isToolError, ToolError, type Approval } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { ElicitationRelay } from './elicitation.js';
import type { CallBinding, RequestStateCodec } from './mcp-deps.js';

/** How long a person may take to answer. */
const APPROVAL_TTL_MS = 10 * 60_000;
const KEY = 'approval';
/** Characters of the arguments shown to the person. */
const MAX_SHOWN = 1_000;

/** What the policy wants a person to approve, and for which revision; undefined when the call was refused for another reason. */
export function readRequiredApproval(refusal: unknown): Approval | undefined {
  return isToolError(refusal) && refusal.code === 'APPROVAL_REQUIRED' ? refusal.facts?.approval : undefined;
}

/**
 * Asks in the way of revision 2026-07-28: the result says what input is missing, and the client repeats the call with the
 * answer and the signed state.
 */
export function requestApproval(
  { questions, revision }: Approval,
  call: CallBinding,
  states: RequestStateCodec,
): CallToolResult {
  return inputRequired({
    inputRequests: { [KEY]: inputRequired.elicit(approvalForm(questions, call)) },
    requestState: states.seal(call, { asked: [...questions], revision, id: randomUUID() }, APPROVAL_TTL_MS),
  }) as unknown as CallToolResult;
}

/**
 * The approval in a call that a 2026-07-28 client repeated; undefined when the call carries none. The idempotency key is
 * derived from the signed state: one approval runs one call, and sending it again replays the outcome.
 * @throws ToolError APPROVAL_DECLINED when it was declined; APPROVAL_REQUIRED when it expired or belongs to another call
 */
export function readApproval(
  context: ServerContext,
  call: CallBinding,
  states: RequestStateCodec,
): { approval: Approval; idempotencyKey: string } | undefined {
  const sent = context.mcpReq.requestState<unknown>();
  if (typeof sent !== 'string') return undefined;
  const { asked, revision, id } = states.open(call, sent) ?? {};
  if (!Array.isArray(asked) || typeof revision !== 'string' || typeof id !== 'string') {
    throw new ToolError('APPROVAL_REQUIRED', { message: 'The approval has expired or belongs to another call' });
  }
  const answer = inputResponse(context.mcpReq.inputResponses, KEY);
  requireConsent(answer.kind === 'elicit' ? answer : {});
  return { approval: { questions: asked.map(String), revision }, idempotencyKey: `approval:${id}` };
}

/**
 * Asks a 2025 client on the stream of its own request and waits for the answer.
 * @throws ToolError APPROVAL_DECLINED when it was declined; APPROVAL_REQUIRED when it was not answered in time; CANCELLED when
 *   the client disconnected
 */
export async function elicitApproval(
  questions: readonly string[],
  call: CallBinding,
  {
    server,
    context,
    relay,
    clock,
  }: { server: McpServer; context: ServerContext; relay: ElicitationRelay; clock: Clock },
): Promise<void> {
  const { id: relatedRequestId, signal } = context.mcpReq;
  const awaited = await relay.expect(call.principal);
  const stopped = Promise.withResolvers<never>();
  const onAbort = (): void =>
    stopped.reject(new ToolError('CANCELLED', { message: 'The client closed the connection' }));
  const cancelTimer = clock.after(APPROVAL_TTL_MS, () =>
    stopped.reject(new ToolError('APPROVAL_REQUIRED', { message: 'The approval request was not answered in time' })),
  );
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    const request = {
      jsonrpc: '2.0' as const,
      id: awaited.id,
      method: 'elicitation/create',
      params: approvalForm(questions, call),
    };
    // Sent on the transport: the SDK's own request() would wait for the answer in this process, but it may reach any replica.
    const sent = server.server.transport?.send(request, { relatedRequestId });
    requireConsent(await Promise.race([Promise.resolve(sent).then(() => awaited.answer), stopped.promise]));
  } finally {
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
    awaited.close();
  }
}

function approvalForm(questions: readonly string[], { tool, arguments: args }: CallBinding) {
  const shown = JSON.stringify(args);
  return {
    message: `${questions.join('\n')}\n\nTool: ${tool}\nArguments: ${shown.length > MAX_SHOWN ? `${shown.slice(0, MAX_SHOWN)}…` : shown}`,
    requestedSchema: {
      type: 'object' as const,
      properties: { approve: { type: 'boolean' as const, title: 'Approve this call' } },
      required: ['approve'],
    },
  };
}

/** @throws ToolError APPROVAL_DECLINED unless the form was accepted with `approve: true` */
function requireConsent(answer: { action?: unknown; content?: unknown }): void {
  if (answer.action === 'accept' && isJsonObject(answer.content) && answer.content['approve'] === true) return;
  throw new ToolError('APPROVAL_DECLINED', { message: 'The call was not approved' });
}
