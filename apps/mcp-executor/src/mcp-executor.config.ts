import {
  defineConfig,
  drainTimeout,
  EGRESS_KEYS,
  egressFaults,
  EXECUTOR_CONCURRENCY,
  hostList,
  integer,
  MCP_MAX_RESPONSE_BYTES,
  NATS_KEYS,
  REDIS_KEYS,
  REGISTRY_SECRET_KEY,
} from '@toolfleet/service';

/** Settings of mcp-executor. */
export const mcpExecutorConfig = defineConfig(
  'mcp-executor',
  {
    DRAIN_TIMEOUT_MS: drainTimeout(30_000),
    ...NATS_KEYS,
    ...REDIS_KEYS,
    REGISTRY_SECRET_KEY,
    MCP_ALLOWED_DOMAINS: hostList({
      default: [],
      help: 'Hosts of MCP servers and their token endpoints: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
    }),
    ...EGRESS_KEYS,
    MCP_MAX_RESPONSE_BYTES,
    EXECUTOR_CONCURRENCY,
    MCP_CB_FAILURES: integer({
      default: 5,
      min: 1,
      max: 1_000,
      help: 'Consecutive failures that open the breaker of a base URL',
    }),
    MCP_CB_RECOVERY_SECONDS: integer({ default: 60, min: 1, max: 3_600, help: 'Seconds an open breaker stays open' }),
  },
  { check: (settings) => egressFaults(settings, 'MCP_ALLOWED_DOMAINS') },
);
