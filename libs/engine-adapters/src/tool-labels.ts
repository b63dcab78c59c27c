import { RecentMap } from '@toolfleet/resilience';
import { executorClass } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { BoundedLabel, OTHER_LABEL } from '@toolfleet/telemetry';

/** Values of the label `tool_name` of calls: the tool, its source such as `mcp.crm`, or the class of executors that runs it. */
export type ToolLabelling = 'tool' | 'source' | 'executor';

/** Tools with remembered breakers and labels. */
export const MAX_TOOLS = 5_000;

/** Values of the label in a process, of up to 121 series each; all further ones become `other`. */
const MAX_VALUES = 2_000;

/** The values that labels of metrics have for tools: a bounded number of them in a process. */
export class ToolLabels {
  readonly #labels = new BoundedLabel(MAX_VALUES);
  /** Labels by name of the tool, for breakers, which only know the name. */
  readonly #byName = new RecentMap<string, string>({ max: MAX_TOOLS });

  constructor(private readonly by: ToolLabelling) {}

  /** The label of a tool; `other` without a tool, such as for an unknown name. */
  of(tool: RegisteredTool | undefined): string {
    if (!tool) return OTHER_LABEL;
    const label = this.#labels.of(toLabel(tool, this.by));
    this.#byName.set(tool.name, label);
    return label;
  }

  /** The label that `of` gave the tool of this name. */
  ofName(name: string): string {
    return this.#byName.get(name) ?? OTHER_LABEL;
  }
}

function toLabel({ name, source, binding }: RegisteredTool, by: ToolLabelling): string {
  if (by === 'tool') return name;
  // Sources of tenants are named `crm@acme`; tenants are never labels.
  return by === 'source' ? `${source.kind}.${source.name.replace(/@.*/, '')}` : executorClass(binding);
}

/**
 * A tool as `gen_ai.tool.type` of the OpenTelemetry conventions: an `extension` calls an API outside the agent's systems, a `function` is
 * computed here.
 */
export function toToolType({ binding }: RegisteredTool): 'extension' | 'function' {
  return binding.kind === 'mcp' || binding.kind === 'openapi' ? 'extension' : 'function';
}
