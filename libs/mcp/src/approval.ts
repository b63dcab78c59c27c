import { randomUUID } from 'node:crypto';
import { inputRequired, inputResponse, type CallToolResult, type ServerContext } from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  MAX_FORM_CHARS,
  ToolError,
  toUsd,
  type Approval,
  type CallRequest,
  type CallReuse,
  type ShownEffect,
} from '@toolfleet/contracts';
import { markHidden } from '@toolfleet/contracts/text';
import { askClient, type OpenRequest } from './elicitation.js';
import type { CallBinding, WaitingState, WaitingStates } from './waiting-call.js';

const KEY = 'approval';

/** The policy's questions to a person. */
interface ApprovalAnswer {
  /** For which questions and which revision. */
  approval: Approval;
  /** The call as it will run; absent: as the client sent it. */
  call?: ShownEffect | undefined;
}

/** The policy's questions to a person; undefined when the call was refused for another reason. */
export function readRequiredApproval(refusal: unknown): ApprovalAnswer | undefined {
  const asked = isToolError(refusal) && refusal.code === 'APPROVAL_REQUIRED' ? refusal.facts?.approval : undefined;
  if (asked?.by !== 'entry') return undefined;
  return { approval: { questions: asked.questions, revision: asked.revision }, call: asked.call };
}

/**
 * Asks in the way of revision 2026-07-28: the result says what input is missing, and the client repeats the call with the
 * answer and the signed state.
 */
export function requestApproval(asked: ApprovalAnswer, call: CallBinding, states: WaitingStates): CallToolResult {
  const { questions, revision } = asked.approval;
  return inputRequired({
    inputRequests: { [KEY]: inputRequired.elicit(approvalForm(asked, call)) },
    requestState: states.seal(call, { asked: questions, revision, id: randomUUID() }),
  }) as unknown as CallToolResult;
}

/**
 * The approval in the sealed state of a call that a 2026-07-28 client repeated, and its answer. The idempotency key is derived from the
 * state: one approval runs one call, and sending it again replays the outcome.
 * @throws ToolError APPROVAL_DECLINED when it was declined; APPROVAL_REQUIRED when the state belongs to no approval
 */
export function readApproval(
  state: WaitingState,
  context: ServerContext,
  reuse: CallReuse,
): Pick<CallRequest, 'approval' | 'reuse'> {
  if (!('asked' in state)) throw expiredApproval();
  const { asked, revision, id } = state;
  const answer = inputResponse(context.mcpReq.inputResponses, KEY);
  requireConsent(answer.kind === 'elicit' ? answer : {});
  return {
    approval: { asks: true, given: { questions: asked, revision } },
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
export async function elicitApproval(asked: ApprovalAnswer, call: CallBinding, request: OpenRequest): Promise<void> {
  const late = new ToolError('APPROVAL_REQUIRED', { message: 'The approval request was not answered in time' });
  const answer = await askClient(approvalForm(asked, call), call.principal, late, request);
  if (!answer) throw new ToolError('APPROVAL_REQUIRED', { message: 'The client could not ask for approval' });
  requireConsent(answer);
}

/** Shows the arguments as the tool will get them, with the code points of hidden characters. */
function approvalForm({ approval, call }: ApprovalAnswer, sent: CallBinding) {
  const text = JSON.stringify(call?.arguments ?? sent.arguments);
  const left = text.length - MAX_FORM_CHARS;
  const shown = left > 0 ? `${text.slice(0, MAX_FORM_CHARS)}… (${left} more characters)` : text;
  const cost = call && call.microUsd > 0 ? `\nCosts at most: $${toUsd(call.microUsd)}` : '';
  const lines = `${approval.questions.join('\n')}\n\nTool: ${sent.tool}\nArguments: ${shown}${cost}`;
  return {
    message: markHidden(lines).text,
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
