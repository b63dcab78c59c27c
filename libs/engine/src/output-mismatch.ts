import type { CallResult } from '@toolfleet/contracts';
import { explainErrors } from '@toolfleet/schema';
import type { Call } from './call.js';
import type { EnginePorts } from './ports.js';

/** Faults shown of one result. */
const MAX_SHOWN = 5;

/**
 * Says in the metadata how a remote result differs from the output schema its server declared (MCP asks clients to look).
 * A report and no failure: the result stays as it came, for it may be right and the schema wrong.
 */
export function reportOutputMismatch(call: Call, result: CallResult, meter: EnginePorts['meter']): CallResult {
  const { outputSchema } = call.plan;
  if (!outputSchema || !result.ok || outputSchema.check(result.output)) return result;
  meter.outputMismatched(call.tool.name);
  const faults = explainErrors(outputSchema.errors(result.output)).slice(0, MAX_SHOWN);
  const shown = faults.map(({ path, kind, message }) => ({ path, kind, message }));
  return { ...result, metadata: { ...result.metadata, output_schema_mismatch: shown } };
}
