import { randomUUID } from 'node:crypto';
import { inputRequired, inputResponse, type CallToolResult, type ServerContext } from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  ToolError,
  type Approval,
  type CallRequest,
  type CallReuse,
  type JsonObject,
} from '@toolfleet/contracts';
import { ANSWER_MS } from '@toolfleet/engine';
import { askClient, type OpenRequest } from './elicitation.js';
import type { CallBinding, RequestStateCodec } from './mcp-deps.js';

const KEY = 'approval';
/** Characters of the arguments shown to the person. */
const MAX_SHOWN = 1_000;

/** What the policy wants a person to approve, and for which revision; undefined when the call was refused for another reason. */
export function readRequiredApproval(refusal: unknown): Approval | undefined {
  const approval = isToolError(refusal) && refusal.code === 'APPROVAL_REQUIRED' ? refusal.facts?.approval : undefined;
  return approval?.by === 'entry' ? { questions: approval.questions, revision: approval.revision } : undefined;
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
    requestState: states.seal(call, { asked: [...questions], revision, id: randomUUID() }, ANSWER_MS),
  }) as unknown as CallToolResult;
}

/**
 * The approval in the sealed state of a call that a 2026-07-28 client repeated, and its answer. The idempotency key is derived from the
 * state: one approval runs one call, and sending it again replays the outcome.
 * @throws ToolError APPROVAL_DECLINED when it was declined; APPROVAL_REQUIRED when the state is not that of an approval
 */
export function readApproval(
  state: JsonObject,
  context: ServerContext,
  reuse: CallReuse,
): Pick<CallRequest, 'approval' | 'reuse'> {
  const { asked, revision, id } = state;
  if (!Array.isArray(asked) || typeof revision !== 'string' || typeof id !== 'string') throw expiredApproval();
  const answer = inputResponse(context.mcpReq.inputResponses, KEY);
  requireConsent(answer.kind === 'elicit' ? answer : {});
  return {
    approval: { asks: true, given: { questions: asked.map(String), revision } },
    reuse: { ...reuse, idempotencyKey: `approval:${id}` },
  };
}

/** Whether a client sent an answer to an approval form. */
export function answersApproval(context: ServerContext): boolean {
  return context.mcpReq.inputResponses?.[KEY] !== undefined;
}

export const expiredApproval = (): ToolError =>
  new ToolError('APPROVAL_REQUIRED', { message: 'The approval has expired or belongs to another call' });

/**
 * Asks a 2025 client on the stream of its own request and waits for the answer.
 * @throws ToolError APPROVAL_DECLINED when it was declined; APPROVAL_REQUIRED when it was not answered in time; CANCELLED when
 *   the client disconnected
 */
export async function elicitApproval(
  questions: readonly string[],
  call: CallBinding,
  request: OpenRequest,
): Promise<void> {
  const late = new ToolError('APPROVAL_REQUIRED', { message: 'The approval request was not answered in time' });
  const answer = await askClient(approvalForm(questions, call), call.principal, late, request);
  if (!answer) throw new ToolError('APPROVAL_REQUIRED', { message: 'The client could not ask for approval' });
  requireConsent(answer);
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
