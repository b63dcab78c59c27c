import type { ToolFigures } from '@toolfleet/builtin-tools';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';

/** Prices and rate limits an operator set. */
export function toolFigures(settings: BuiltinExecutorConfig): ToolFigures {
  return {
    rateLimits: {
      calculator: settings.CALCULATOR_RATE_LIMIT,
      web_search: settings.WEB_SEARCH_RATE_LIMIT,
      ...byTool(settings.BUILTIN_RATE_LIMITS),
    },
    costsMicroUsd: byTool(settings.BUILTIN_COSTS_MICRO_USD),
  };
}

/** `tool=number` items, checked by the configuration. */
function byTool(items: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    items.map((item) => {
      const [tool = '', amount] = item.split('=');
      return [tool, Number(amount)];
    }),
  );
}
