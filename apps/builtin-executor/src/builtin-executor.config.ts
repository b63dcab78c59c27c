import { SEARCH_PROVIDERS } from '@toolfleet/builtin-tools';
import { TOOLSETS } from '@toolfleet/contracts/tool-definition';
import {
  boolean,
  defineConfig,
  EGRESS_KEYS,
  egressFaults,
  EXECUTOR_CONCURRENCY,
  hostList,
  FLEET_FILE_KEYS,
  integer,
  list,
  NATS_KEYS,
  oneOf,
  path,
  REDIS_KEYS,
  S3_KEYS,
  s3Faults,
  secret,
  text,
  url,
  SHARED_KEYS,
  type ConfigFault,
  type ConfigTable,
  type SettingsOf,
} from '@toolfleet/service';

const table = {
  ...NATS_KEYS,
  REDIS_URL: url({
    optional: true,
    schemes: ['redis', 'rediss', 'redis+cluster', 'rediss+cluster', 'redis+sentinel', 'rediss+sentinel'],
    help: 'Redis: call journal and, for toolset agent, the queue. Without it only idempotent tools run',
  }),
  REDIS_PASSWORD: REDIS_KEYS.REDIS_PASSWORD,
  REDIS_SENTINEL_PASSWORD: REDIS_KEYS.REDIS_SENTINEL_PASSWORD,
  REDIS_TLS_CA: REDIS_KEYS.REDIS_TLS_CA,
  ...FLEET_FILE_KEYS,

  BUILTIN_TOOLSETS: list({ default: [...TOOLSETS], of: TOOLSETS, help: 'Toolsets this process serves' }),
  EXECUTOR_CONCURRENCY: { ...EXECUTOR_CONCURRENCY, default: 256 },
  BUILTIN_COSTS_MICRO_USD: list({
    default: [],
    help: 'Price of a call in micro-USD by tool, e.g. "calculator=1,web_search=4000"',
  }),
  BUILTIN_RATE_LIMITS: list({
    default: [],
    help: 'Calls per minute and tenant by tool, e.g. "json_process=6000,fetch_page=300"; 0 means no limit; overrides the limits of single tools',
  }),
  BUILTIN_PLUGINS_DIR: path({
    optional: true,
    help: 'Folder of plugin tools (*.tool.mjs, *.tool.js, *.tool.ts); default in local mode: plugins in the current folder',
  }),
  BUILTIN_PLUGIN_PROCESSES: integer({
    default: 4,
    min: 1,
    max: 64,
    help: 'Processes that run plugins; each serves one tenant at a time, and a tenant uses at most all but one',
  }),
  CALCULATOR_RATE_LIMIT: integer({
    default: 2_000,
    min: 0,
    help: 'Calls of calculator per minute and tenant; 0 means no limit',
  }),
  WEB_SEARCH_RATE_LIMIT: integer({
    default: 120,
    min: 0,
    help: 'Calls of web_search per minute and tenant; 0 means no limit',
  }),

  WORKSPACE_STORE: oneOf(['local', 's3'], {
    default: 'local',
    help: 'Where the workspaces of the file tools are stored',
  }),
  WORKSPACES_DIR: path({ optional: true, help: 'Directory of the workspaces, for WORKSPACE_STORE=local' }),
  SHANNON_SESSION_WORKSPACES_DIR: path({ optional: true, help: 'Older name of WORKSPACES_DIR' }),
  SHANNON_MAX_WORKSPACE_SIZE_MB: integer({
    default: 100,
    min: 1,
    max: 1_000_000,
    help: 'Quota of one workspace in MB',
  }),

  WORKSPACES_MUST_EXIST: boolean({
    default: false,
    help: 'Refuse projects without a workspace, also those that a key or the configuration declares',
  }),
  ...S3_KEYS,

  WEB_ALLOWED_DOMAINS: hostList({
    default: [],
    help: 'Hosts the web tools may read: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
  }),
  WEB_SEARCH_PROVIDER: oneOf(SEARCH_PROVIDERS, {
    optional: true,
    help: 'Search provider: searchapi, brave (both need a key), searxng (self-hosted), local (simulated results); default searchapi, in local mode local',
  }),
  WEB_SEARCH_URL: url({
    optional: true,
    schemes: ['http', 'https'],
    help: 'Base URL of the provider; required for searxng',
  }),
  WEB_SEARCH_API_KEY: secret({ optional: true, help: 'Key of the provider' }),
  ...EGRESS_KEYS,

  LLM_BASE_URL: url({
    optional: true,
    schemes: ['http', 'https'],
    help: 'OpenAI-compatible API of multi_agent, up to /chat/completions',
  }),
  LLM_MODEL: text({ default: 'default', help: 'Model of multi_agent unless the call sets one' }),
  LLM_API_KEY: secret({ optional: true, help: 'Key of the model API' }),
  LLM_MICRO_USD_PER_1K_TOKENS: integer({
    default: 0,
    min: 0,
    help: 'Price of the tokens of multi_agent',
  }),
  TOOL_PARALLELISM: integer({ default: 5, min: 1, max: 100, help: 'Most concurrent tool calls of one sub-agent' }),
  AGENT_CONCURRENCY: integer({ default: 4, min: 1, max: 100, help: 'Most concurrent calls of multi_agent' }),
} satisfies ConfigTable;

/** Settings of builtin-executor. */
export type BuiltinExecutorConfig = SettingsOf<typeof table & typeof SHARED_KEYS>;

/** Configuration of builtin-executor. */
export const builtinExecutorConfig = defineConfig('builtin-executor', table, { check: checkSettings });

/** Rules over several keys. */
function checkSettings(settings: BuiltinExecutorConfig): ConfigFault[] {
  const faults: ConfigFault[] = (['BUILTIN_COSTS_MICRO_USD', 'BUILTIN_RATE_LIMITS'] as const).flatMap((key) =>
    settings[key]
      .filter((item) => !/^[A-Za-z0-9_-]{1,64}=\d{1,12}$/.test(item))
      .map((item) => ({ key, message: `"${item}" is not tool=number` })),
  );
  const serves = (toolset: string) => settings.BUILTIN_TOOLSETS.includes(toolset);
  const wants = (missing: boolean, key: string, why: string) =>
    missing && faults.push({ key, message: `is required ${why}` });
  faults.push(...egressFaults(settings, 'WEB_ALLOWED_DOMAINS'));
  wants(serves('agent') && !settings.REDIS_URL, 'REDIS_URL', 'by toolset agent');
  if (serves('files') && settings.WORKSPACE_STORE === 'local') {
    wants(!settings.WORKSPACES_DIR && !settings.SHANNON_SESSION_WORKSPACES_DIR, 'WORKSPACES_DIR', 'by toolset files');
  }
  if (serves('files') && settings.WORKSPACE_STORE === 's3') faults.push(...s3Faults(settings, 'WORKSPACE_STORE'));
  wants(
    settings.WEB_SEARCH_PROVIDER === 'searxng' && !settings.WEB_SEARCH_URL,
    'WEB_SEARCH_URL',
    'by WEB_SEARCH_PROVIDER=searxng',
  );
  return faults;
}
