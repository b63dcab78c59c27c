import type { ToolFigures } from '@toolfleet/builtin-tools';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';

/** Prices and rate limits an operator set. */
export function toolFigures(settings: BuiltinExecutorConfig): ToolFigures {
  const costs = settings.BUILTIN_COSTS_MICRO_USD.map((item) => item.split('=') as [string, string]);
  return {
    rateLimits: { calculator: settings.CALCULATOR_RATE_LIMIT, web_search: settings.WEB_SEARCH_RATE_LIMIT },
    costsMicroUsd: Object.fromEntries(costs.map(([tool, amount]) => [tool, Number(amount)])),
  };
}
