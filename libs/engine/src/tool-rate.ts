import { DEFAULT_RATE_LIMIT, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Rate } from '@toolfleet/resilience';
import type { EngineSettings } from './settings.js';

const MINUTE_MS = 60_000;

/** Calls a tenant may make of a tool: the operator's figure, else the tool's own, else the default; undefined = no limit. */
export function toolRateOf(tool: RegisteredTool, settings: Pick<EngineSettings, 'rateLimits'>): Rate | undefined {
  const perMinute = settings.rateLimits[tool.name] ?? tool.rate_limit ?? DEFAULT_RATE_LIMIT;
  return perMinute > 0 ? { perPeriod: perMinute, periodMs: MINUTE_MS } : undefined;
}

/** Bucket of one tool and tenant; aliases share it, because the name is the definition's. */
export function rateKeyOf(tenantId: string, toolName: string): string {
  return `${tenantId}:${toolName}`;
}
