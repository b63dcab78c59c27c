/**
 * Reference pages are made from the code: this spec renders them and compares with the files, in both directions.
 * After a change: `npm run docs`.
 */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { POOLS, QUOTAS, REDIS_KEYS, TABLES, type QuotaEntry } from '@toolfleet/contracts/account';
import { CATALOGUE, docUrl, type ErrorCode, type ErrorEntry } from '@toolfleet/contracts';
import { EVENTS } from '@toolfleet/contracts/events';
import { CALL_FIELDS } from '@toolfleet/contracts/call-fields';
import { REQUESTS } from '@toolfleet/contracts/requests';
import { HEADERS, QUEUES, SIZES, SUBJECTS } from '@toolfleet/contracts/subjects';
import { RIGHTS, ROLES } from '@toolfleet/contracts/roles';
import { TOOLSETS, toolsetSource, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { BATCH_SCHEMA, CALL_SCHEMA, CANCEL_SCHEMA, LIST_SCHEMA } from '../apps/gateway/src/nats/call.schema.js';
import { callSteps } from '@toolfleet/engine';
import { toolStubs } from '@toolfleet/programs';
import { getToolset, MANIFEST, toToolDefinition } from '@toolfleet/builtin-tools';
import { ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { memoryPorts } from '@toolfleet/testing/memory-ports';
import { SECTION_DOCS } from '@toolfleet/fleet-file';
import { documentConfig, type ServiceConfig } from '@toolfleet/service';
import { METRICS, type MetricEntry } from '@toolfleet/telemetry';
import { describe, expect, it } from 'vitest';
import { SERVICES } from '../apps/standalone/src/standalone.config.js';
import { countLines, isProduction, packageOf, partOf } from '../tools/code-parts.mjs';

/** A request and its answer, run by `test/e2e/tutorials.spec.ts`. */
const CALL_WITH_FIELDS = `\`\`\`sh
api tools/sample_add/execute -d '{"arguments": {"a": 2, "b": 40}, "dry_run": true, "timeout_ms": 900, "request_id": "r-1"}'
\`\`\`

\`\`\`json
{"success": true, "text": "Dry run of 'sample_add': the call is valid and allowed, and costs $0.001; nothing was run.",
 "output": {"dry_run": true, "tool": "sample_add", "arguments": {"a": 2, "b": 40}, "timeout_ms": 900, "…": "…"}, "…": "…"}
\`\`\``;

/** A setting in docs/configuration.md, from the tables of all services that have it. */
interface SettingRow {
  kind: string;
  defaults: Map<string, string>;
  /** Meaning in words, with the rule of the value where there is one. */
  meanings: Map<string, string | undefined>;
}

/** Every setting is one more thing to document and to test together with the others: a new one replaces one. */
const MAX_SETTINGS = 150;

/** Settings that a first fleet needs: where its parts are, its secrets, its tools. */
const FIRST_DAY = [
  ...['NATS_URL', 'REDIS_URL', 'DATABASE_URL', 'DATABASE_DIR', 'TOOLFLEET_CONFIG', 'ENVIRONMENT'],
  ...[
    'GATEWAY_HOST',
    'GATEWAY_PORT',
    'GATEWAY_PUBLIC_URL',
    'GATEWAY_ADMIN_KEY',
    'GATEWAY_TOKEN_SECRET',
    'API_KEY_PEPPER',
  ],
  ...[
    'REGISTRY_SECRET_KEY',
    'RECORDS_SECRET_KEY',
    'IDENTITY_SECRET_KEYS',
    'GATEWAY_IDENTITY',
    'CONSOLE_DIR',
    'POLICY_DIR',
  ],
  ...['MCP_ALLOWED_DOMAINS', 'OPENAPI_ALLOWED_DOMAINS', 'WEB_ALLOWED_DOMAINS', 'EGRESS_ALLOWED_ENDPOINTS'],
  ...['BUILTIN_TOOLSETS', 'BUILTIN_PLUGINS_DIR', 'WORKSPACES_DIR', 'WEB_SEARCH_PROVIDER', 'WEB_SEARCH_API_KEY'],
  ...['LLM_BASE_URL', 'LLM_MODEL', 'LLM_API_KEY', 'TOOLFLEET_LOCAL', 'TOOLFLEET_DEV_API_KEY', 'TOOLFLEET_SERVICES'],
];

/** Settings that a fleet with users, replicas and retention needs in addition. */
const PRODUCTION = [
  ...[
    'ADMIN_HOST',
    'ADMIN_PORT',
    'LOG_LEVEL',
    'DRAIN_TIMEOUT_MS',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_TRACES_SAMPLE_RATIO',
  ],
  ...['NATS_USER', 'NATS_PASSWORD', 'NATS_TLS_CA', 'REDIS_PASSWORD', 'REDIS_SENTINEL_PASSWORD', 'REDIS_TLS_CA'],
  ...['REDIS_REQUIRE_AOF', 'REDIS_PURGE_PASSWORD', 'DATABASE_PASSWORD', 'DATABASE_TLS_CA', 'EGRESS_DENIED_CIDRS'],
  ...['JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_JWKS_URL', 'JWT_TENANT_CLAIM', 'JWT_ROLES_CLAIM', 'OIDC_CLIENT_SECRET'],
  ...['IDENTITY_ALLOWED_DOMAINS', 'WEBHOOK_ALLOWED_DOMAINS', 'MCP_ALLOWED_HOSTS', 'MCP_ALLOWED_ORIGINS'],
  ...['GATEWAY_TRUST_TENANT_SUBJECTS', 'GATEWAY_CALL_TIMEOUT_MS', 'GATEWAY_MAX_CALLS', 'GATEWAY_MAX_BODIES_MB'],
  ...[
    'GATEWAY_MAX_CONNECTIONS_PER_ADDRESS',
    'GATEWAY_KEEP_ALIVE_SECONDS',
    'GATEWAY_ASYNC_CONCURRENCY',
    'GATEWAY_CALL_SPOOL',
  ],
  ...['QUEUE_SHARDS', 'QUEUE_MAX_WAITING', 'EXECUTOR_CONCURRENCY', 'AGENT_CONCURRENCY', 'BUILTIN_PLUGIN_PROCESSES'],
  ...[
    'PYTHON_SANDBOX_THREADS',
    'PYTHON_SANDBOX_MEMORY_BUDGET_MB',
    'PYTHON_SANDBOX_RECYCLE_RSS_MB',
    'WASI_MEMORY_LIMIT_MB',
  ],
  ...['CALL_RESULT_TTL_SECONDS', 'RESULT_QUOTA_MB', 'RESULT_STORE', 'RESULT_STORE_DIR', 'WORKSPACE_STORE'],
  ...['S3_ENDPOINT', 'S3_BUCKET', 'S3_REGION', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'],
  ...['RECORDS_RETENTION_DAYS', 'RECORDS_RETENTION_DAYS_OF', 'BUDGET_LEDGER_RETENTION_DAYS', 'TENANT_QUOTAS'],
  ...['MAX_COST_PER_REQUEST', 'MAX_TOKENS_PER_REQUEST', 'TOKEN_BUDGET_PER_AGENT', 'TOKEN_BUDGET_PER_TASK'],
  ...['GATEWAY_LOG_SEARCH', 'GATEWAY_TRACE_URL', 'GATEWAY_LOG_SAMPLE_RATIO', 'METRICS_TOOL_LABEL'],
];

/** Cells of a setting. The default of most of its services comes first, and others follow in brackets: `512 (builtin-executor: 256)`. */
function settingRow(key: string, { kind, defaults, meanings }: SettingRow, services: readonly string[]): string[] {
  const counts = Map.groupBy(defaults, ([, value]) => value);
  const [usual] = [...counts].toSorted(([, a], [, b]) => b.length - a.length)[0]!;
  const others = [...defaults].filter(([, value]) => value !== usual).map(([service, value]) => `${service}: ${value}`);
  const missing = services.filter((service) => service !== 'standalone' && !defaults.has(service));
  const most = missing.length > 0 ? `all but ${missing.join(', ')}` : 'all';
  const rules = new Set(meanings.values());
  const texts = [...meanings].map(([help, rule]) => (rule && rules.size > 1 ? `${help}; ${rule}` : help));
  const where = missing.length < defaults.size ? most : [...defaults.keys()].join(', ');
  const value = others.length > 0 ? `${usual} (${others.join(', ')})` : usual;
  return [
    `\`${key}\``,
    kind,
    value,
    where,
    [texts.join(' / '), ...(rules.size > 1 ? [] : rules)].filter(Boolean).join('; '),
  ];
}

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const GENERATED = '<!-- Made from the code by `npm run docs`; edit there. -->';

/** A `<` outside of code would begin an element. */
const outsideCode = (text: string) =>
  text
    .split('`')
    .map((part, index) => (index % 2 ? part : part.replaceAll(/(?<!\\)<(?=\w)/g, '\\<')))
    .join('`');
const cell = (text: string) => outsideCode(text.replaceAll('|', '\\|').replaceAll('\n', ' '));
const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n');
const page = (title: string, ...parts: string[]) => `# ${title}\n\n${GENERATED}\n\n${parts.join('\n\n')}\n`;

const same = (text: string, file: string) => expect(text).toMatchFileSnapshot(`${ROOT}docs/${file}`);

const FLEET_FILE_PAGE = `## The configuration file

\`TOOLFLEET_CONFIG\` names YAML files, separated by commas: their sections are joined, and an entry of a later file
replaces one of an earlier file. \`fleetctl check <file> …\` reports faults without a fleet.

- **At start** an unreadable file, an unknown key (except \`x-…\`, free for anchors), or a wrong value outside the entries of sources and
  toolsets ends every service that reads it with exit code 78.
- **While the fleet runs** such a change is ignored as a whole and reported as a [fault](operations/health.md), as is an empty file.
- **An entry** of a source or toolset with a wrong value is ignored alone, with the state \`refused\` and a fault.
- **A source or toolset disappears** only when a file without any fault no longer has it, and no other replica of the registry declares it.
- \`npm start\` makes \`.toolfleet/fleet.yaml\` once, writes \`.toolfleet/samples.yaml\` at each start, reads variables from \`.env\` in the root, and ends with 78 when services would refuse the file.
- A change of a section that is read at the start is a fault until the restart.`;

/** The built-in roles and what each right permits. */
function rolesSection(): string {
  const rows = Object.entries(ROLES).map(([role, rights]) => [
    `\`${role}\``,
    rights.map((right) => `\`${right}\``).join(', '),
  ]);
  return `## Roles

API keys, JWTs and signed-in users have roles, sets of rights; \`/api/v1/me\` shows the caller's rights,
\`fleetctl keys roles\` and the page *Users and keys* of the console all roles. The section \`roles\` declares
others: \`support: [all_calls, all_tenants]\`. An undeclared name grants no right, for \`required_roles\` of tools and policies.
A credential grants the roles that it has, and built-in roles without rights that it lacks; \`operate_fleet\` grants any.
\`all_tenants\`, \`operate_fleet\` and the role \`operator\` count only for credentials of the tenant \`operator\`.

${table(['Role', 'Rights'], rows)}

${table(
  ['Right', 'Permits to'],
  Object.entries(RIGHTS).map(([right, help]) => [`\`${right}\``, help]),
)}`;
}

/** What each step of a call does, and how a call can end there. A step may have several lines. */
const STEP_NOTES: Record<string, [does: string, ends?: string][]> = {
  'check ids': [['no control characters', '400 REQUEST_INVALID']],
  'shown names': [['on the way back: the names that the toolset shows']],
  'graceful errors': [['on the way back: with GRACEFUL_ERROR_AS_SUCCESS']],
  'parent spending': [['a call of a tool spends from the budgets of its parent']],
  progress: [['is reported until the call ends']],
  record: [['log, metrics, records: every call below, however it ends']],
  trace: [['one span']],
  deadline: [
    ['one instant, one signal', '504 DEADLINE_EXCEEDED   no attempt had begun'],
    ['', 'in-band CANCELLED       the caller cancelled; the work is stopped'],
  ],
  resolve: [['definition, binding, toolset', '404 TOOL_NOT_FOUND']],
  authorize: [['quarantine, dangerous, role', '403 TOOL_QUARANTINED · TOOL_DANGEROUS · PERMISSION_DENIED']],
  arguments: [
    ['unwrap, coerce, check', '400 ARGUMENTS_INVALID   all violations together'],
    ['in a child if costly', '503 SERVICE_UNAVAILABLE'],
    ['select compiles', '400 REQUEST_INVALID     with the position of the error'],
    ['dangerous values', '403 TOOL_DANGEROUS'],
  ],
  policy: [['rules on coerced arguments', '403 POLICY_DENIED']],
  'call interceptors': [
    ['of the operator; arguments that they change pass the two steps above again', '403 POLICY_DENIED'],
  ],
  approval: [['people, where the policy asks', '403 APPROVAL_REQUIRED, _DECLINED, _INVALIDATED · 202 parked']],
  'user grant': [['the credential of the user upstream', '403 AUTHORIZATION_REQUIRED']],
  'replay interceptors': [['on the way back: a replay passes those inside']],
  'result interceptors': [['around the execution', '403 POLICY_DENIED · in-band RESULT_WITHHELD']],
  'attempt interceptors': [['around each attempt', 'as above']],
  'dry run': [['', 'answered here: price and limits; nothing runs']],
  finish: [['on the way back: conversions and waits in the metadata']],
  'keep aside': [['on the way back: a handle in place of a large result']],
  'select part': [['on the way back: what this caller gets of the result']],
  'idempotency key': [['first outcome of the key', 'replay · 409 CALL_IN_PROGRESS · 422 IDEMPOTENCY_MISMATCH']],
  cache: [['fresh result', 'result, provenance `cache`']],
  'session dedupe': [['repeated in this session', 'result, provenance `cache`']],
  'single flight': [['same call is running', 'its result, `metadata.coalesced`']],
  'concurrency limit': [['calls in flight', '503 QUEUE_FULL']],
  'load shedding': [['less time than usually needed', '504 DEADLINE_EXCEEDED']],
  'rate limit': [['token bucket', '429 RATE_LIMITED, or waits (`rate_limit_mode: wait`)']],
  budget: [
    ['reserve the maximum cost', '402 BUDGET_EXCEEDED · TOKEN_LIMIT_EXCEEDED · 503 BUDGET_UNAVAILABLE'],
    ['on the way back: settle the actual cost, or release the reservation'],
  ],
  fallback: [['stale result, stub, reason', 'result, provenance `stale_cache` or `stub`, always marked']],
  breaker: [['of the tool', '503 BREAKER_OPEN']],
  retry: [['by the rule of the tool: repeats all steps below']],
  'attempt timeout': [['its limit or the time left', 'in-band ATTEMPT_TIMED_OUT']],
  journal: [['calls with effects or a key', 'in-band OUTCOME_UNKNOWN · 503 SERVICE_UNAVAILABLE']],
};

const diagramLine = (mark: string, name: string, does: string, ends?: string): string =>
  ` ${mark} ${name.padEnd(20)} ${ends === undefined ? does : `${does.padEnd(29)} ─▶ ${ends}`}`.trimEnd();

/** The life of a call as a diagram, from the names of its steps. */
function callDiagram(names: readonly string[]): string {
  const steps = names.flatMap((name) =>
    STEP_NOTES[name]!.map(([does, ends], line) => diagramLine(line ? '│ ' : '├─', line ? '' : name, does, ends)),
  );
  return [
    ' entry point     HTTP, MCP, NATS or the queue of asynchronous calls',
    ' │               authenticate                    ─▶ 401 UNAUTHENTICATED',
    ' │               read the request                ─▶ 400 REQUEST_INVALID · 413 PAYLOAD_TOO_LARGE',
    ...steps,
    diagramLine('└─', 'executor', 'NATS or queue', '502 EXECUTOR_UNAVAILABLE · 503 QUEUE_FULL'),
    diagramLine('  ', '', 'the tool itself', 'in-band TOOL_ERROR, UPSTREAM_ERROR, SANDBOX_ERROR, …'),
    ' entry point     renders CallResult or ToolError in its protocol',
  ].join('\n');
}

describe('the life of a call', () => {
  const { names } = callSteps(memoryPorts([], new ScriptedExecutor()));

  it('has a note for every step', () => expect(Object.keys(STEP_NOTES).toSorted()).toEqual(names.toSorted()));

  it('is drawn from the steps', async () => {
    const text = readFileSync(`${ROOT}docs/call-lifecycle.md`, 'utf8');
    await same(
      text.replace(/```\n[\s\S]*?```/, () => `\`\`\`\n${callDiagram(names)}\n\`\`\``),
      'call-lifecycle.md',
    );
  });
});

describe('examples', () => {
  const tools = MANIFEST.map((tool) =>
    toToolDefinition(tool, toolsetSource('builtin', getToolset(tool)), { rateLimits: {}, costsMicroUsd: {} }),
  );
  const block = (file: string, language: string): string =>
    readFileSync(`${ROOT}docs/${file}`, 'utf8').split(`\`\`\`${language}\n`)[1]!.split('```')[0]!;

  it('the stub in programs.md is that of the tool, with its description cut', () => {
    const [stub] = tools.filter(({ name }) => name === 'calculator').map((tool) => toolStubs([tool as RegisteredTool]));
    expect(block('programs.md', 'py')).toBe(stub!.replace(/(?<="""[^.]*\.).*"""/s, ' …"""'));
  });

  it('the tags in toolsets.md are of tools', () => {
    const tags = [...block('toolsets.md', 'yaml').matchAll(/\btags: \[([^\]]*)\]/g)].flatMap(([, list]) =>
      list!.split(', '),
    );
    expect(tags).not.toEqual([]);
    expect(tools.flatMap((tool) => tool.tags ?? [])).toEqual(expect.arrayContaining(tags));
  });
});

describe('reference pages', () => {
  it('errors', async () => {
    const rows = (origin: ErrorEntry['origin']) =>
      Object.entries(CATALOGUE as Record<string, ErrorEntry>)
        .filter(([, entry]) => entry.origin === origin)
        .map(([code, entry]) => [
          `\`${code}\``,
          String(entry.http),
          entry.class,
          entry.retryable ? 'yes' : 'no',
          { nothing: 'no', cost: 'yes', reservation: 'what was reserved' }[entry.charge],
        ]);
    const head = ['Code', 'HTTP', 'Class', 'Retryable', 'Charged'];
    const tables = (['request', 'execution'] as const).map((origin) => table(head, rows(origin)));
    const text = readFileSync(`${ROOT}docs/errors.md`, 'utf8');
    await same(
      text.replaceAll(/(?:^\|.*\n)+/gm, () => `${tables.shift()}\n`),
      'errors.md',
    );
    const codes = Object.keys(CATALOGUE) as ErrorCode[];
    const paragraphs = [...text.matchAll(/^### `([A-Z_]+)`\n\n(.{60,}(?:\n.+)*)$/gm)].map(([, code]) => code);
    expect(paragraphs).toEqual(codes);
    for (const code of codes) expect(docUrl(code)).toBe(`/docs/errors#${code.toLowerCase()}`);
  });

  it('the table of charges in budgets.md has every code of a failure once, with its charge', () => {
    const charges: Record<string, ErrorEntry['charge']> = {
      nothing: 'nothing',
      'its cost': 'cost',
      'what was reserved': 'reservation',
    };
    const listed = readFileSync(`${ROOT}docs/budgets.md`, 'utf8')
      .split('\n')
      .map((line) => line.split('|').map((part) => part.trim()))
      .flatMap(([, , codes = '', charge = '']) =>
        charges[charge] ? [...codes.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => `${code}: ${charges[charge]}`) : [],
      );
    const failures = Object.entries(CATALOGUE as Record<string, ErrorEntry>)
      .filter(([, entry]) => entry.origin === 'execution')
      .map(([code, entry]) => `${code}: ${entry.charge}`);
    expect(listed.toSorted()).toEqual(failures.toSorted());
  });

  it('fields of a call', async () => {
    const bounds = (schema: (typeof CALL_FIELDS)[keyof typeof CALL_FIELDS]['schema']): string => {
      if ('enum' in schema) return schema.enum.map((value) => `\`${value}\``).join(' or ');
      if (schema.type === 'string') return `string, ${schema.minLength} to ${schema.maxLength} characters`;
      return schema.type === 'integer' ? `integer, ${schema.minimum} to ${schema.maximum}` : schema.type;
    };
    const places: [string, string[]][] = [
      ['HTTP', ['http']],
      ['NATS', ['nats']],
      ['MCP `_meta`', ['mcp']],
      ['batch', ['http-batch', 'nats-batch']],
      ['item', ['batch-item']],
    ];
    const rows = Object.entries(CALL_FIELDS).map(([name, { schema, on, description }]) => {
      const where = places.flatMap(([place, entries]) => {
        const read = entries.filter((entry) => (on as readonly string[]).includes(entry));
        if (read.length === 0) return [];
        return [read.length === entries.length ? place : `${place} (NATS)`];
      });
      return [`\`${name}\``, bounds(schema), where.join(', '), description];
    });
    await same(
      page(
        'Fields of a call',
        'Fields of a call next to its tool and arguments. *Item* is one call of a batch; its fields override those of the\nbatch. A wrong value, and except in `_meta` an unknown name, is refused with `REQUEST_INVALID` (MCP: -32602). Ids must not\ncontain control characters.',
        CALL_WITH_FIELDS,
        table(['Field', 'Value', 'Read in', 'Meaning'], rows),
      ),
      'call-fields.md',
    );
  });

  it('tool settings', async () => {
    const rows = Object.entries(TOOL_SETTINGS).map(([name, { fallback, description }]) => [
      `\`${name}\``,
      fallback,
      description,
    ]);
    await same(
      page(
        'Tool settings',
        'Every tool accepts the same settings: a builtin tool or plugin, an [MCP server](mcp-servers.md), a function endpoint, or\nan operation of an [OpenAPI document](openapi.md).',
        table(['Setting', 'Default', 'Meaning'], rows),
        '## Where to set them',
        table(
          ['Where', 'Applies to'],
          [
            [
              'fields of an entry of `mcp_servers`, `mcp_tools` or `openapi_tools`, or of a registration (`POST /api/v1/sources/mcp`, `/api/v1/sources/openapi`, `/tools/mcp/register`, `/tools/openapi/register`)',
              'all tools of the source',
            ],
            ['`overrides` there: name patterns with settings', 'the tools of the source that the pattern matches'],
            [
              '`tool_settings` in the configuration file: name patterns with settings',
              'the tools of the fleet that the pattern matches, from every source and of every tenant',
            ],
            [
              '`defineTool` ([write a tool](write-a-tool.md)), in camel case: `rateLimitMode`, `stubData`',
              'a builtin tool or a plugin',
            ],
          ],
        ),
        [
          '```yaml',
          'mcp_servers:',
          '  crm:',
          '    url: https://crm.example.com/mcp',
          '    rate_limit: 120                                   # of every tool of the server',
          '    overrides:',
          '      "get_*": { idempotent: true, cache_ttl_seconds: 60 }',
          '      "delete_*": { dangerous: true }',
          '      get_rates: { stub_data: { EUR: 1 } }',
          'tool_settings:                                        # tools of all sources, also builtin ones',
          '  fetch_page: { requires_auth: true, rate_limit_mode: wait }',
          '  execute_python: { memory_limit_mb: 256 }',
          '  "*_delete_*": { dangerous: true }',
          '```',
        ].join('\n'),
        '## Authentication',
        'A tool with `requires_auth`, listed for everyone, refuses callers without a credential with 403 `PERMISSION_DENIED`: NATS senders without a key, also on\n`tool.call.<tenant>` and in local mode, and requests without a key under `GATEWAY_SKIP_AUTH`. Programs and sub-agents count as their caller.',
        '## Patterns',
        'In a pattern `*` stands for any characters. `overrides` match the name in the fleet (`crm_get_rates`) or at\nthe source (`get_rates`, an operationId); `tool_settings` match the name in the fleet. The most specific pattern\nwins for each setting: an exact name, then the pattern with more characters. An `overrides` pattern without a tool is\nreported in the response of the registration and in the log.',
        'A remote server chooses names: protect all tools and open the known ones with\n`overrides: { "*": { dangerous: true }, "get_*": { dangerous: false } }`, or list them in `tools` or `operations`.',
        '## Precedence',
        '`tool_settings`, then `overrides`, then fields of the entry, then what the tool itself declares, including hints of a remote server. Two\nrules protect what is declared:\n\n- `dangerous` and `requires_auth` of a tool itself stay: a setting cannot lift `dangerous` from `file_delete`. Likewise, `tool_settings`\n  cannot lift what an entry and its `overrides` set.\n- `cache_ttl_seconds` of an entry does not apply to OpenAPI methods that write (`POST`, `PUT`, `PATCH`, `DELETE`); an override that\n  matches the operation does.',
        'Changing settings never quarantines a tool. They apply when the source is registered again: an\nentry of the file when it changes, `tool_settings` after a restart of the registry. An unknown setting or a wrong value refuses the\nregistration (400 `REQUEST_INVALID`) or is a [fault](configuration.md#the-configuration-file) of the file.',
        '## Repeated calls',
        'A result answers another call for `cache_ttl_seconds`, else 300 s for `idempotent` builtin tools and plugins, else as the upstream allows with\n`Cache-Control` or `Expires`; otherwise each call runs. `idempotent` of an MCP or OpenAPI tool allows retries only. Within a session a builtin tool\nanswers repeated calls for at least 300 s; `cache_ttl_seconds: 0` and the call field `cache` exempt a tool or a call.',
        '## What the tool receives',
        'Tools of `session_aware` sources receive the session and the user of the call: MCP servers as `io.toolfleet/session-id` and\n`io.toolfleet/user-id` in `_meta`, function endpoints and OpenAPI services as the headers `X-Session-Id` and `X-User-Id`\n(percent-encoded outside printable ASCII), builtin tools in `run.context`. Set `memory_limit_mb` in\nthe entry of a local MCP server (`command`) or for `execute_python` in `tool_settings`.',
      ),
      'tool-settings.md',
    );
  });

  it('subjects', async () => {
    const known: Record<string, string> = {
      toolCall: 'runs a tool; also `tool.call.<tenant>`',
      toolBatch: 'runs several, answers in order',
      toolList: 'the tools the caller may use',
      toolCancel: 'cancels a call by `call_id`',
      toolSpend: 'holds and settles slices of a budget',
      toolResult: 'prefix: `tool.result.<tenant>.<call_id>` carries the end of an asynchronous call',
      execMcpResume: 'prefix: `exec.mcp.resume.<executor>` has answers for a call that this executor holds open',
      execProgress: 'prefix: `exec.progress.<caller>.<token>` carries the progress of one call',
      execMcpChanged: 'published when a remote server says that its tools changed',
      execMcpWatch: 'published by a gateway every 10 s: resources that its clients subscribe to',
      execMcpClaim: 'published by the mcp-executor that subscribes at a source',
      execBuiltin: `prefix: \`exec.builtin.<toolset>\`, toolset one of ${TOOLSETS.join(', ')}`,
      definitionRegister: 'prefix: `registry.definition.register.<toolset>` announces the definitions of a toolset',
      definitionChanged: 'published after every change',
      definitionAnnounce: 'published when the registry starts: sources announce again',
      toolsetChanged: 'published after every change of a toolset',
      grantChanged: 'published when grants changed: gateways and executors forget them',
      userChanged: 'published with the roles of a user, for the keys that the user made',
      recordsEvent: 'prefix: `records.event.<service>` takes the events that this service may report, each stored once',
      api: 'prefix: `api.<service>.<operation>` asks the service that owns a route of the HTTP API, with the caller, path, query and body',
      event: 'prefix: `event.<tenant>.<kind>` carries an event once it is durable',
      mcpAnswer:
        'prefix: `mcp.answer.<gateway>.<question>` brings an answer of an MCP client to the gateway that asked',
      mcpCancel: 'published by a gateway when an MCP client cancels a request that runs on another one',
      mcpSession: 'published by a gateway when subscriptions or the stream of an MCP session changed',
      mcpUpdated: 'published by mcp-executor when a resource that clients subscribe to has changed',
      keyRevoked: 'published by a gateway while a revocation cannot be stored',
      breakerChanged: 'prefix: `breaker.changed.<service>` is published when a breaker opens',
      fleetStatus: 'published every few seconds by every service but the sandbox',
    };
    const subjects = Object.entries(SUBJECTS);
    const rows = subjects.flatMap(([key, subject]) => (known[key] ? [[`\`${subject}\``, known[key]]] : []));
    const attempts = subjects.flatMap(([key, subject]) => (known[key] ? [] : subject));
    const requests = [...attempts, ...Object.keys(REQUESTS)].map((subject) => `\`${subject}\``);
    await same(
      page(
        'Subjects, queues, headers',
        'Bodies are plain JSON in UTF-8, defined in `libs/contracts/src/messages`. A caller in any language needs `tool.*` only.',
        '## NATS subjects\n\n' +
          table(['Subject', 'What'], rows) +
          `\n\nRequests between services: ${requests.join(', ')}.`,
        '## Queues (BullMQ, prefix `{fleet}`)\n\n' +
          'With `QUEUE_SHARDS` a job is under `{fleet}`, `{fleet-01}`, … by its id ([scaling](operations/scaling.md#shards-of-queues)).\n\n' +
          table(
            ['Queue', 'Job id'],
            [
              [`\`${QUEUES.pythonRuns}\``, '`<call_id>-<attempt>`'],
              [`\`${QUEUES.programRuns}\``, '`<call_id>-<attempt>`'],
              [`\`${QUEUES.agentRuns}\``, '`<call_id>-<attempt>`'],
              [`\`${QUEUES.toolCalls}\``, '`<call_id>`'],
            ],
          ),
        `## Headers\n\n${Object.values(HEADERS)
          .map((header) => `\`${header}\``)
          .join(', ')}`,
        '## Sizes in bytes\n\n' +
          table(
            ['What', 'At most'],
            Object.entries(SIZES).map(([key, size]) => [key, String(size)]),
          ),
      ),
      'subjects.md',
    );
  });

  it('events', async () => {
    const rows = Object.entries(EVENTS).map(([kind, { summary, data }]) => [
      `\`${kind}\``,
      summary,
      Object.keys(data['properties'] as object)
        .map((name) => `\`${name}\``)
        .join(', '),
    ]);
    const text = readFileSync(`${ROOT}docs/webhooks.md`, 'utf8');
    const head = ['Kind', 'When', 'Members of `data`; those that do not apply are absent'];
    await same(
      text.replace(
        /(<!-- table: .*? -->\n)[\s\S]*?(<!-- end of table -->)/,
        (_, start: string, end: string) => `${start}\n${table(head, rows)}\n\n${end}`,
      ),
      'webhooks.md',
    );
  });

  it('metrics', async () => {
    const rows = Object.values(METRICS as Record<string, MetricEntry>).map((metric) => [
      `\`${metric.name}\``,
      metric.type,
      metric.labels.map((label) => `\`${label}\``).join(', ') || '–',
      metric.help,
    ]);
    await same(
      page(
        'Metrics',
        'Every service serves the metrics it touches at `/metrics` of its admin port, with those of Node.\nLabel values come from closed lists or from the registry; unknown ones count as `other`.',
        table(['Name', 'Type', 'Labels', 'Meaning'], rows),
      ),
      'metrics.md',
    );
  });

  it('quotas', async () => {
    const stores = { ...TABLES, ...REDIS_KEYS };
    const bound = (how: (typeof stores)[string]): string => {
      if (Array.isArray(how)) return how.map((name) => `\`${name}\``).join(', ');
      const [[key, text] = ['', '']] = Object.entries(how as Record<string, string>);
      return { ends: `ends ${text}`, with: `belongs to ${text}`, operators: `only operators write it: ${text}` }[key]!;
    };
    await same(
      page(
        'Quotas',
        `A full store answers 429 \`QUOTA_EXCEEDED\` with the quota and how to make room, a slot that is not free 503 \`QUEUE_FULL\`.
\`TENANT_QUOTAS\` (\`webhooks=50,sources=500\`), the same for all services, changes quotas with a number for all tenants.`,
        '## Stores',
        table(
          ['Quota', 'Counts', 'Default', 'Per', 'When it is full'],
          Object.entries(QUOTAS).map(([name, { counts, most, per, unit, free, beyond }]: [string, QuotaEntry]) => {
            const limit =
              typeof most === 'number' ? most.toLocaleString('en-US') : /^\d/.test(most) ? most : `\`${most}\``;
            const end = beyond ?? `refused; ${free}`;
            return [`\`${name}\``, counts, unit ? `${limit} ${unit}` : limit, per, end];
          }),
        ),
        '## What bounds each store',
        table(
          ['Table, or start of Redis keys', 'Bounded by'],
          Object.entries(stores).map(([name, how]) => [`\`${name}\``, bound(how)]),
        ),
        '## Slots',
        `A tenant gets at most a multiple of the free slots of a pool, so that every further tenant finds room, and tenants that ask for more share equally.`,
        table(
          ['Slots', 'Maximum', 'Of a tenant alone'],
          Object.values(POOLS).map(({ slots, most, timesFree }) => [
            slots,
            most,
            `${Math.round((100 * timesFree) / (timesFree + 1))} %`,
          ]),
        ),
      ),
      'quotas.md',
    );
  });

  it('configuration', async () => {
    const files = globSync('apps/*/src/*.config.ts', { cwd: ROOT }).toSorted();
    expect(files).toHaveLength(SERVICES.length + 1);
    const rows = new Map<string, SettingRow>();
    const services: string[] = [];
    for (const file of files) {
      const module = (await import(`${ROOT}${file}`)) as Record<string, ServiceConfig>;
      const config = Object.values(module).find((value) => typeof value === 'object' && 'table' in value);
      if (!config) throw new Error(`${file} exports no configuration`);
      services.push(config.service);
      for (const key of documentConfig(config)) {
        const row = rows.get(key.key) ?? { kind: key.kind, defaults: new Map(), meanings: new Map() };
        row.defaults.set(config.service, key.default ?? (key.required ? 'required' : 'unset'));
        row.meanings.set(key.help, key.rule);
        rows.set(key.key, row);
      }
    }
    expect(rows.size).toBeLessThanOrEqual(MAX_SETTINGS);
    const named = [...FIRST_DAY, ...PRODUCTION];
    expect(named).toEqual([...new Set(named)]);
    expect(named.filter((key) => !rows.has(key))).toEqual([]);
    const rest = [...rows.keys()].filter((key) => !named.includes(key)).toSorted();
    const settingsTable = (keys: readonly string[]) =>
      table(
        ['Key', 'Kind', 'Default', 'Services', 'Meaning'],
        keys.map((key) => settingRow(key, rows.get(key)!, services)),
      );
    const sections = [
      `## First day\n\n${settingsTable(FIRST_DAY)}`,
      `## Production\n\n${settingsTable(PRODUCTION)}`,
      `## Rarely\n\n${settingsTable(rest)}`,
    ];
    const fileRows = Object.entries(SECTION_DOCS).map(([section, { help, restart }]) => [
      `\`${section}\``,
      help,
      restart === undefined ? 'within about two seconds' : `after a restart of the ${restart.join(' and the ')}`,
    ]);
    sections.push(`${FLEET_FILE_PAGE}\n\n${table(['Section', 'Contents', 'A change applies'], fileRows)}`);
    sections.push(rolesSection());
    await same(
      page(
        'Configuration',
        'Environment variables, by who needs them. Each service checks its own at start, reports every fault and exits with\n78. `node apps/<service>/dist/main.js --help` prints them. Secrets are read from `KEY` or from the file named by `KEY_FILE`.',
        ...sections,
      ),
      'configuration.md',
    );
  });

  it('asyncapi', async () => {
    const error = {
      type: 'object',
      properties: {
        error: { type: 'string' },
        code: { enum: Object.keys(CATALOGUE) },
        hint: { type: 'string' },
        details: { type: 'object' },
        call_id: { type: 'string' },
        retry_after_ms: { type: 'integer' },
      },
      required: ['error', 'code'],
    };
    const result = {
      type: 'object',
      properties: {
        success: { type: 'boolean' },
        output: {},
        text: { type: 'string' },
        error: { type: ['string', 'null'] },
        metadata: { type: 'object' },
        content: { type: 'array', items: { type: 'object' }, description: 'rich content as MCP has it' },
        execution_time_ms: { type: 'integer' },
        usage: {
          type: 'object',
          properties: {
            tokens: { type: 'integer' },
            cost_usd: { type: 'number' },
            replayed: {
              const: true,
              description: 'present when this is the charge of the first call with the same key',
            },
          },
        },
        call_id: { type: 'string' },
      },
      required: ['success', 'output', 'text', 'error', 'metadata', 'execution_time_ms', 'usage', 'call_id'],
    };
    const accepted = {
      type: 'object',
      properties: { call_id: { type: 'string' }, status: { const: 'accepted' } },
      required: ['call_id', 'status'],
    };
    const record = {
      type: 'object',
      properties: {
        id: { type: 'string' },
        type: { const: 'function' },
        function: { type: 'object', properties: { name: { type: 'string' }, arguments: { type: 'string' } } },
        result: { type: 'string', description: 'JSON text of a result without its content' },
        content: result.properties.content,
        success: { type: 'boolean' },
        skipped: { type: 'boolean' },
        execution_time: { type: 'integer' },
      },
    };
    const vendorResult = {
      type: 'object',
      properties: { type: { enum: ['function_call_output', 'tool_result'] } },
      description: 'what the provider takes back for a function_call or tool_use item',
    };
    const state = {
      type: 'object',
      properties: {
        call_id: { type: 'string' },
        state: { enum: ['accepted', 'claimed', 'succeeded', 'failed', 'cancelled', 'expired', 'outcome_unknown'] },
      },
    };
    const entries = [
      ['toolCall', CALL_SCHEMA, { anyOf: [result, accepted] }],
      ['toolBatch', BATCH_SCHEMA, { type: 'array', items: { anyOf: [record, vendorResult] } }],
      ['toolList', LIST_SCHEMA, { type: 'array', items: { type: 'object' } }],
      ['toolCancel', CANCEL_SCHEMA, state],
    ] as const;
    const headers = {
      type: 'object',
      properties: {
        Authorization: { type: 'string', description: 'Bearer <key>' },
        [HEADERS.remainingMs]: { type: 'string', description: 'milliseconds the caller waits' },
        [HEADERS.traceparent]: { type: 'string' },
      },
    };
    const channels: Record<string, object> = {};
    const operations: Record<string, object> = {};
    for (const [key, request, reply] of entries) {
      for (const [name, address, parameters] of [
        [key, SUBJECTS[key], undefined],
        [
          `${key}OfTenant`,
          `${SUBJECTS[key]}.{tenant}`,
          { tenant: { description: 'the tenant whose NATS user publishes' } },
        ],
      ] as const) {
        channels[name] = {
          address,
          ...(parameters ? { parameters } : {}),
          messages: { request: { headers, payload: request } },
        };
        channels[`${name}Reply`] = {
          address: null,
          messages: {
            reply: { payload: reply },
            error: {
              headers: {
                type: 'object',
                properties: { 'Nats-Service-Error': { type: 'string' }, 'Nats-Service-Error-Code': { type: 'string' } },
              },
              payload: error,
            },
          },
        };
        operations[name] = {
          action: 'receive',
          channel: { $ref: `#/channels/${name}` },
          reply: { channel: { $ref: `#/channels/${name}Reply` } },
        };
      }
    }
    channels.toolResult = {
      address: `${SUBJECTS.toolResult}.{tenant}.{call_id}`,
      parameters: { tenant: {}, call_id: {} },
      messages: {
        result: {
          summary: 'with the result if the call was sent without a key; metadata.result_omitted says why there is none',
          payload: result,
        },
      },
    };
    operations.toolResult = { action: 'send', channel: { $ref: '#/channels/toolResult' } };
    channels.event = {
      address: `${SUBJECTS.event}.{tenant}.{kind}`,
      parameters: { tenant: {}, kind: { enum: Object.keys(EVENTS) } },
      messages: Object.fromEntries(
        Object.entries(EVENTS).map(([kind, { summary, data }]) => [
          kind,
          {
            summary,
            payload: {
              type: 'object',
              properties: {
                id: { type: 'string', description: 'the same for the same event, however often it is sent' },
                type: { const: kind },
                timestamp: { type: 'string', format: 'date-time' },
                tenant_id: { type: 'string' },
                data,
              },
              required: ['id', 'type', 'timestamp', 'tenant_id', 'data'],
            },
          },
        ]),
      ),
    };
    operations.event = { action: 'send', channel: { $ref: '#/channels/event' } };
    const document = {
      asyncapi: '3.0.0',
      info: {
        title: 'toolfleet',
        version: '0.1.0',
        description: 'Tool calls over NATS request/reply. See docs/nats-api.md.',
      },
      defaultContentType: 'application/json',
      channels,
      operations,
    };
    await same(`${JSON.stringify(document, null, 2)}\n`, 'asyncapi.json');
  });
});

/** Lines of production source by package, and which part of the repository each package is. */
function packageSizes(): { folder: string; part: string; lines: number; about: string }[] {
  const sizes = new Map<string, number>();
  for (const path of globSync('{apps,libs}/**/*.{ts,tsx}', { cwd: ROOT, exclude: ['**/{dist,node_modules}/**'] }))
    if (isProduction(path)) {
      const lines = countLines(readFileSync(`${ROOT}${path}`, 'utf8'));
      sizes.set(packageOf(path), (sizes.get(packageOf(path)) ?? 0) + lines);
    }
  return [...sizes].map(([folder, lines]) => {
    const { description } = JSON.parse(readFileSync(`${ROOT}${folder}/package.json`, 'utf8')) as {
      description: string;
    };
    return { folder, part: partOf(`${folder}/src/index.ts`), lines, about: description };
  });
}

/** A stated size holds until it is wrong by more than this share, so that the page changes with the map and not with each commit. */
const SIZE_TOLERANCE = 0.15;
const SIZE_STEP = 100;

describe('docs/map.md', () => {
  it('has every package with its size', async () => {
    const before = readFileSync(`${ROOT}docs/map.md`, 'utf8');
    const packages = packageSizes();
    const stated = (key: string, lines: number): number => {
      const known = Number(new RegExp(`^\\| ${key} \\| ([\\d,]+) `, 'm').exec(before)?.[1]?.replaceAll(',', ''));
      const isFresh = Math.abs(known - lines) <= Math.max(SIZE_STEP, SIZE_TOLERANCE * lines);
      return isFresh ? known : Math.max(1, Math.round(lines / SIZE_STEP)) * SIZE_STEP;
    };
    const size = (key: string, lines: number) => stated(key, lines).toLocaleString('en-US');
    const rowsOf = (part: string, top: string) =>
      packages
        .filter(({ folder, part: own }) => own === part && folder.startsWith(top))
        .map(({ folder, lines, about }) => {
          const [shown, key] =
            part === 'kits'
              ? [`[${folder}](../${folder}/README.md)`, `\\[${folder}\\]\\(.*\\)`]
              : [`\`${folder}\``, `\`${folder}\``];
          return { size: stated(key, lines), row: [shown, size(key, lines), about] };
        })
        .toSorted((a, b) => b.size - a.size || a.row[0]!.localeCompare(b.row[0]!))
        .map(({ row }) => row);
    const sum = (part: string) =>
      packages.reduce((total, { part: own, lines }) => total + (own === part ? lines : 0), 0);
    const head = ['Package', 'Lines', 'What it is'];
    await same(
      page(
        'Map of the source',
        'What to read, and what to skip until you need it. Lines are TypeScript of apps and libs without specs, rounded; `npm run code-shape` has the exact figures.',
        table(
          ['Part', 'Lines', 'Read it'],
          [
            ['core', size('core', sum('core')), 'to change what the product does'],
            ['pack', size('pack', sum('pack')), 'to change a builtin tool; the tools know only the API of plugins'],
            [
              'kits',
              size('kits', sum('kits')),
              'to change Rego, OpenAPI, JSON Schema, outgoing HTTP or the sandbox; they do not know the product',
            ],
          ],
        ),
        '## Read first',
        [
          '[call-lifecycle.md](call-lifecycle.md): every step of a call, in order, and how a call can end there.',
          '`libs/engine/src/execute-call.ts`: the same as code; one file for each step in `libs/engine/src/steps`.',
          '`libs/contracts/src/resources`: the routes of the API; `libs/contracts/src/errors/catalogue.ts`: all errors.',
          '`apps/gateway/src/wiring`: how a service is put together from the libs.',
          '[CONTRIBUTING.md](../CONTRIBUTING.md), "Where is …": the file for a behavior.',
        ]
          .map((line, index) => `${index + 1}. ${line}`)
          .join('\n'),
        '## Core: services',
        table(head, rowsOf('core', 'apps/')),
        '## Core: libs',
        table(head, rowsOf('core', 'libs/')),
        '## Pack',
        table(head, rowsOf('pack', 'libs/')),
        '## Kits',
        'Each is a package of its own with a README, an example and no import of the product.',
        table(head, rowsOf('kits', 'libs/')),
      ),
      'map.md',
    );
  });
});
