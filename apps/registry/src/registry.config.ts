import {
  defineConfig,
  EGRESS_KEYS,
  egressFaults,
  FLEET_FILE_KEYS,
  hostList,
  integer,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  TENANT_QUOTAS,
  path,
  REDIS_KEYS,
  secret,
  type SettingsOf,
} from '@toolfleet/service';

/** All environment variables of the registry. */
export const registryConfig = defineConfig(
  'registry',
  {
    ...NATS_KEYS,
    TENANT_QUOTAS,
    ...REDIS_KEYS,
    ...FLEET_FILE_KEYS,
    REGISTRY_SECRET_KEY: secret({
      optional: true,
      minLength: MIN_SECRET_KEY_LENGTH,
      help: 'Seals literal secrets of registrations; unset refuses them. The executors that connect to these sources need the same key',
    }),
    OPENAPI_ALLOWED_DOMAINS: hostList({
      default: [],
      help: 'Hosts of OpenAPI documents, APIs and their token endpoints: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
    }),
    ...EGRESS_KEYS,
    OPENAPI_MAX_SPEC_SIZE: integer({
      default: 32 * 1024 * 1024,
      min: 1_024,
      max: 256 * 1024 * 1024,
      help: 'Largest OpenAPI document in bytes',
    }),
    OPENAPI_FETCH_TIMEOUT: integer({
      default: 30,
      min: 1,
      max: 600,
      help: 'Time limit for fetching a document, in seconds',
    }),
    OPENAPI_SPEC_DIR: path({
      optional: true,
      must: 'folder',
      help: 'Directory from which registrations may name documents as file: URLs; unset refuses them',
    }),
    PYTHON_EXECUTOR_RATE_LIMIT: integer({
      default: 60,
      min: 0,
      help: 'Calls of execute_python (alias python_executor) per minute and tenant; 0 means no limit',
    }),
    MCP_RATE_LIMIT_DEFAULT: integer({
      default: 60,
      min: 0,
      help: 'Calls per minute and tenant of an MCP tool that declares no limit; 0 means no limit',
    }),
  },
  {
    check: (settings) => egressFaults(settings, 'OPENAPI_ALLOWED_DOMAINS'),
  },
);

export type RegistryConfig = SettingsOf<(typeof registryConfig)['table']>;
