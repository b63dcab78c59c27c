import { inputRequired, inputResponse, type ServerContext } from '@modelcontextprotocol/server';
import { ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { RequestStates } from './mcp-ports.js';

/** A person has this long to agree. */
const APPROVAL_TTL_MS = 10 * 60_000;
const KEY = 'approval';

/**
 * Asks the caller's person before a call runs (mcp.md section 4). The signed state ties the answer to this caller, tool and
 * arguments, so an approval of one call is worth nothing for another.
 * @returns the question to send back, or undefined when it was answered with yes
 * @throws ToolError PERMISSION_DENIED when it was declined, or the state does not belong to this call
 */
export function approvalStep(
  question: string,
  call: { principal: Principal; tool: string; arguments: JsonObject },
  context: ServerContext,
  states: RequestStates,
) {
  const sent = context.mcpReq.requestState<unknown>();
  if (typeof sent !== 'string') {
    return inputRequired({
      inputRequests: {
        [KEY]: inputRequired.elicit({
          message: question,
          requestedSchema: {
            type: 'object',
            properties: { approve: { type: 'boolean', title: 'Approve this call' } },
            required: ['approve'],
          },
        }),
      },
      requestState: states.seal(call, { asked: question }, APPROVAL_TTL_MS),
    });
  }
  if (!states.open(call, sent)) {
    throw new ToolError('PERMISSION_DENIED', {
      message: 'The approval does not belong to this call, or came too late',
    });
  }
  const answer = inputResponse(context.mcpReq.inputResponses, KEY);
  if (answer.kind === 'elicit' && answer.action === 'accept' && answer.content?.['approve'] === true) return undefined;
  throw new ToolError('PERMISSION_DENIED', { message: 'The call was not approved' });
}
