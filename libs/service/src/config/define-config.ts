import { readQuotas } from '@toolfleet/contracts/account';
import { isDevelopment } from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { checkAddressRange, checkAllowEntry, checkEndpoint } from '@toolfleet/egress/rules';
import { boolean, durationMs, integer, list, number, oneOf, path, secret, text, url, type Field } from './field.js';
import { MIN_SECRET_KEY_LENGTH } from '../secrets/secret-box.js';

/** Where a value came from. */
export type SettingSource = 'default' | 'environment' | 'file' | 'unset';

/** Checked settings and their origins. */
export interface LoadedConfig<T extends ConfigTable> {
  settings: SettingsOf<T>;
  sources: Readonly<Record<string, SettingSource>>;
  /** Files of secrets given as `KEY_FILE`, by key. */
  secretFiles: Readonly<Record<string, string>>;
}

/** A configuration table: environment key to field. */
export type ConfigTable = Readonly<Record<string, Field<unknown>>>;

/** Values of a table, by environment key. */
export type SettingsOf<T extends ConfigTable> = { readonly [K in keyof T]: T[K] extends Field<infer V> ? V : never };

/** The fault of one key. */
export interface ConfigFault {
  key: string;
  /** The violated rule, as the rest of a sentence that begins with the key. */
  message: string;
  /** How to fix it, as a clause; unset where the rule says it. */
  remedy?: string;
  /** The value with secrets and passwords masked. Default: the value in the environment. */
  value?: string;
}

/** The configuration of one service: its own table followed by the keys every service has. */
export interface ServiceConfig<T extends ConfigTable = ConfigTable> {
  readonly service: string;
  readonly table: T;
  /** Keys of the service's own table in the order written; in `--help` the shared ones follow. */
  readonly ownKeys: readonly string[];
  /** Rules over several keys, checked once every single value is valid. */
  check?(settings: SettingsOf<T>): readonly ConfigFault[];
}

/** The key `DRAIN_TIMEOUT_MS`, for services that need another default. */
export function drainTimeout(defaultMs: number): Field<number> {
  return durationMs({
    default: defaultMs,
    min: 0,
    max: 600_000,
    help: 'Longest wait for work in flight after SIGTERM; keep it below the grace period of the platform',
  });
}

/** Keys every service has. */
export const SHARED_KEYS = {
  ADMIN_HOST: text({ default: '127.0.0.1', help: 'Address of the admin server; 0.0.0.0 in images' }),
  ADMIN_PORT: integer({
    default: 0,
    min: 0,
    max: 65_535,
    help: 'Port of /health/startup, /health/ready, /health/live and /metrics; 0 takes a free one, images set 9464',
  }),
  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    help: 'Lowest level that is logged',
  }),
  ENVIRONMENT: text({
    default: 'production',
    help: 'Name of the environment; development, dev and test relax auth keys',
  }),
  TOOLFLEET_LOCAL: boolean({
    default: false,
    help: 'Local mode, set by npm start: developer key, tenantless NATS endpoint',
  }),
  TOOLFLEET_REVISION: text({ default: 'unknown', help: 'Commit of the build, shown by toolfleet_build_info' }),
  DRAIN_TIMEOUT_MS: drainTimeout(15_000),
  OTEL_EXPORTER_OTLP_ENDPOINT: url({
    optional: true,
    schemes: ['http', 'https'],
    help: 'OTLP collector; unset means no tracing',
  }),
  OTEL_TRACES_SAMPLE_RATIO: number({
    default: 1,
    min: 0,
    max: 1,
    help: 'Share of new traces that are recorded, 0 to 1; a sampled caller is always followed',
  }),
} satisfies ConfigTable;

/** Quotas of tenants other than the defaults. Not a key of all services: those with stores of tenants have it. */
export const TENANT_QUOTAS = list({
  default: [],
  item: (entry) => readQuotas([entry]),
  help: 'Quotas of a tenant other than the defaults of docs/quotas.md, the same for all services: webhooks=50,sources=500',
});

/** Keys of services that speak NATS; spread into their table. */
export const NATS_KEYS = {
  NATS_URL: url({
    default: 'nats://127.0.0.1:4222',
    schemes: ['nats', 'tls'],
    help: 'NATS servers, separated by commas',
  }),
  NATS_USER: text({ optional: true, help: 'User at NATS' }),
  NATS_PASSWORD: secret({ optional: true, help: 'Password at NATS' }),
  NATS_TLS_CA: path({ optional: true, must: 'file', help: 'CA file of the NATS servers' }),
} satisfies ConfigTable;

/** Keys of services that speak to Redis; spread into their table. */
export const REDIS_KEYS = {
  REDIS_URL: url({
    default: 'redis://127.0.0.1:6379',
    schemes: ['redis', 'rediss', 'redis+cluster', 'rediss+cluster', 'redis+sentinel', 'rediss+sentinel'],
    help: 'Redis: one server, redis+cluster://host,host or redis+sentinel://host,host/name-of-the-primary',
  }),
  REDIS_PASSWORD: secret({ optional: true, help: 'Password at Redis; overrides one in the URL' }),
  REDIS_SENTINEL_PASSWORD: secret({
    optional: true,
    help: 'Password at the Sentinels of redis+sentinel:// themselves',
  }),
  REDIS_REQUIRE_AOF: boolean({
    default: true,
    help: 'Refuse a Redis without an append-only file, synced each second or more often; false for a managed server that is durable without one; not checked with ENVIRONMENT=development, dev or test',
  }),
  REDIS_TLS_CA: path({ optional: true, must: 'file', help: 'CA file of the Redis servers; for rediss:// addresses' }),
} satisfies ConfigTable;

/** Keys of services that keep objects in an S3-compatible bucket, each below a prefix of its own; spread into their table. */
export const S3_KEYS = {
  S3_ENDPOINT: url({
    optional: true,
    schemes: ['http', 'https'],
    help: 'S3-compatible server, for WORKSPACE_STORE=s3 and RESULT_STORE=s3',
  }),
  S3_BUCKET: text({ optional: true, help: 'Bucket; workspaces are kept below workspaces/, results below results/' }),
  S3_REGION: text({ default: 'us-east-1', help: 'Region for request signatures' }),
  S3_ACCESS_KEY_ID: secret({ optional: true, help: 'Access key of the bucket' }),
  S3_SECRET_ACCESS_KEY: secret({ optional: true, help: 'Secret key of the bucket' }),
} satisfies ConfigTable;

/** The keys that a store needs and that are not set; `store` is the setting that chose S3. */
export function s3Faults(settings: SettingsOf<typeof S3_KEYS>, store: string): ConfigFault[] {
  const keys = ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'] as const;
  return keys.filter((key) => !settings[key]).map((key) => ({ key, message: `is required by ${store}=s3` }));
}

/** The login to the bucket of `S3_KEYS`. */
export function s3Login(settings: SettingsOf<typeof S3_KEYS>) {
  return {
    endpoint: settings.S3_ENDPOINT ?? '',
    bucket: settings.S3_BUCKET ?? '',
    region: settings.S3_REGION,
    accessKeyId: settings.S3_ACCESS_KEY_ID ?? '',
    secretAccessKey: settings.S3_SECRET_ACCESS_KEY ?? '',
  };
}

/** Key of the services that open what the registry sealed. */
export const REGISTRY_SECRET_KEY = secret({
  optional: true,
  minLength: MIN_SECRET_KEY_LENGTH,
  help: 'Opens literal secrets of registrations; must equal the key of the registry',
});

/** Key of executors: bounds the memory of a process. */
export const EXECUTOR_CONCURRENCY = integer({
  default: 512,
  min: 1,
  max: 10_000,
  help: 'Calls in flight at an executor; more are refused with QUEUE_FULL',
});

/** Key of the executor of MCP tools, and of gateways: they show it, and send it with each call. */
export const MCP_MAX_RESPONSE_BYTES = integer({
  default: SIZES.upstreamResponse,
  min: 1_024,
  max: SIZES.message,
  help: 'Largest response of an MCP server in bytes, after decompression; the same for gateway and mcp-executor',
});

/** Keys of services with a database; spread into their table. */
export const DATABASE_KEYS = {
  DATABASE_URL: url({
    optional: true,
    schemes: ['postgres', 'postgresql'],
    help: 'PostgreSQL; unset means an embedded SQLite in DATABASE_DIR, which allows one replica',
  }),
  DATABASE_PASSWORD: secret({ optional: true, help: 'Password for PostgreSQL; overrides the one in the URL' }),
  DATABASE_TLS_CA: path({
    optional: true,
    must: 'file',
    help: 'CA file of PostgreSQL; requires TLS with a verified host name',
  }),
  DATABASE_DIR: path({
    default: '.toolfleet/data',
    help: 'Folder of the embedded database <service>.db; not used with DATABASE_URL',
  }),
  STORE_TIMEOUT_MS: durationMs({
    default: 5_000,
    min: 50,
    max: 30_000,
    help: 'Longest wait for the store of a service before a request fails with SERVICE_UNAVAILABLE or BUDGET_UNAVAILABLE',
  }),
} satisfies ConfigTable;

/** Key of services that send requests through the egress guard. */
export const EGRESS_ALLOWED_ENDPOINTS = list({
  default: [],
  item: checkEndpoint,
  help: 'Exact origins (scheme://host:port) that may be local addresses, e.g. a server on this machine',
});

/** Keys of services that call servers outside the fleet; spread into their table, with `egressFaults` as its check. */
export const EGRESS_KEYS = {
  EGRESS_ALLOW_ANY_HOST: boolean({ default: false, help: 'Permits * in an allowlist; refused outside development' }),
  EGRESS_ALLOWED_ENDPOINTS,
  EGRESS_ENDPOINTS_FILE: path({
    optional: true,
    help: 'File with more such origins, one a line; a change counts at once, without a restart',
  }),
  EGRESS_DENIED_CIDRS: list({
    default: [],
    item: checkAddressRange,
    help: 'Address ranges of pods, services and nodes that no tool may reach',
  }),
} satisfies ConfigTable;

/** An allowlist of hosts: `host`, `*.host`, `host:port`, `http://host`, or `*` where `EGRESS_ALLOW_ANY_HOST` permits it. */
export function hostList(options: { default: readonly string[]; help: string }): Field<readonly string[]> {
  return list({ ...options, item: checkAllowEntry });
}

/**
 * Rules over the egress keys: a wildcard for every host needs EGRESS_ALLOW_ANY_HOST (development only).
 * @param allowlists keys of the service's own allowlists
 */
export function egressFaults<K extends string = never>(
  settings: Pick<SettingsOf<typeof EGRESS_KEYS>, 'EGRESS_ALLOW_ANY_HOST'> &
    Pick<SharedSettings, 'ENVIRONMENT'> &
    Readonly<Record<NoInfer<K>, readonly string[]>>,
  ...allowlists: K[]
): ConfigFault[] {
  const development = 'ENVIRONMENT=development, dev or test';
  if (settings.EGRESS_ALLOW_ANY_HOST && !isDevelopment(settings.ENVIRONMENT)) {
    const remedy = `unset it and list the hosts, or set ${development}`;
    return [{ key: 'EGRESS_ALLOW_ANY_HOST', message: `is for ${development} only`, remedy }];
  }
  if (settings.EGRESS_ALLOW_ANY_HOST) return [];
  return allowlists
    .filter((key) => settings[key].some((entry) => entry.includes('*') && !entry.includes('*.')))
    .map((key) => ({
      key,
      message: 'permits every host, which needs EGRESS_ALLOW_ANY_HOST=true',
      remedy: `list the hosts, or set EGRESS_ALLOW_ANY_HOST=true together with ${development}`,
    }));
}

/**
 * The rule that the drain lasts at least as long as the longest call. A local fleet may end sooner.
 * @param key the setting that limits calls
 */
export function drainFaults(settings: SharedSettings, key: string, longestMs: number): ConfigFault[] {
  if (isDevelopment(settings.ENVIRONMENT) || !(settings.DRAIN_TIMEOUT_MS < longestMs)) return [];
  const remedy = `raise it together with the grace period of the platform, or lower ${key}`;
  return [
    {
      key: 'DRAIN_TIMEOUT_MS',
      message: `must be at least ${longestMs} ms, as ${key} lets calls last that long`,
      remedy,
    },
  ];
}

/** Local mode admits callers without a tenant and with a key that everyone on the machine can read. */
function localFaults({ TOOLFLEET_LOCAL: local, ENVIRONMENT: environment }: SharedSettings): ConfigFault[] {
  if (!local || isDevelopment(environment)) return [];
  const remedy = 'unset it, or set ENVIRONMENT=development';
  return [
    { key: 'TOOLFLEET_LOCAL', message: `is for ENVIRONMENT=development, dev or test, not "${environment}"`, remedy },
  ];
}

/** Settings of every service. */
export type SharedSettings = SettingsOf<typeof SHARED_KEYS>;

/**
 * Declares the configuration of a service. Key order is the order of `--help`. A key of the table may replace a shared one, for another
 * default. `check` returns violations of rules over several keys.
 * @throws Error when a key is not UPPER_SNAKE_CASE, or clashes with the file form of a secret
 */
export function defineConfig<const T extends ConfigTable>(
  service: string,
  table: T,
  options: { check?: (settings: SettingsOf<T & typeof SHARED_KEYS>) => readonly ConfigFault[] } = {},
): ServiceConfig<T & typeof SHARED_KEYS> {
  for (const key of Object.keys(table)) {
    if (!/^[A-Z][A-Z0-9_]*$/.test(key)) throw new Error(`Configuration key ${key} is not UPPER_SNAKE_CASE`);
    if (key.endsWith('_FILE') && key.slice(0, -5) in table) throw new Error(`${key} is the file form of a secret`);
  }
  return {
    service,
    table: { ...SHARED_KEYS, ...table } as T & typeof SHARED_KEYS,
    ownKeys: Object.keys(table),
    check: (settings) => [...localFaults(settings as unknown as SharedSettings), ...(options.check?.(settings) ?? [])],
  };
}
