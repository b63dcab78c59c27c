import {
  defineConfig,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  REDIS_KEYS,
  secret,
  type SettingsOf,
} from '@toolfleet/service';

/** Every environment key of the registry. */
export const registryConfig = defineConfig('registry', {
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
});
export type RegistryConfig = SettingsOf<(typeof registryConfig)['table']>;
