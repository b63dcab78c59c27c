import {
  boolean,
  defineConfig,
  EGRESS_KEYS,
  egressFaults,
  EXECUTOR_CONCURRENCY,
  hostList,
  NATS_KEYS,
  path,
  REDIS_KEYS,
  REGISTRY_SECRET_KEY,
} from '@toolfleet/service';

/** Configuration of openapi-executor. */
export const openapiExecutorConfig = defineConfig(
  'openapi-executor',
  {
    ...NATS_KEYS,
    ...REDIS_KEYS,
    OPENAPI_ALLOWED_DOMAINS: hostList({
      default: [],
      help: 'Hosts of OpenAPI documents, APIs and their token endpoints: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
    }),
    ...EGRESS_KEYS,
    REGISTRY_SECRET_KEY,
    EXECUTOR_CONCURRENCY,
    OPENAPI_LOG_REQUESTS: boolean({
      default: false,
      help: 'Logs each request with masked secrets, body cut at 2,000 characters',
    }),
    OPENAPI_ADAPTERS_DIR: path({
      optional: true,
      must: 'folder',
      help: 'Directory of vendor adapters of your own (<name>.adapter.js)',
    }),
  },
  {
    check: (settings) => egressFaults(settings, 'OPENAPI_ALLOWED_DOMAINS'),
  },
);
