import { toMicroUsd } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { SettingsByPattern } from '@toolfleet/fleet-file';
import { FatalStartupError } from '@toolfleet/service';
import { applySettings, matchSettings } from './tool-settings.js';

/** Prices and rate limits an operator configures. */
interface OverrideTable {
  /** Calls per minute of `execute_python` and its alias. */
  pythonRateLimit: number;
  /** Calls per minute of an MCP tool that declares none. */
  mcpRateLimit: number;
  /** Price of MCP and OpenAPI tools that declare none, in micro-USD. */
  remoteCostMicroUsd: number;
  /** Price in micro-USD by tool name in upper case (`MCP_COST_<NAME>`); takes precedence over the definition. */
  mcpCostMicroUsd: ReadonlyMap<string, number>;
  /** Section `tool_settings` of the configuration file. */
  settings: SettingsByPattern;
}

/**
 * Completes definitions with the operator's prices, limits and settings. Declared values stay, except the price of a tool that the
 * operator named, the rate limit of `execute_python`, and what `tool_settings` sets.
 */
export class RegisteredOverrides {
  constructor(private readonly table: OverrideTable) {}

  /** The definition with all prices, limits and settings; the argument is not changed. */
  apply(definition: ToolDefinition): ToolDefinition {
    return applySettings(this.applyTable(definition), matchSettings(this.table.settings, [definition.name]));
  }

  private applyTable(definition: ToolDefinition): ToolDefinition {
    const { kind } = definition.binding;
    if (kind === 'python') return { ...definition, rate_limit: this.table.pythonRateLimit };
    const cost = definition.cost_per_use_micro_usd ?? this.table.remoteCostMicroUsd;
    if (kind === 'openapi') return { ...definition, cost_per_use_micro_usd: cost };
    if (kind !== 'mcp') return definition;
    return {
      ...definition,
      cost_per_use_micro_usd: this.table.mcpCostMicroUsd.get(definition.name.toUpperCase()) ?? cost,
      rate_limit: definition.rate_limit ?? this.table.mcpRateLimit,
    };
  }
}

/** Variables with the prefix `MCP_COST_` that are not prices of tools. */
const NOT_A_TOOL = new Set(['TO_TOKENS']);

/**
 * Prices of single MCP tools in micro-USD, from the variables `MCP_COST_<NAME>` in USD.
 * @param variables by the name without prefix, in upper case
 * @throws FatalStartupError naming a value that is not a price
 */
export function readMcpCosts(variables: ReadonlyMap<string, string>): Map<string, number> {
  const costs = new Map<string, number>();
  for (const [name, value] of variables) {
    if (NOT_A_TOOL.has(name)) continue;
    const usd = Number(value);
    if (!Number.isFinite(usd) || usd < 0 || usd > 1_000)
      throw new FatalStartupError(
        `MCP_COST_${name}="${value}" is not a price in USD; set a number from 0 to 1000, or unset it`,
      );
    costs.set(name, toMicroUsd(usd));
  }
  return costs;
}
