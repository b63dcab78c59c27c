import { ToolError, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Fault } from '@toolfleet/schema';
import type { CallTrace } from './call.js';
import type { ToolPlan } from './tool-plan.js';

/**
 * Coerces and validates the arguments of a call; notes conversions and dropped names for the metadata.
 * @throws ToolError ARGUMENTS_INVALID with every fault in `details.faults`
 */
export function parseArguments(plan: ToolPlan, tool: RegisteredTool, seen: CallTrace): JsonObject {
  const read = plan.reader.read(seen.request.rawArguments);
  if (!read.ok) throw argumentsInvalid(tool.name, read.faults);
  seen.coercions = read.coercions;
  seen.dropped = read.dropped;
  seen.arguments = read.arguments;
  return read.arguments;
}

/** The one error for wrong arguments: a message for the model, the faults for programs. */
export function argumentsInvalid(tool: string, faults: readonly Fault[]): ToolError {
  const lines = faults.map((fault) =>
    fault.param === '' || fault.message.includes(`'${fault.param}`)
      ? fault.message
      : `${fault.param}: ${fault.message}`,
  );
  return new ToolError('ARGUMENTS_INVALID', {
    message: `Invalid arguments for tool '${tool}': ${lines.join('; ')}`,
    details: { tool, faults: faults.map((fault) => ({ ...fault })) },
  });
}
