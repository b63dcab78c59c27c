import { ToolError, type JsonObject } from '@toolfleet/contracts';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { newCallId } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { AcceptedCall } from '@toolfleet/results';
import type { NatsClient } from '@toolfleet/transport';

/** Time for the answers to reach the server of a task. */
const SEND_MS = 10_000;

/** Definitions as a tenant has them. */
interface DefinitionsByName {
  get(tool: string, tenantId: string): Promise<RegisteredTool | null>;
}

/**
 * Sends the answers of a caller to the task of an MCP server that its call follows, through mcp-executor. The request is not a call: nothing
 * records it, and it costs nothing.
 * @throws ToolError of the server; TOOL_NOT_FOUND when the definition has changed, because it may name another server by now
 */
export function taskAnswers(nats: Pick<NatsClient, 'requestAcked'>, definitions: DefinitionsByName, clock: Clock) {
  return async ({ tool, tenantId, task }: AcceptedCall, responses: JsonObject): Promise<void> => {
    const definition = await definitions.get(tool, tenantId);
    if (!task || definition?.binding.kind !== 'mcp' || definition.revision !== task.revision)
      throw new ToolError('TOOL_NOT_FOUND', { message: `The definition of '${tool}' changed while its task ran` });
    const message: ExecMessage = {
      call_id: newCallId(clock.now()),
      attempt: 1,
      fence: 1,
      journalled: false,
      tool,
      revision: task.revision,
      binding: definition.binding,
      arguments: {},
      context: { tenant_id: tenantId },
      input: { capabilities: {}, tasks: 'answer', given: { responses, revision: task.revision, task: task.id } },
    };
    // A second delivery is harmless: the server ignores answers that it has.
    const bumpFence = async (fence: number) => fence + 1;
    const { failure } = await nats.requestAcked<ExecResponse>(SUBJECTS.execMcp, message, {
      timeoutMs: SEND_MS,
      bumpFence,
    });
    if (failure) throw new ToolError(failure.code, { message: failure.message, details: failure.details });
  };
}
