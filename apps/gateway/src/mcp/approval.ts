import { inputRequired, inputResponse, type CallToolResult, type ServerContext } from '@modelcontextprotocol/server';
import { randomUUID } from 'node:crypto';
import {
  isJsonObject,
  isToolError,
  ToolError,
  type Approval,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import type { RequestStates } from './mcp-ports.js';

/** A person has this long to agree. */
export const APPROVAL_TTL_MS = 10 * 60_000;
const KEY = 'approval';
/** Arguments shown to the person; the rest is cut. */
const MAX_SHOWN = 1_000;

/** The call a person is asked about. An approval is tied to all three, so that of one call is worth nothing for another. */
export interface ApprovalCase {
  principal: Principal;
  tool: string;
  arguments: JsonObject;
}

/** What the policy wants a person to agree to, and for which definition, when that is why the call was refused. */
export function openQuestions(refusal: unknown): Approval | undefined {
  if (!isToolError(refusal) || refusal.code !== 'APPROVAL_REQUIRED') return undefined;
  const { questions, revision } = refusal.details ?? {};
  return Array.isArray(questions) ? { questions: questions.map(String), revision: String(revision) } : undefined;
}

/** The form that is shown to the person. */
export function approvalForm(questions: readonly string[], { tool, arguments: args }: ApprovalCase) {
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

/** Whether an answer to the form is a yes. @throws ToolError PERMISSION_DENIED when it is anything else */
export function requireYes(answer: { action?: unknown; content?: unknown }): void {
  if (answer.action === 'accept' && isJsonObject(answer.content) && answer.content['approve'] === true) return;
  throw new ToolError('PERMISSION_DENIED', { message: 'The call was not approved' });
}

/** Asks in the way of 2026-07-28: the client repeats the call with the answer and the signed state. */
export function inputRequiredFor(
  { questions, revision }: Approval,
  of: ApprovalCase,
  states: RequestStates,
): CallToolResult {
  return inputRequired({
    inputRequests: { [KEY]: inputRequired.elicit(approvalForm(questions, of)) },
    requestState: states.seal(of, { asked: [...questions], revision, id: randomUUID() }, APPROVAL_TTL_MS),
  }) as unknown as CallToolResult;
}

/** A yes to a call of 2026. */
export interface Agreement {
  approval: Approval;
  /** The same whenever this answer is sent: one yes is one call, and whoever sends it again gets its outcome again. */
  idempotencyKey: string;
}

/**
 * What was agreed to, when this call comes back with an answer (2026-07-28).
 * @throws ToolError PERMISSION_DENIED when it was declined, or the state is not of this call
 */
export function agreedWith(context: ServerContext, of: ApprovalCase, states: RequestStates): Agreement | undefined {
  const sent = context.mcpReq.requestState<unknown>();
  if (typeof sent !== 'string') return undefined;
  const { asked, revision, id } = states.open(of, sent) ?? {};
  if (!Array.isArray(asked) || typeof revision !== 'string' || typeof id !== 'string') {
    throw new ToolError('PERMISSION_DENIED', {
      message: 'The approval does not belong to this call, or came too late',
    });
  }
  const answer = inputResponse(context.mcpReq.inputResponses, KEY);
  requireYes(answer.kind === 'elicit' ? answer : {});
  return { approval: { questions: asked.map(String), revision }, idempotencyKey: `approval:${id}` };
}
