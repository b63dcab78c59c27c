import type { ErrorClass } from './errors/catalogue.js';
import {
  anything,
  choice,
  flag,
  integer,
  maybe,
  number,
  text,
  type Optional,
  type Schema,
  type Value,
} from './json-schema.js';

/** Classes of errors that a retry policy can name. */
export const RETRIED_CLASSES = [
  'timeout',
  'network_error',
  'upstream_error',
  'execution_error',
  'internal_error',
] as const satisfies readonly ErrorClass[];

/**
 * When a failed call is retried. `none`: never. `network`: on network, upstream and timeout errors, 3 attempts, first wait 1 s.
 * `idempotent`: on any execution error, 2 attempts, first wait 200 ms, factor 1.5. `custom`: as specified.
 */
export type RetryPolicy =
  | { kind: 'none' }
  | { kind: 'network' }
  | { kind: 'idempotent' }
  | {
      kind: 'custom';
      /** Number of attempts, including the first. */
      max_attempts: number;
      base_delay_ms: number;
      multiplier: number;
      /** Maximum wait between attempts, at most 30,000. */
      max_delay_ms?: number;
      /**
       * Error classes that are retried; default `timeout` and `network_error`. `network_error` includes `upstream_error`, and
       * `internal_error` includes `execution_error`.
       */
      on?: (typeof RETRIED_CLASSES)[number][];
    };

interface ToolSetting<T = unknown> {
  schema: Schema<T>;
  /** Default as shown in the documentation. */
  fallback: string;
  description: string;
}

const bounded = (minimum: number, maximum: number): Schema<number> => integer(undefined, { minimum, maximum });

const RETRY_POLICY: Schema<RetryPolicy> = {
  oneOf: [
    { properties: { kind: { enum: ['none', 'network', 'idempotent'] } }, additionalProperties: false },
    {
      properties: {
        kind: { const: 'custom' },
        max_attempts: bounded(1, 10),
        base_delay_ms: bounded(0, 30_000),
        multiplier: { type: 'number', minimum: 1, maximum: 10 },
        max_delay_ms: bounded(0, 30_000),
        on: { type: 'array', items: { enum: [...RETRIED_CLASSES] }, maxItems: RETRIED_CLASSES.length },
      },
      required: ['max_attempts', 'base_delay_ms', 'multiplier'],
      additionalProperties: false,
    },
  ],
  title:
    '{ kind: none | network | idempotent }, or { kind: custom, max_attempts, base_delay_ms, multiplier, max_delay_ms, on }',
  type: 'object',
  required: ['kind'],
};

/**
 * The one table of tool settings. The registry checks announced definitions, entries of the configuration file and registrations
 * with these schemas; the API document and docs/tool-settings.md are generated from them.
 */
export const TOOL_SETTINGS = {
  dangerous: {
    schema: flag(),
    fallback: '`false`',
    description:
      'Not listed for public callers, and their calls are refused with 403 `TOOL_DANGEROUS`, whatever the policy',
  },
  requires_auth: {
    schema: flag(),
    fallback: '`false`',
    description:
      'The caller must present a credential ([authentication](tool-settings.md#authentication)); otherwise 403 `PERMISSION_DENIED`',
  },
  session_aware: {
    schema: flag(),
    fallback: '`false`',
    description: 'The tool receives `session_id` and `user_id`, which become part of its cache key',
  },
  idempotent: {
    schema: flag(),
    fallback: 'HTTP method (OpenAPI), hints of a `trusted` MCP server, else `false`',
    description:
      'Repeating a call is safe: failed attempts can be retried and results cached. Names are never used to guess it',
  },
  retry_policy: {
    schema: RETRY_POLICY,
    fallback: '`network` for idempotent MCP and OpenAPI tools, else `none`',
    description:
      '`{ kind }` with `none`, `network` or `idempotent`, or `{ kind: custom, max_attempts, base_delay_ms, multiplier, max_delay_ms, on }`. A tool that is not idempotent is never retried',
  },
  stub_data: {
    schema: anything(),
    fallback: 'none',
    description:
      'Any JSON except `null`: returned with a disclaimer and `metadata.fallback: "stub_data"` when the tool cannot be reached and there is no cached result. A call that may have had an effect is never replaced',
  },
  rate_limit: {
    schema: bounded(0, 1_000_000_000),
    fallback: '60; MCP: `MCP_RATE_LIMIT_DEFAULT`',
    description: 'Calls per minute and tenant; 0 = no limit',
  },
  rate_limit_mode: {
    schema: choice(['reject', 'wait']),
    fallback: '`reject`',
    description: '`reject` fails with 429 at once, `wait` waits for the rate limit until the deadline of the call',
  },
  cache_ttl_seconds: {
    schema: bounded(0, 86_400),
    fallback:
      '300; remote tools that only read (safe methods, `readOnlyHint`): as `Cache-Control` of the response allows; other remote tools, also function endpoints: 0',
    description: 'How long results of an idempotent tool are cached; 0 = never',
  },
  select: {
    schema: text(undefined, { minLength: 1, maxLength: 1_000 }),
    fallback: 'none',
    description:
      'Part of each result that callers get ([selections](selections.md)), for calls without their own `select`; such a call gets the whole result with `select: "@"`',
  },
  results: {
    schema: choice(['own', 'tenant']),
    fallback: '`own`',
    description:
      '`tenant`: callers of the tenant that may use the tool also see state, arguments and results of [calls of others](security.md#sight) that are made from then on. Not with `auth.user`, and without effect on tools that call tools',
  },
  timeout_seconds: {
    schema: number(undefined, { exclusiveMinimum: 0, maximum: 3_600 }),
    fallback: 'by name and kind ([time](time-and-retries.md#time))',
    description: 'Longest attempt',
  },
  memory_limit_mb: {
    schema: bounded(1, 65_536),
    fallback: '`WASI_MEMORY_LIMIT_MB`; local MCP servers: 512',
    description: 'Memory of a run of `execute_python`, or of the process of a local MCP server',
  },
} satisfies Record<string, ToolSetting>;

type Settings = typeof TOOL_SETTINGS;

/**
 * Settings that every tool accepts: a builtin tool or plugin, an MCP server, a function endpoint or an OpenAPI
 * operation. An absent setting leaves the declaration of the tool, or the default.
 */
export type ToolSettings = { [Name in keyof Settings]?: Value<Settings[Name]['schema']> };

/** The settings as members of a record. */
export const SETTING_FIELDS = Object.fromEntries(
  Object.entries(TOOL_SETTINGS).map(([name, { schema }]) => [name, maybe<unknown>(schema)]),
) as { [Name in keyof Settings]: Optional<Value<Settings[Name]['schema']>> };
