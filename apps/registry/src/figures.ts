import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';

/** Prices and limits an operator set for kinds of tools and for single ones. */
export interface FigureTable {
  /** Calls per minute of `execute_python` and its alias. */
  pythonRateLimit: number;
  /** Calls per minute of an MCP tool that declares none. */
  mcpRateLimit: number;
  /** Price of MCP and OpenAPI tools that declare none, in micro-USD. */
  remoteCostMicroUsd: number;
  /** Price by tool name in upper case (`MCP_COST_<NAME>`), in micro-USD; stands above the definition. */
  mcpCostMicroUsd: ReadonlyMap<string, number>;
}

/** Fills in what the definition leaves open; a declared figure stands, except where an operator named this very tool. */
export class Figures {
  constructor(private readonly table: FigureTable) {}

  apply(definition: ToolDefinition): ToolDefinition {
    const { kind } = definition.binding;
    if (kind === 'python') return { ...definition, rate_limit: this.table.pythonRateLimit };
    if (kind !== 'mcp' && kind !== 'openapi') return definition;
    const named = this.table.mcpCostMicroUsd.get(definition.name.toUpperCase());
    const cost = definition.cost_per_use_micro_usd ?? this.table.remoteCostMicroUsd;
    return {
      ...definition,
      cost_per_use_micro_usd: kind === 'mcp' && named !== undefined ? named : cost,
      ...(kind === 'mcp' ? { rate_limit: definition.rate_limit ?? this.table.mcpRateLimit } : {}),
    };
  }
}
