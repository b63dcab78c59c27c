import { isDevelopment } from '@toolfleet/contracts';
import { MAX_SHARDS } from '@toolfleet/queue/redis';
import {
  boolean,
  defineConfig,
  drainFaults,
  drainTimeout,
  durationMs,
  EGRESS_ALLOWED_ENDPOINTS,
  FLEET_FILE_KEYS,
  integer,
  list,
  MCP_MAX_RESPONSE_BYTES,
  NATS_KEYS,
  TENANT_QUOTAS,
  number,
  oneOf,
  path,
  REDIS_KEYS,
  S3_KEYS,
  s3Faults,
  secret,
  text,
  url,
  type SettingsOf,
} from '@toolfleet/service';

/** Every environment key of the gateway. */
export const gatewayConfig = defineConfig(
  'gateway',
  {
    DRAIN_TIMEOUT_MS: drainTimeout(120_000),
    ...NATS_KEYS,
    TENANT_QUOTAS,
    ...REDIS_KEYS,
    ...FLEET_FILE_KEYS,
    GATEWAY_HOST: text({ default: '127.0.0.1', help: 'Address the public server listens on; 0.0.0.0 in images' }),
    GATEWAY_PORT: integer({ default: 8080, min: 0, max: 65_535, help: 'Port of the public server' }),
    GATEWAY_MAX_BODIES_MB: integer({
      default: 256,
      min: 8, // one body
      max: 65_536,
      help: 'Request bodies, NATS messages, unread responses (each above 64 KiB) and unread events that one gateway holds in memory, in MiB; a tenant may have a quarter',
    }),
    GATEWAY_REQUEST_TIMEOUT_MS: durationMs({
      default: 25_000,
      min: 1_000,
      max: 600_000,
      help: 'Longest time for a whole HTTP request to arrive, body included; then its connection is closed',
    }),
    GATEWAY_MAX_CONNECTIONS_PER_ADDRESS: integer({
      default: 2_000,
      min: 0,
      max: 1_000_000,
      help: 'Open HTTP connections per address; 0 = no limit, also none of sign-ins per address, for gateways behind a proxy that has both',
    }),
    GATEWAY_KEEP_ALIVE_SECONDS: integer({
      default: 75,
      min: 1,
      max: 3_600,
      help: 'How long an idle HTTP connection stays open; longer than the idle time-out of the proxy in front, which would else send requests into closed connections',
    }),
    GATEWAY_CALL_TIMEOUT_MS: durationMs({
      default: 120_000,
      min: 1_000,
      max: 600_000,
      help: 'Longest synchronous call, queueing included',
    }),
    GATEWAY_MAX_CALLS: integer({
      default: 4_096,
      min: 1,
      max: 1_000_000,
      help: 'Calls in flight per gateway, without those answered from the cache; more are refused with QUEUE_FULL',
    }),
    GATEWAY_ASYNC_TIMEOUT_MS: durationMs({
      default: 900_000,
      min: 1_000,
      max: 86_400_000,
      help: 'Longest asynchronous call, queueing included',
    }),
    GATEWAY_APPROVAL_SECONDS: integer({
      default: 86_400,
      min: 1,
      max: 2_592_000,
      help: 'Longest time in which people decide on a call; rules of the policy may shorten it',
    }),
    GATEWAY_ASYNC_CONCURRENCY: integer({
      default: 16,
      min: 1,
      max: 1_000,
      help: 'Asynchronous calls that a gateway runs at once',
    }),
    GATEWAY_TOKEN_SECRET: secret({ minLength: 32, help: 'Signs delegation tokens and encrypts MCP requestState' }),
    API_KEY_PEPPER: secret({ minLength: 16, help: 'HMAC key of API keys; changing it makes every key invalid' }),
    GATEWAY_ADMIN_KEY: secret({
      optional: true,
      minLength: 32,
      help: 'Key of the operator who creates the first API keys; remove it once operators have their own keys',
    }),
    TOOLFLEET_DEV_API_KEY: secret({
      optional: true,
      minLength: 16,
      help: 'Developer key of a local fleet; local mode only',
    }),
    GATEWAY_PUBLIC_URL: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'Address at which clients reach this gateway; outside development the OAuth metadata of /mcp, JWT_ISSUER and links to approvals need it',
    }),
    MCP_ALLOWED_HOSTS: list({
      default: [],
      help: 'Host names accepted on /mcp in addition to loopback ones (DNS rebinding)',
    }),
    MCP_ALLOWED_ORIGINS: list({ default: [], help: 'Origins of web pages that may call /mcp' }),
    MCP_SURFACE: oneOf(['list', 'search', 'code', 'auto'], {
      default: 'auto',
      help: 'Tools that /mcp lists for clients that choose no mode: list = every tool, search = search_tools and call_tool, code = three tools for programs, auto = search above 500 tools and list otherwise',
    }),
    MCP_REGISTER_TOKEN: secret({
      optional: true,
      minLength: 16,
      help: 'Grants access to the register endpoints with the rights of an operator',
    }),
    GATEWAY_SKIP_AUTH: boolean({
      default: false,
      help: 'Treats callers without a credential as the local developer, except for tools with requires_auth; needs ENVIRONMENT=development, dev or test',
    }),
    GATEWAY_TRUST_TENANT_SUBJECTS: boolean({
      default: false,
      help: 'Treats tool.call.<tenant> without a key as that tenant; only with a NATS server that runs deploy/nats.conf',
    }),
    POLICY_DIR: path({
      optional: true,
      must: 'folder',
      help: 'Folder of *.rego files; unset: the policies shipped with the gateway',
    }),
    OPA_URL: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'OPA server that decides instead of the built-in evaluator',
    }),
    JWT_ISSUER: text({ optional: true, help: 'Issuer of accepted JWTs; unset: JWTs are refused' }),
    JWT_AUDIENCE: text({ optional: true, help: 'Audience of accepted JWTs' }),
    JWT_JWKS_URL: url({
      optional: true,
      schemes: ['https', 'http', 'file'],
      help: 'Key set of the issuer, fetched through the guarded client, or a file',
    }),
    JWT_TENANT_CLAIM: text({ default: 'tenant', help: 'Claim with the tenant' }),
    JWT_ROLES_CLAIM: text({ default: 'roles', help: 'Claim with the roles' }),
    EGRESS_ALLOWED_ENDPOINTS,
    TOOL_PARALLELISM: integer({ default: 5, min: 1, max: 100, help: 'Calls of one batch that run at once' }),
    WASI_TIMEOUT_SECONDS: integer({ default: 60, min: 1, max: 600, help: 'Hard maximum of a sandbox run' }),
    WASI_MEMORY_LIMIT_MB: integer({
      default: 512,
      min: 64,
      max: 2_048,
      help: 'Memory limit of a sandbox run in MiB, as set for the sandboxes; shown in the metadata of the tool',
    }),
    MCP_TIMEOUT_SECONDS: integer({
      default: 30,
      min: 1,
      max: 600,
      help: 'Attempt timeout of MCP tools that declare none, and longest silence of servers with max_seconds',
    }),
    MCP_MAX_RESPONSE_BYTES,
    MCP_RETRIES: integer({
      default: 3,
      min: 1,
      max: 10,
      help: 'Total attempts of idempotent MCP tools without a retry policy; 1 = no retries',
    }),
    OPENAPI_RETRIES: integer({
      default: 3,
      min: 1,
      max: 10,
      help: 'Total attempts of idempotent OpenAPI tools without a retry policy; 1 = no retries',
    }),
    ENFORCE_CB_ERROR_THRESHOLD: number({
      default: 0.5,
      min: 0.01,
      max: 1,
      help: 'Error rate that opens the breaker of a tool',
    }),
    ENFORCE_CB_WINDOW_SECONDS: integer({ default: 30, min: 1, max: 3_600, help: 'Sliding window of that rate' }),
    ENFORCE_CB_MIN_REQUESTS: integer({
      default: 20,
      min: 1,
      max: 100_000,
      help: 'Calls in the window before the rate counts',
    }),
    GRACEFUL_ERROR_AS_SUCCESS: boolean({
      default: false,
      help: 'Reports failures of tools as success:true with metadata.fallback, for older callers',
    }),
    REDIS_PURGE_PASSWORD: secret({
      optional: true,
      help: 'Password of the user "purge" at Redis, which may list keys; unset means that purges use the login of this gateway',
    }),
    CALL_RESULT_TTL_SECONDS: integer({
      default: 86_400,
      min: 60,
      max: 2_592_000,
      help: 'How long results of asynchronous and keyed calls are kept',
    }),
    RESULT_QUOTA_MB: integer({
      default: 256,
      min: 0,
      max: 1_048_576,
      help: 'Results kept per tenant in Redis and the result store, in MiB; beyond it the oldest without an idempotency key go first; 0 = no limit',
    }),
    RESULT_STORE: oneOf(['redis', 'directory', 's3'], {
      default: 'redis',
      help: 'Where results above RESULT_STORE_THRESHOLD_KB are kept; all gateways need the same store',
    }),
    RESULT_STORE_THRESHOLD_KB: integer({
      default: 256,
      min: 1,
      max: 65_536,
      help: 'Size in KiB above which a kept result goes to the result store',
    }),
    RESULT_STORE_DIR: path({
      optional: true,
      must: 'folder',
      help: 'Directory for RESULT_STORE=directory, on a volume that all gateways mount',
    }),
    ...S3_KEYS,
    CONSOLE_DIR: path({
      optional: true,
      help: 'Folder of the built web console, served at /console; unset: no console',
    }),
    GATEWAY_LOG_SAMPLE_RATIO: number({
      default: 1,
      min: 0,
      max: 1,
      help: 'Share of the successful calls of idempotent tools that get a log line; all other calls always get one. Below 1 the audit log is not complete',
    }),
    GATEWAY_CALL_SPOOL: integer({
      default: 20_000,
      min: 0,
      max: 1_000_000,
      help: 'Finished calls that a gateway keeps in memory (about 1 KB each) while the service records is unavailable; further ones are not recorded; 0 = no calls are recorded',
    }),
    GATEWAY_IDENTITY: boolean({
      default: false,
      help: 'The service identity runs, which keeps sign-in sessions and the credentials of users',
    }),
    GATEWAY_LOG_SEARCH: text({
      optional: true,
      help: 'Where operators find the log lines of a call, shown on its page in the console: an address or a command with {trace_id} or {call_id}',
    }),
    GATEWAY_TRACE_URL: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'Address of the trace of a call, shown there: with {trace_id}',
    }),
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: boolean({
      default: false,
      help: 'Spans of calls hold their arguments and results: without known secrets, cut to 2,048 characters',
    }),
    METRICS_TOOL_LABEL: oneOf(['tool', 'source', 'executor'], {
      default: 'tool',
      help: 'What the label tool_name of metrics holds: each tool, its source, or the class of executors that runs it',
    }),
    QUEUE_SHARDS: integer({
      default: 1,
      min: 1,
      max: MAX_SHARDS,
      help: 'Hash tags over which the jobs of each queue are spread, for Redis Cluster; the same in all gateways, a multiple of the primaries',
    }),
    QUEUE_MAX_WAITING: integer({
      default: 10_000,
      min: 1,
      help: 'Waiting jobs of a queue beyond which calls are refused with QUEUE_FULL; a tenth more for tenants with few waiting jobs',
    }),
  },
  {
    check: (settings) => [
      ...drainFaults(settings, 'GATEWAY_CALL_TIMEOUT_MS', settings.GATEWAY_CALL_TIMEOUT_MS),
      ...(settings.TOOLFLEET_DEV_API_KEY && !settings.TOOLFLEET_LOCAL
        ? [
            {
              key: 'TOOLFLEET_DEV_API_KEY',
              message: 'is for local mode only',
              remedy: 'unset it; create keys with fleetctl keys',
            },
          ]
        : []),
      ...(settings.GATEWAY_SKIP_AUTH && !isDevelopment(settings.ENVIRONMENT)
        ? [{ key: 'GATEWAY_SKIP_AUTH', message: 'needs ENVIRONMENT=development, dev or test', remedy: 'unset it' }]
        : []),
      ...(settings.JWT_ISSUER && !settings.GATEWAY_PUBLIC_URL && !isDevelopment(settings.ENVIRONMENT)
        ? [{ key: 'GATEWAY_PUBLIC_URL', message: 'is required with JWT_ISSUER outside development' }]
        : []),
      ...(settings.JWT_ISSUER && !settings.JWT_AUDIENCE
        ? [{ key: 'JWT_AUDIENCE', message: 'is required with JWT_ISSUER' }]
        : []),
      ...(settings.JWT_ISSUER && !settings.JWT_JWKS_URL
        ? [{ key: 'JWT_JWKS_URL', message: 'is required with JWT_ISSUER' }]
        : []),
      ...(settings.RESULT_STORE === 's3' ? s3Faults(settings, 'RESULT_STORE') : []),
      ...(settings.RESULT_STORE === 'directory' && !settings.RESULT_STORE_DIR
        ? [{ key: 'RESULT_STORE_DIR', message: 'is required by RESULT_STORE=directory' }]
        : []),
    ],
  },
);

export type GatewayConfig = SettingsOf<(typeof gatewayConfig)['table']>;
