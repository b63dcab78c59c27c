import { SHOWN_TIMEOUT_SECONDS, usdOf, type JsonObject, type RegisteredTool } from '@toolfleet/contracts';

/** A tool as the public API shows it (A08). */
export interface PublicTool {
  name: string;
  description: string;
  category: string;
  version: string;
  parameters: JsonObject;
  timeout_seconds: number;
  /** USD. */
  cost_per_use: number;
  /** Only present, and false, while no live executor serves the tool. */
  available?: false;
}

/** Renders a definition for the public API. */
export function publicTool(tool: RegisteredTool): PublicTool {
  return {
    name: tool.name,
    description: tool.description,
    category: tool.category,
    version: tool.version,
    parameters: tool.input_schema,
    timeout_seconds: tool.timeout_seconds ?? SHOWN_TIMEOUT_SECONDS,
    cost_per_use: usdOf(tool.cost_per_use_micro_usd ?? 0),
    ...(tool.available ? {} : { available: false }),
  };
}
