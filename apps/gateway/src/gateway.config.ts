import { checkEndpoint } from '@toolfleet/egress/rules';
import {
  boolean,
  defineConfig,
  durationMs,
  FLEET_FILE_KEYS,
  integer,
  isDevelopment,
  list,
  NATS_KEYS,
  number,
  oneOf,
  path,
  REDIS_KEYS,
  secret,
  text,
  url,
  type SettingsOf,
} from '@toolfleet/service';
import { JWT_ALGORITHMS } from './auth/jwt.js';

/** Every environment key of the gateway. */
export const gatewayConfig = defineConfig(
  'gateway',
  {
    ...NATS_KEYS,
    ...REDIS_KEYS,
    ...FLEET_FILE_KEYS,
    GATEWAY_HOST: text({ default: '127.0.0.1', help: 'Address of the public door; 0.0.0.0 in images' }),
    GATEWAY_PORT: integer({ default: 8080, min: 0, max: 65_535, help: 'Port of the public door' }),
    GATEWAY_MAX_BODY_BYTES: integer({
      default: 8 * 1024 * 1024,
      min: 1024,
      max: 64 * 1024 * 1024,
      help: 'Largest HTTP request body',
    }),
    GATEWAY_MAX_BODIES_MB: integer({
      default: 256,
      min: 1,
      max: 65_536,
      help: 'Request bodies above 64 KiB that one gateway holds in memory, in MiB; a tenant may have a quarter',
    }),
    GATEWAY_REQUEST_TIMEOUT_MS: durationMs({
      default: 25_000,
      min: 1_000,
      max: 600_000,
      help: 'Longest time for a whole HTTP request to arrive, body included; later ones are closed',
    }),
    GATEWAY_MAX_CONNECTIONS: integer({
      default: 10_000,
      min: 1,
      max: 1_000_000,
      help: 'Open HTTP connections of one gateway; further ones are closed',
    }),
    GATEWAY_MAX_CONNECTIONS_PER_ADDRESS: integer({
      default: 2_000,
      min: 0,
      max: 1_000_000,
      help: 'Open HTTP connections from one address; 0 = no limit, behind a proxy that has one',
    }),
    GATEWAY_MAX_STREAMS: integer({
      default: 500,
      min: 1,
      max: 100_000,
      help: 'Open event streams of one gateway, those of calls, of recent calls and of MCP subscriptions together',
    }),
    GATEWAY_MAX_STREAMS_PER_TENANT: integer({
      default: 100,
      min: 1,
      max: 100_000,
      help: 'Open event streams of one tenant in one gateway',
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
      help: 'Calls in flight in one gateway, answered from the cache not counted; more are refused as QUEUE_FULL',
    }),
    GATEWAY_ASYNC_TIMEOUT_MS: durationMs({
      default: 900_000,
      min: 1_000,
      max: 86_400_000,
      help: 'Longest asynchronous call, queueing included',
    }),
    GATEWAY_ASYNC_CONCURRENCY: integer({
      default: 16,
      min: 1,
      max: 1_000,
      help: 'Asynchronous calls one gateway runs at once',
    }),
    GATEWAY_CATALOG_TTL_MS: durationMs({
      default: 300_000,
      min: 0,
      max: 300_000,
      help: 'Age at which a cached definition is asked for again',
    }),
    GATEWAY_REPLICAS: integer({
      default: 2,
      min: 1,
      max: 1_000,
      help: 'Gateways that share the rate limits; each takes this share while Redis is away',
    }),
    GATEWAY_TOKEN_SECRET: secret({ minLength: 32, help: 'Signs delegation tokens and MCP requestState' }),
    API_KEY_PEPPER: secret({ minLength: 16, help: 'HMAC key of API keys; changing it makes every key invalid' }),
    GATEWAY_ADMIN_KEY: secret({
      optional: true,
      minLength: 32,
      help: 'Key of the operator who makes the first API keys; remove it once there are operators with keys of their own',
    }),
    TOOLFLEET_DEV_API_KEY: secret({
      optional: true,
      minLength: 16,
      help: 'Developer key of a local fleet; local mode only',
    }),
    GATEWAY_PUBLIC_URL: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'Address under which clients know this gateway; outside development the OAuth metadata of /mcp needs it, and so does JWT_ISSUER',
    }),
    MCP_ALLOWED_HOSTS: list({ default: [], help: 'Host names accepted on /mcp beside loopback ones (DNS rebinding)' }),
    MCP_ALLOWED_ORIGINS: list({ default: [], help: 'Origins of web pages that may call /mcp' }),
    MCP_SURFACE: oneOf(['list', 'search', 'auto'], {
      default: 'auto',
      help: 'What /mcp lists: every tool, search_tools and call_tool, or search above MCP_SEARCH_ABOVE tools',
    }),
    MCP_SEARCH_ABOVE: integer({
      default: 500,
      min: 1,
      help: 'Number of tools above which MCP_SURFACE=auto lists search_tools',
    }),
    MCP_REGISTER_TOKEN: secret({
      optional: true,
      minLength: 16,
      help: 'Admits to the register endpoints with the rights of an operator',
    }),
    GATEWAY_SKIP_AUTH: boolean({
      default: false,
      help: 'Callers without a credential are the local developer; only when ENVIRONMENT is development, dev or test',
    }),
    GATEWAY_TRUST_TENANT_SUBJECTS: boolean({
      default: false,
      help: 'tool.call.<tenant> without a key counts as that tenant; only with a server that runs deploy/nats.conf',
    }),
    POLICY_DIR: path({
      optional: true,
      must: 'folder',
      help: 'Folder of *.rego files; unset: the policies shipped with the gateway',
    }),
    OPA_URL: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'OPA sidecar that decides instead of the own evaluator',
    }),
    OPA_TIMEOUT_MS: durationMs({ default: 500, min: 10, max: 10_000, help: 'Longest wait for OPA; late means denied' }),
    JWT_ISSUER: text({ optional: true, help: 'Issuer of accepted JWTs; unset: no JWTs' }),
    JWT_AUDIENCE: text({ optional: true, help: 'Audience of accepted JWTs' }),
    JWT_JWKS_FILE: path({ optional: true, must: 'file', help: 'Key set of the issuer as a file' }),
    JWT_JWKS_URL: url({
      optional: true,
      schemes: ['https', 'http'],
      help: 'Key set of the issuer, fetched through the guarded client',
    }),
    JWT_ALGORITHMS: list({ default: ['RS256', 'ES256'], of: JWT_ALGORITHMS, help: 'Accepted signature algorithms' }),
    JWT_TENANT_CLAIM: text({ default: 'tenant', help: 'Claim with the tenant' }),
    JWT_ROLES_CLAIM: text({ default: 'roles', help: 'Claim with the roles' }),
    JWT_MAX_LIFETIME_SECONDS: integer({
      default: 86_400,
      min: 60,
      max: 31_536_000,
      help: 'Longest life of an accepted JWT, from iat to exp',
    }),
    EGRESS_ALLOWED_ENDPOINTS: list({
      default: [],
      item: checkEndpoint,
      help: 'Exact origins exempt from the address guard (local samples)',
    }),
    RESULT_CACHE_TTL_SECONDS: integer({
      default: 300,
      min: 0,
      max: 86_400,
      help: 'Age of a cached result of an idempotent tool that declares none, and of the history of a session',
    }),
    RESULT_STALE_SECONDS: integer({
      default: 1_800,
      min: 0,
      max: 86_400,
      help: 'Age up to which a cached result may stand in for a tool that cannot be reached; 0 = never',
    }),
    OPENAPI_TIMEOUT_SECONDS: integer({
      default: 30,
      min: 1,
      max: 600,
      help: 'Attempt timeout of OpenAPI tools that declare none',
    }),
    TOOL_TIMEOUT_SECONDS: integer({
      default: 15,
      min: 1,
      max: 600,
      help: 'Attempt timeout of all other tools that declare none',
    }),
    TOOL_PARALLELISM: integer({ default: 5, min: 1, max: 100, help: 'Calls of one batch that run at once' }),
    WASI_TIMEOUT_SECONDS: integer({ default: 60, min: 1, max: 600, help: 'Hard maximum of a sandbox run' }),
    MCP_TIMEOUT_SECONDS: integer({
      default: 30,
      min: 1,
      max: 600,
      help: 'Attempt timeout of MCP tools that declare none',
    }),
    MCP_RETRIES: integer({
      default: 3,
      min: 1,
      max: 10,
      help: 'Attempts in all of an idempotent MCP tool without a retry policy; 1 = never repeated',
    }),
    OPENAPI_RETRIES: integer({
      default: 3,
      min: 1,
      max: 10,
      help: 'Attempts in all of an idempotent OpenAPI tool without a retry policy; 1 = never repeated',
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
    WEB_SEARCH_RATE_LIMIT: integer({ default: 120, min: 1, help: 'Calls of web_search per minute and tenant' }),
    CALCULATOR_RATE_LIMIT: integer({ default: 2_000, min: 1, help: 'Calls of calculator per minute and tenant' }),
    PYTHON_EXECUTOR_RATE_LIMIT: integer({ default: 60, min: 1, help: 'Calls of execute_python per minute and tenant' }),
    GRACEFUL_ERROR_AS_SUCCESS: boolean({
      default: false,
      help: 'Failures of tools as success:true with metadata.fallback, for older callers',
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
    RESULT_STORE_S3_ENDPOINT: url({
      optional: true,
      schemes: ['http', 'https'],
      help: 'S3-compatible server for RESULT_STORE=s3',
    }),
    RESULT_STORE_S3_BUCKET: text({ optional: true, help: 'Bucket for RESULT_STORE=s3' }),
    RESULT_STORE_S3_PREFIX: text({ default: 'results/', help: 'Prefix of all keys in that bucket' }),
    RESULT_STORE_S3_REGION: text({ default: 'us-east-1', help: 'Region that requests to that bucket are signed for' }),
    RESULT_STORE_S3_ACCESS_KEY_ID: secret({ optional: true, help: 'Access key of that bucket' }),
    RESULT_STORE_S3_SECRET_ACCESS_KEY: secret({ optional: true, help: 'Secret key of that bucket' }),
    CONSOLE_DIR: path({ optional: true, help: 'Folder of the built web console, served at /console; unset: none' }),
    GATEWAY_RECENT_CALLS: integer({
      default: 200,
      min: 0,
      max: 100_000,
      help: 'Finished calls kept per tenant for the console (without arguments and results); 0 = none',
    }),
    QUEUE_MAX_WAITING: integer({
      default: 10_000,
      min: 1,
      help: 'Jobs of a queue beyond which calls are refused with QUEUE_FULL; a tenth more for tenants with few waiting',
    }),
  },
  {
    check: (settings) => [
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
      ...(settings.JWT_ISSUER && !settings.JWT_JWKS_FILE && !settings.JWT_JWKS_URL
        ? [{ key: 'JWT_JWKS_FILE', message: 'or JWT_JWKS_URL is required with JWT_ISSUER' }]
        : []),
      ...(settings.GATEWAY_MAX_BODIES_MB * 1024 * 1024 < settings.GATEWAY_MAX_BODY_BYTES
        ? [{ key: 'GATEWAY_MAX_BODIES_MB', message: 'must have room for one body of GATEWAY_MAX_BODY_BYTES' }]
        : []),
      ...requiredByStore(settings).map((key) => ({
        key,
        message: `is required by RESULT_STORE=${settings.RESULT_STORE}`,
      })),
      ...(settings.JWT_JWKS_FILE && settings.JWT_JWKS_URL
        ? [{ key: 'JWT_JWKS_FILE', message: 'and JWT_JWKS_URL are both set', remedy: 'keep one' }]
        : []),
    ],
  },
);

const S3_KEYS = [
  'RESULT_STORE_S3_ENDPOINT',
  'RESULT_STORE_S3_BUCKET',
  'RESULT_STORE_S3_ACCESS_KEY_ID',
  'RESULT_STORE_S3_SECRET_ACCESS_KEY',
] as const;

/** Settings that the chosen result store needs and that are not set. */
function requiredByStore(settings: Partial<Record<string, unknown>>): string[] {
  const keys =
    settings.RESULT_STORE === 's3' ? S3_KEYS : settings.RESULT_STORE === 'directory' ? ['RESULT_STORE_DIR'] : [];
  return keys.filter((key) => !settings[key]);
}

export type GatewayConfig = SettingsOf<(typeof gatewayConfig)['table']>;
