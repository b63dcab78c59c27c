import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { FatalStartupError } from '@toolfleet/service';
import { FIGURE_NAMES, withFigures, type LimitFigures, type LimitTable, type TenantLimits } from './limits.js';

/**
 * Limits from the section `budget` of the configuration file, laid over those of the environment:
 * ```yaml
 * budget:
 *   defaults: { max_cost_per_day: 50 }          # USD; tokens are whole numbers; null lifts a limit
 *   tenants:
 *     acme: { max_cost_per_tenant: 500, token_budget_per_agent: null }
 * ```
 * @throws FatalStartupError naming the place.
 */
export function limitTable(environment: TenantLimits, file: JsonObject): LimitTable {
  const section = sectionOf(file['budget'], 'budget');
  for (const key of Object.keys(section)) {
    if (key !== 'defaults' && key !== 'tenants') throw new FatalStartupError(`budget.${key}: unknown key`);
  }
  const defaults = layered(environment, section['defaults'], 'budget.defaults');
  const tenants = new Map<string, TenantLimits>();
  for (const [tenantId, figures] of Object.entries(sectionOf(section['tenants'], 'budget.tenants'))) {
    tenants.set(tenantId, layered(defaults, figures, `budget.tenants.${tenantId}`));
  }
  return { defaults, tenants };
}

function layered(base: TenantLimits, value: unknown, place: string): TenantLimits {
  const figures = sectionOf(value, place);
  const names: readonly string[] = FIGURE_NAMES;
  for (const [key, figure] of Object.entries(figures)) {
    if (!names.includes(key)) throw new FatalStartupError(`${place}.${key}: unknown limit; known: ${names.join(', ')}`);
    if (figure !== null && typeof figure !== 'number') throw new FatalStartupError(`${place}.${key}: a number or null`);
  }
  try {
    return withFigures(base, figures as LimitFigures);
  } catch (error) {
    throw new FatalStartupError(`${place}.${(error as Error).message}`);
  }
}

function sectionOf(value: unknown, place: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw new FatalStartupError(`${place}: a mapping`);
  return value;
}
