import {
  boolean,
  defineConfig,
  integer,
  list,
  MIN_SECRET_KEY_LENGTH,
  NATS_KEYS,
  path,
  REDIS_KEYS,
  secret,
  type SettingsOf,
} from '@toolfleet/service';

/** Everything openapi-executor can be told. */
export const openapiExecutorConfig = defineConfig(
  'openapi-executor',
  {
    ...NATS_KEYS,
    ...REDIS_KEYS,
    OPENAPI_ALLOWED_DOMAINS: list({
      default: [],
      help: 'Hosts of APIs and their token endpoints: host, *.host, host:port, http://host; * for development only',
    }),
    EGRESS_ALLOW_ANY_HOST: boolean({ default: false, help: 'Permits * in an allowlist; refused outside development' }),
    EGRESS_ALLOWED_ENDPOINTS: list({
      default: [],
      help: 'Exact origins (scheme://host:port) that may be local addresses, e.g. a service on this machine',
    }),
    EGRESS_DENIED_CIDRS: list({ default: [], help: 'Pod, service and node ranges no tool may reach' }),
    REGISTRY_SECRET_KEY: secret({
      optional: true,
      minLength: MIN_SECRET_KEY_LENGTH,
      help: 'Opens literal secrets that the registry sealed with the same key',
    }),
    OPENAPI_CB_FAILURES: integer({
      default: 5,
      min: 1,
      max: 1_000,
      help: 'Consecutive failures that open the breaker of an origin',
    }),
    OPENAPI_CB_RECOVERY_SECONDS: integer({
      default: 60,
      min: 1,
      max: 3_600,
      help: 'Seconds an open breaker stays open',
    }),
    OPENAPI_CONCURRENCY: integer({
      default: 512,
      min: 1,
      max: 10_000,
      help: 'Calls in work at once; more are refused as QUEUE_FULL',
    }),
    OPENAPI_LOG_REQUESTS: boolean({
      default: false,
      help: 'Logs each request with masked secrets, body cut at 2,000 characters',
    }),
    OPENAPI_ADAPTERS_DIR: path({
      optional: true,
      help: 'Directory of vendor adapters of your own (<name>.adapter.js)',
    }),
  },
  {
    check: (settings) =>
      settings.EGRESS_ALLOW_ANY_HOST && !['development', 'dev', 'test'].includes(settings.ENVIRONMENT)
        ? [{ key: 'EGRESS_ALLOW_ANY_HOST', message: 'is for ENVIRONMENT=development, dev or test only' }]
        : [],
  },
);
export type OpenApiExecutorConfig = SettingsOf<(typeof openapiExecutorConfig)['table']>;
