import {
  defineConfig,
  durationMs,
  egressFaults,
  FLEET_FILE_KEYS,
  integer,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  REDIS_KEYS,
  secret,
  FatalStartupError,
  type SettingsOf,
} from '@toolfleet/service';
import { toMicroUsd } from '@toolfleet/contracts';
import { OPENAPI_SOURCE_KEYS } from './sources/openapi.config.js';

/** Every environment key of the registry. */
export const registryConfig = defineConfig(
  'registry',
  {
    ...NATS_KEYS,
    ...REDIS_KEYS,
    ...FLEET_FILE_KEYS,
    REGISTRY_SECRET_KEY: secret({
      optional: true,
      minLength: MIN_SECRET_KEY_LENGTH,
      help: 'Seals literal secrets of registrations; unset refuses them. The executors that dial need the same key',
    }),
    REGISTRY_PRESENCE_MS: durationMs({
      default: 1_000,
      min: 50,
      max: 60_000,
      help: 'How often executors that stopped announcing are looked for',
    }),
    ...OPENAPI_SOURCE_KEYS,
    PYTHON_EXECUTOR_RATE_LIMIT: integer({
      default: 60,
      min: 0,
      help: 'Calls of execute_python (alias python_executor) per minute and tenant',
    }),
    MCP_RATE_LIMIT_DEFAULT: integer({
      default: 60,
      min: 0,
      help: 'Calls per minute and tenant of an MCP tool that declares no limit',
    }),
  },
  {
    check: (settings) => egressFaults(settings, 'OPENAPI_ALLOWED_DOMAINS'),
  },
);

/** Variables that start like a price and are none. */
const NOT_A_TOOL = new Set(['TO_TOKENS']);

/**
 * Prices of single MCP tools from `MCP_COST_<NAME>` in USD, the name in upper case.
 * @throws FatalStartupError naming a value that is no price
 */
export function mcpCosts(variables: ReadonlyMap<string, string>): Map<string, number> {
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
export type RegistryConfig = SettingsOf<(typeof registryConfig)['table']>;
