/**
 * The schema of the configuration file, with every key of every level. The text of an error says "must be …" and the `title` of the
 * schema, or a description made from its keywords.
 */
import { jsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { Flat, Schema, Value } from '@toolfleet/contracts/json-schema';
import { RIGHT_NAMES, ROLES } from '@toolfleet/contracts/roles';
import { MCP_REVISIONS } from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS, type ToolSettings } from '@toolfleet/contracts/tool-settings';
import { TOOLSET_SCHEMA } from '@toolfleet/contracts/toolset';
import { USER_AUTH_SCHEMA } from '@toolfleet/contracts/user-auth';

const text: Schema<string> = { type: 'string' };
const flag: Schema<boolean> = { type: 'boolean' };
const list = <T>(items: Schema<T>, keywords: JsonObject = {}): Schema<T[]> => ({ type: 'array', items, ...keywords });
const texts = list(text);
const mapping: Schema<JsonObject> = { type: 'object' };
const anything: Schema<Json> = {};
const amount: Schema<number> = { type: 'number', minimum: 0 };
const choice = <const V extends string>(...values: V[]): Schema<V> => ({ enum: values });
const integer = (minimum: number, maximum?: number): Schema<number> =>
  jsonObject({ type: 'integer', minimum, maximum });
const pattern = (expression: string, title: string): Schema<string> => ({
  type: 'string',
  pattern: expression,
  title,
});
/** A mapping with these keys and no others; all may be absent except the `required` ones. */
const record = <F extends Record<string, Schema>, R extends keyof F & string = never>(
  properties: F,
  ...required: R[]
): Schema<Flat<{ [K in R]: Value<F[K]> } & { [K in Exclude<keyof F, R>]?: Value<F[K]> }>> =>
  jsonObject({
    type: 'object',
    properties,
    additionalProperties: false,
    required: required.length > 0 ? required : undefined,
  });
/** A mapping from names to values of one kind. */
const mapOf = <T>(value: Schema<T>, names?: JsonObject, maxProperties?: number): Schema<Record<string, T>> =>
  jsonObject({ type: 'object', additionalProperties: value, propertyNames: names, maxProperties });

type SettingsTable = typeof TOOL_SETTINGS;
const toolSettings = Object.fromEntries(Object.entries(TOOL_SETTINGS).map(([name, { schema }]) => [name, schema])) as {
  [Name in keyof SettingsTable]: SettingsTable[Name]['schema'];
};
const { memory_limit_mb: memoryLimit, ...sourceSettings } = toolSettings;
const toolPattern = pattern('^[A-Za-z0-9_.*/:-]{1,512}$', 'a tool name, with * for any characters');
/** Settings by name pattern, a tool name in which `*` stands for any characters. */
export type SettingsByPattern = Readonly<Record<string, ToolSettings>>;
/** All settings, or those that apply to the tools of a source. */
const settingsByPattern = (settings: Record<string, JsonObject>): Schema<SettingsByPattern> =>
  mapOf(record(settings) as Schema<ToolSettings>, toolPattern, 1_000);
const ofSource = { ...sourceSettings, overrides: settingsByPattern(sourceSettings) };

const httpUrl = pattern('^([hH][tT][tT][pP][sS]?://.+)?$', 'an http or https URL');
const pin = choice('refuse', 'warn', 'off');
const newTools = choice('refuse', 'accept');

const credential = {
  token: text,
  username: text,
  password: text,
  api_key_value: text,
  value: text,
  api_key_name: text,
  api_key_location: choice('header', 'query', 'cookie'),
  client_id: text,
  client_secret: text,
  token_url: text,
  scope: text,
  scopes: texts,
  audience: text,
  client_auth: choice('header', 'body'),
  refresh_token: text,
};

const auth = record({ user: USER_AUTH_SCHEMA }, 'user');

const openApiEntry = record({
  enabled: flag,
  spec_url: text,
  spec_inline: { type: ['string', 'object'] },
  spec_path: text,
  auth_type: choice('none', 'api_key', 'bearer', 'basic', 'oauth2'),
  auth_config: record({ ...credential, schemes: mapOf(record(credential)), vendor: text, extra_headers: mapping }),
  category: text,
  base_cost_per_use: amount,
  operations: texts,
  tags: texts,
  base_url: text,
  max_response_bytes: amount,
  name_prefix: pattern('^[A-Za-z0-9_-]{0,40}$', 'up to 40 letters, digits, "_" and "-"'),
  vendor_adapter: text,
  extra_headers: mapping,
  refresh_seconds: amount,
  pin,
  new_tools: newTools,
  tenant: text,
  /** Values of server variables. */
  server_variables: mapOf(text),
  /** Which server of the document to use, by URL, name, description or index; default the first. */
  server: text,
  /** `inline` for model providers that reject `$defs`. */
  schema_style: choice('defs', 'inline'),
  auth,
  ...ofSource,
});

const mcpEntry = record({
  enabled: flag,
  url: httpUrl,
  func_name: text,
  transport: choice('auto', 'streamable-http', 'function-args', 'stdio'),
  description: text,
  category: text,
  headers: mapping,
  parameters: list(
    record({
      name: text,
      type: text,
      required: flag,
      description: text,
      default: anything,
      enum: anything,
      pattern: anything,
      items: anything,
      min_value: anything,
      max_value: anything,
    }),
  ),
  cost_per_use: amount,
  trusted: flag,
  pin,
  new_tools: newTools,
  prefix: text,
  tools: texts,
  prompts: texts,
  resources: flag,
  oauth: record({
    client_id: text,
    client_secret: text,
    private_key: text,
    signing_algorithm: text,
    token_url: text,
    issuer: text,
    scope: text,
    resource: text,
    refresh_token: text,
    assertion: text,
    identity: record({ token_url: text, client_id: text, client_secret: text, id_token: text }),
    dpop: flag,
  }),
  /** Command of a local server process; only in the configuration file and in local mode. */
  command: text,
  args: texts,
  env: mapping,
  cwd: text,
  protocol_version: choice(...MCP_REVISIONS),
  start_seconds: {
    type: 'number',
    minimum: 1,
    maximum: 120,
    title: 'a number of seconds from 1 to 120',
  } as Schema<number>,
  max_response_bytes: amount,
  /** Maximum duration of an attempt of a server that reports progress; `timeout_seconds` then limits the time between two reports. */
  max_seconds: amount,
  /** Seconds between two requests for the server's tool list; 0 = only after its `list_changed` notification. */
  refresh_seconds: amount,
  /** The server accepts the idempotency key of a call. */
  forwards_idempotency_key: flag,
  /** Whether calls may or must become MCP tasks; forbidden by default. */
  task_support: choice('forbidden', 'optional', 'required'),
  memory_limit_mb: memoryLimit,
  auth,
  ...ofSource,
});

const cost: Schema<number | null> = {
  type: ['number', 'null'],
  minimum: 0,
  title: 'a non-negative amount in USD, or null',
};
const tokens: Schema<number | null> = {
  type: ['integer', 'null'],
  minimum: 0,
  title: 'a non-negative integer, or null',
};
/** Limits of a tenant in USD and tokens; absent: inherited, null: no limit. */
export type LimitSettings = Value<typeof limits>;
const limits = record({
  max_cost_per_request: cost,
  max_tokens_per_request: tokens,
  cost_budget_per_agent: cost,
  token_budget_per_agent: tokens,
  cost_budget_per_task: cost,
  token_budget_per_task: tokens,
  max_cost_per_day: cost,
  max_tokens_per_day: tokens,
  max_cost_per_tenant: cost,
  max_tokens_per_tenant: tokens,
  allow_cost_overrun: flag,
});

/** Requests per window of a tier; absent: inherited. */
const requests: Schema<number> = { type: 'integer', minimum: 1, title: 'a positive integer' };
const tier = record({ requests_per_minute: requests, requests_per_hour: requests, requests_per_day: requests });

const modules = list(pattern('^[A-Za-z_][A-Za-z0-9_.]{0,99}$', 'the name of a Python module'), { maxItems: 200 });

/** Sections that declare sources and toolsets: entries by name. An entry that is invalid is refused alone. */
export const ENTRY_SECTIONS = {
  openapi_tools: {
    name: pattern('^[A-Za-z0-9_.-]{1,100}$', 'up to 100 letters, digits, "_", "-" and "."'),
    schema: openApiEntry,
  },
  mcp_servers: { name: text, schema: mcpEntry },
  mcp_tools: { name: text, schema: mcpEntry },
  toolsets: {
    name: pattern(
      '^[A-Za-z0-9_-]{1,64}(@[A-Za-z0-9_.:-]{1,128})?$',
      'letters, digits, "_" and "-", followed by @tenant in a toolset of one tenant',
    ),
    schema: TOOLSET_SCHEMA as unknown as JsonObject,
  },
} as const satisfies Record<string, { name: JsonObject; schema: JsonObject }>;

const shortName = pattern('^[A-Za-z0-9_-]{1,64}$', 'up to 64 letters, digits, "_" and "-"');
/** A name of a claim; nested ones by dots. */
const claimName = pattern('^[^\\x00-\\x1f\\x7f]{1,200}$', 'the name of a claim');

const globs = list(toolPattern);
/** One interceptor; docs/interceptors.md describes the fields. */
export type InterceptorSettings = Value<typeof interceptor>;
const interceptor = record(
  {
    kind: choice('content', 'http', 'module'),
    mandatory: flag,
    tools: globs,
    toolsets: texts,
    timeout_ms: integer(1, 60_000),
    on_failure: choice('open', 'closed'),
    at: list(choice('call', 'result', 'attempt'), { minItems: 1 }),
    find: list(choice('secrets', 'personal_data')),
    patterns: mapOf(text),
    action: choice('mask', 'withhold'),
    strip_control_characters: flag,
    mark_untrusted: flag,
    url: httpUrl,
    token_file: text,
    file: text,
  },
  'kind',
);

/** How people sign in; docs/sign-in.md describes the fields. */
export type SignInSettings = Value<typeof signIn>;
const signIn = record({
  /** Address of the company's OpenID provider; its metadata is below it. */
  issuer: text,
  client_id: pattern('^[\\x21-\\x7e]{1,255}$', 'the client id that the provider gave'),
  /** Shown on the button. */
  name: pattern('^[^\\x00-\\x1f\\x7f]{1,60}$', 'up to 60 characters'),
  /** Requested in addition to `openid`. */
  scopes: list(pattern('^[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,200}$', 'a scope'), { maxItems: 50 }),
  /** The tenant of everyone who signs in, or the claim with it. */
  tenant: shortName,
  tenant_claim: claimName,
  user_claim: claimName,
  /** Takes an address as verified if the provider sends no `email_verified`. A claim that says otherwise still counts. */
  insecure_skip_email_verified: flag,
  groups_claim: claimName,
  /** Groups of which a user has at least one; absent: everyone may sign in. */
  groups: list(pattern('^.{1,255}$', 'the name of a group'), { minItems: 1, maxItems: 1_000 }),
  /** Roles by group. */
  roles: mapOf(list(shortName, { maxItems: 100 }), undefined, 1_000),
  session_hours: { type: 'number', minimum: 0.1, maximum: 720 } as Schema<number>,
  /** How often the provider is asked about each user who is signed in; default 10. */
  check_minutes: { type: 'number', minimum: 0.02, maximum: 1_440 } as Schema<number>,
  /** Sources with the modes `exchange` and `id_jag` get tokens in exchange for sign-ins' tokens. */
  keep_tokens: flag,
  /** OAuth clients that people connect to `/mcp`. */
  clients: record({
    /** Hosts of client id metadata documents: `claude.ai`, `*.example.com`, or `*`. */
    documents: list(pattern('^([*]|([*][.])?[A-Za-z0-9-]+([.][A-Za-z0-9-]+)+)$', 'a host, *.host, or *'), {
      maxItems: 1_000,
    }),
    /** Dynamic registration (RFC 7591). */
    registration: flag,
    days: { type: 'number', minimum: 0.01, maximum: 365 } as Schema<number>,
  }),
});

/** A wheel that Python programs can import. */
const pythonPackage = record(
  {
    version: pattern('^[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}$', 'a version'),
    sha256: pattern('^[0-9a-f]{64}$', 'a SHA-256 in lowercase hexadecimal'),
    /** Where the sandbox finds the wheel. */
    folder: text,
    /** Tenants that may import it; absent for all. */
    tenants: list(text, { minItems: 1 }),
  },
  'version',
  'sha256',
  'folder',
);

/** Of which calls arguments and results are kept. */
const bodyMode = choice('off', 'failures', 'all');

/** The other sections. One that is invalid refuses the file. */
export const SECTIONS = {
  tool_settings: settingsByPattern(toolSettings),
  /** By name, in the order in which calls meet them. */
  interceptors: mapOf(interceptor, shortName, 50),
  budget: record({ defaults: limits, tenants: mapOf(limits) }),
  rate_limits: record({ tiers: mapOf(tier) }),
  /** Rights by name of the role. */
  roles: mapOf(
    list(choice(...RIGHT_NAMES)),
    {
      type: 'string',
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      not: { enum: Object.keys(ROLES) },
      title: `up to 64 letters, digits, "_" and "-", and none of ${Object.keys(ROLES).join(', ')}`,
    },
    100,
  ),
  /** Of the first rule that matches; a rule without tenants or tools matches all. */
  call_bodies: record({
    keep: bodyMode,
    rules: list(record({ tenants: texts, tools: globs, keep: bodyMode }, 'keep'), { maxItems: 100 }),
    /** Names of members, or the last names of their paths, by name pattern of tools. */
    redact: mapOf(
      list(pattern('^[^.\\s]{1,100}([.][^.\\s]{1,100}){0,9}$', 'a name, or names with dots between them'), {
        maxItems: 100,
      }),
      toolPattern,
    ),
    /** Of one call. */
    max_bytes: integer(1_024, 262_144),
  }),
  /** Project id by tenant; `*` for all other tenants. */
  default_projects: mapOf(pattern('^[^*\\x00-\\x1f\\x7f]{1,255}$', 'a project id of 1 to 255 characters without "*"')),
  /** Empty: people sign in with keys only. */
  sign_in: signIn,
  /** Accepted `typ` of access tokens by issuer; `none` for tokens without one. */
  token_types: mapOf(list(choice('at+jwt', 'JWT', 'none'), { minItems: 1 }), undefined, 10),
  code_execution: record({
    default_strictness: choice('lenient', 'standard', 'strict'),
    extra_allowed_modules: record({ strict: modules }),
  }),
  /** By normalized name. */
  python_packages: mapOf(
    pythonPackage,
    pattern(
      '^[a-z0-9]+(-[a-z0-9]+)*$',
      'the normalized name of a package: lowercase letters and digits, with "-" between them',
    ),
    100,
  ),
  sub_agent: record({ max_iterations: integer(1, 20), max_concurrency: integer(1, 10) }),
} as const satisfies Record<string, JsonObject>;

/** The values of these sections. */
export type Sections = { [Name in keyof typeof SECTIONS]: Value<(typeof SECTIONS)[Name]> };

/** A section in the documentation. */
interface SectionDoc {
  help: string;
  /** The services that read the section at their start only; changes of all others apply while the fleet runs. */
  restart?: readonly ('registry' | 'gateway' | 'builtin-executor' | 'identity' | 'python-sandbox')[];
}

/** Every section, for docs/configuration.md and for reports of services about changes. */
export const SECTION_DOCS: Readonly<Record<keyof typeof ENTRY_SECTIONS | keyof typeof SECTIONS, SectionDoc>> = {
  openapi_tools: { help: 'sources of tools: [OpenAPI documents](openapi.md)' },
  mcp_servers: { help: 'sources of tools: [MCP servers](mcp-servers.md#add-an-mcp-server)' },
  mcp_tools: { help: 'sources of tools: [function endpoints](mcp-servers.md#plain-function-endpoints)' },
  toolsets: { help: '[selections of tools](toolsets.md)' },
  tool_settings: { help: '[settings of tools](tool-settings.md) by name pattern', restart: ['registry'] },
  interceptors: { help: '[steps of the operator](interceptors.md) around calls', restart: ['gateway'] },
  budget: { help: '[limits](budgets.md) of all tenants, and of single ones' },
  rate_limits: {
    help: 'requests of API keys by tier: `tiers: { pro: { requests_per_minute: 500 } }`',
    restart: ['gateway'],
  },
  roles: {
    help: '[roles](#roles): rights by name: `support: [all_calls, all_tenants]`',
    restart: ['gateway'],
  },
  call_bodies: {
    help: 'which [arguments and results](security.md#arguments-and-results-of-calls) of finished calls are kept, and what is redacted',
    restart: ['gateway'],
  },
  sign_in: {
    help: '[how people sign in](sign-in.md): the OpenID provider, tenants, roles by group, OAuth clients',
    restart: ['gateway', 'identity'],
  },
  default_projects: { help: '[project](builtin-tools.md) by tenant, `*` for all others', restart: ['gateway'] },
  token_types: {
    help: '[types of access tokens](sign-in.md#access-tokens-of-the-provider) by issuer, such as `[JWT, none]`; default `[at+jwt]`',
    restart: ['gateway'],
  },
  code_execution: { help: '[strictness and modules](python-sandbox.md) of Python runs', restart: ['gateway'] },
  python_packages: {
    help: '[packages](python-sandbox.md#packages) that Python programs can import, by name',
    restart: ['gateway', 'python-sandbox'],
  },
  sub_agent: { help: '`max_iterations` and `max_concurrency` of `multi_agent`', restart: ['builtin-executor'] },
};
