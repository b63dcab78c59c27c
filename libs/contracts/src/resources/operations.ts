import {
  anything,
  choice,
  closed,
  dictionary,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  number,
  object,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { MCP_MODES } from '../principal.js';
import { RIGHT_NAMES } from '../roles.js';
import { BODY_ACCESS } from './call-bodies.js';
import { answer, empty, events, type Routes } from './route.js';

const ID = { minLength: 1, maxLength: 200 };

const ROLE = named(
  'Role',
  record({
    name: text(),
    rights: list(choice(RIGHT_NAMES), 'What it permits in the tenant of its holder'),
    declared: choice(['built_in', 'config'], 'Whether every fleet has it, or the configuration file of this one'),
    groups: list(text(), 'Groups of the OpenID provider that give it; of sign-ins to the tenant of the caller'),
  }),
);
/** A role of the fleet. */
export type RoleSummary = Value<typeof ROLE>;
const ME = named(
  'Me',
  record({
    tenant_id: text(),
    user_id: text(),
    roles: list(text()),
    rights: list(choice(RIGHT_NAMES), 'What its roles permit'),
    admin: flag('It has every right of the role admin. True for operators as well'),
    operator: flag('It has every right of the role operator'),
    via: text('Kind of credential'),
    key_id: nullable(text()),
    expires_at: nullable(instant('When the credential, or the session of a signed-in user, ends')),
    tools: list(text(), 'Globs of the tools that it may use'),
    toolset: nullable(text()),
    tier: record({
      name: nullable(text()),
      requests_per_minute: integer(),
      requests_per_hour: integer(),
      requests_per_day: integer(),
    }),
    version: text('Of the gateway'),
  }),
);
const SESSION = named(
  'Session',
  record({
    id: text(),
    tenant_id: text(),
    user_id: text(),
    roles: list(text()),
    groups: list(text(), 'Of the provider, as far as the configuration file names them'),
    client: nullable(record({ id: text(), name: nullable(text('As the client calls itself')) }), 'Null: a browser'),
    created_at: instant(),
    expires_at: instant(),
    current: flag('The session of this request'),
  }),
);
/** A sign-in of a person. */
export type UserSession = Value<typeof SESSION>;

/** The caller and its rights. */
export type Me = Value<typeof ME>;

const KIND = choice(['builtin', 'python', 'program', 'result', 'mcp', 'openapi']);
/** Kind of executor that runs a tool. */
export type ToolKind = Value<typeof KIND>;

const METADATA = {
  name: text(),
  version: text(),
  description: text(),
  category: text(),
  author: nullable(text()),
  requires_auth: flag(),
  rate_limit: number('Calls per minute and tenant; 0: no limit'),
  timeout_seconds: number(),
  memory_limit_mb: number(),
  sandboxed: flag(),
  dangerous: flag(),
  session_aware: flag(),
  idempotent: flag('A call may be repeated with the same outcome'),
  has_effects: flag(
    'A call may change something outside. Calls that a tool makes of other tools have their own effects',
  ),
  retry_policy: nullable(object(), 'Null: the default of its kind'),
  rate_limit_mode: choice(['reject', 'wait']),
  cache_ttl_seconds: nullable(number()),
  select: nullable(text(), 'Expression that selects the part of results that callers get; null when they get all'),
  stub_data: anything('Any JSON; null when the tool has none'),
  cost_per_use: number('USD'),
  tags: list(text()),
  input_examples: list(object()),
  source: record({ kind: text(), name: text() }),
  revision: text(),
  available: flag('An executor serves it'),
};
const TOOL_METADATA = record(METADATA);
/** The properties of a tool with their defaults. */
export type ToolMetadata = Value<typeof TOOL_METADATA>;
const CATALOG = {
  ...METADATA,
  kind: KIND,
  shared: flag('Visible to every tenant'),
  callable: flag('The caller may call it'),
  not_callable_because: maybe(record({ code: text(), reason: text() })),
};
const CATALOG_TOOL = named('CatalogTool', record(CATALOG));
/** A tool and whether the caller may call it. */
export type CatalogTool = Value<typeof CATALOG_TOOL>;
const CATALOG_TOOL_DETAIL = named(
  'CatalogToolDetail',
  record({ ...CATALOG, parameters: object(), output_schema: maybe(object()), annotations: object() }),
);
/** A tool with its schemas. */
export type CatalogToolDetail = Value<typeof CATALOG_TOOL_DETAIL>;

const STAGES = record(
  {
    admit_ms: number('Finding the tool, permission, arguments, policy'),
    wait_ms: number('Waiting for a rate limit and between attempts'),
    queue_ms: number('In a queue, before a worker took it'),
    execute_ms: number('In the executor'),
    rest_ms: number('Cache, limits, budget, transport to the executor and back'),
  },
  'Milliseconds that the call spent in each stage',
);
/** Milliseconds that a finished call spent in each stage. */
export type CallStages = Value<typeof STAGES>;
const CALL_OUTCOME = choice(
  ['success', 'tool_error', 'refused', 'cancelled', 'system_error'],
  'refused before its tool ran, cancelled by its caller, tool_error because of the tool or its upstream, system_error because of the fleet',
);
/** How a call ended. Only `system_error` uses up the error budget. */
export type CallOutcome = Value<typeof CALL_OUTCOME>;
const RETRIED = record({
  attempt: integer('Counted from 1'),
  error: text('Message of its failure, without values that the caller sent'),
  delay_ms: number('Wait before the next attempt'),
});
/** An attempt that failed and was made again. */
export type RetriedAttempt = Value<typeof RETRIED>;

const OUTCOMES = record(
  {
    transport: choice(['not_sent', 'delivered', 'failed', 'unknown'], 'Whether the executor or upstream was reached'),
    protocol: choice(['none', 'ok', 'failed'], 'Whether it answered as its protocol demands'),
    tool: choice(['none', 'ok', 'failed'], 'Whether the tool did what it was asked'),
  },
  'A call that ended without its tool, such as a refusal or a cached result, has `not_sent` and `none`',
);
/** How far a call got, level by level. */
export type CallOutcomes = Value<typeof OUTCOMES>;
const FINISHED_CALL = named(
  'FinishedCall',
  record(
    {
      cursor: text('Increases with the time of recording'),
      call_id: text(),
      parent_call_id: maybe(text('The call of the tool that made this one')),
      request_id: maybe(text()),
      idempotency_key: maybe(text()),
      replay_of: maybe(
        text('The call that it repeats: the one with the same idempotency key, or the one that it ran again'),
      ),
      ended_at: instant(),
      tenant_id: text(),
      user_id: text(),
      key_id: maybe(text('Id of the API key that made it')),
      via: maybe(text('How its caller authenticated')),
      roles: maybe(list(text(), 'Roles of its caller')),
      agent_id: maybe(text()),
      task_id: maybe(text()),
      tool: text(),
      revision: maybe(text('Revision of its definition')),
      source: maybe(text('Source of the tool: mcp/crm')),
      toolset: maybe(text('Toolset that it was called through: support@3')),
      kind: maybe(KIND),
      door: text('Transport that it came through'),
      origin: text(),
      status: CALL_OUTCOME,
      outcomes: OUTCOMES,
      code: maybe(text()),
      error: maybe(text('Message of the failure, without values that the caller sent')),
      provenance: maybe(text()),
      attempts: integer(),
      retried: maybe(list(RETRIED, 'The attempts before the last one; absent when there were none')),
      duration_ms: number(),
      stages: STAGES,
      cost_usd: number(),
      tokens: integer(),
      trace_id: maybe(text()),
      body_bytes: maybe(integer('Size of its arguments and result, where they are kept')),
      approval_grant: maybe(text('Id of the grant of people that let it run without a question')),
    },
    'A finished call, without arguments and results',
  ),
);
/** A finished call, without arguments and results. */
export type FinishedCall = Value<typeof FINISHED_CALL>;
const FINISHED_CALL_DETAIL = record({
  call: FINISHED_CALL,
  body: BODY_ACCESS,
  made: list(FINISHED_CALL, 'Calls that its tool made'),
  logs: maybe(
    record(
      {
        trace_url: maybe(text('Address of the trace')),
        log_search: maybe(text('Address of the log lines, or a command that prints them')),
      },
      'For operators',
    ),
  ),
});
/** A finished call, the calls that its tool made, and for operators where its trace and its log lines are. */
export type FinishedCallDetail = Value<typeof FINISHED_CALL_DETAIL>;

const SLOTS = { busy: integer(), total: integer() };
const SLOT_STATUS = record(SLOTS);
/** How many calls or jobs a process can run at once, and how many it runs. */
export type SlotStatus = Value<typeof SLOT_STATUS>;
const FAULT = {
  subject: text('What it concerns: policy, configuration file, source mcp/crm'),
  message: text(),
  since: instant('When it was noticed'),
};
const SERVICE_FAULT = record(FAULT);
/** Something wrong with the configuration or a policy of a running service, which works on with what it had. */
export type ServiceFault = Value<typeof SERVICE_FAULT>;
const REPORTED_FAULT = record({ ...FAULT, service: text(), instances: integer('Processes that report it') });
/** A fault, and the number of processes of the service that report it. */
export type ReportedFault = Value<typeof REPORTED_FAULT>;
const FLEET = named(
  'Fleet',
  record({
    queues: list(
      record({
        queue: text(),
        jobs: dictionary(integer(), 'Jobs by state'),
        oldest_age_ms: integer('Age of the oldest waiting job'),
        slots: SLOT_STATUS,
        workers: list(record({ worker: text(), ...SLOTS })),
      }),
    ),
    executors: list(
      record({
        service: text(),
        instance: text(),
        slots: SLOT_STATUS,
        age_ms: integer('Milliseconds since its last heartbeat'),
      }),
    ),
    faults: list(REPORTED_FAULT, 'What is wrong with configuration and policies of running services'),
  }),
);
/** Queues, the processes that serve them, and faults. */
export type Fleet = Value<typeof FLEET>;

const BREAKER = {
  key: text('The protected target: a tool at gateways, a base URL or server at executors'),
  tenant_id: maybe(text('The only tenant whose calls are refused; absent: all tenants')),
  state: choice(['half_open', 'open']),
  open_for_ms: integer('Milliseconds until the next probe, 0 when half open'),
};
const BREAKER_STATUS = record(BREAKER);
/** A breaker that is not closed. A duration and no instant, because clocks of different hosts are not comparable. */
export type BreakerStatus = Value<typeof BREAKER_STATUS>;
const TROUBLED_BREAKER = named(
  'Breaker',
  record({
    ...BREAKER,
    protects: choice(['tool', 'target']),
    service: text(),
    instances: integer('Processes that report it'),
  }),
);
/** A breaker that is not closed, and the number of processes that report it. */
export type Breaker = Value<typeof TROUBLED_BREAKER>;

const TOOL_LIMIT = record({
  tool: text(),
  per_minute: number(),
  left: nullable(number(), 'Null for tools past the first 200, whose use is not read'),
});
/** Calls per minute of a tool for a tenant. */
export type ToolLimit = Value<typeof TOOL_LIMIT>;

const STATUS = '(failure|success|tool_error|refused|cancelled|system_error)';

const LEVELS = record({ standard: list(text()), strict: list(text()) });
const PYTHON_MODULES = named(
  'PythonModules',
  record(
    { configured: LEVELS, added: LEVELS },
    'By source and level: from the configuration file, and added at run time',
  ),
);
/** Modules that Python runs may import in addition. */
export type PythonModuleLists = Value<typeof PYTHON_MODULES>;

const PURGE = named(
  'Purge',
  record({
    id: text(),
    tenant_id: text(),
    user_id: nullable(text()),
    dry_run: flag(),
    state: choice(['running', 'done']),
    pseudonym: text('Replaces the tenant or user in the ledger'),
    requested_by: text(),
    requested_at: instant(),
    finished_at: nullable(instant()),
    steps_done: list(text()),
    counts: dictionary(integer(), 'What was removed, or would be, by kind'),
    remaining: dictionary(integer(), 'What was there again at the end: written by calls that ran meanwhile'),
    error: nullable(text(), 'Why the last attempt stopped; it is repeated'),
  }),
);
/** A purge with its progress. */
export type Purge = Value<typeof PURGE>;

const KEY = {
  id: text(),
  tenant_id: text(),
  client: text(),
  user_id: text(),
  roles: list(text()),
  tools: list(text()),
  projects: list(text(), "Projects it may use; empty: its tenant's default project"),
  toolset: nullable(text(), 'Toolset that it is bound to: name, or name@version'),
  tier: nullable(text()),
  mcp_mode: nullable(
    choice(MCP_MODES),
    'What its MCP requests see: every tool, two to find and call tools, or three to write programs; null: as their URL says',
  ),
  parent_id: nullable(text(), 'Id of the key that it was created with'),
  created_by: text('User that created it'),
  created_at: instant(),
  expires_at: nullable(instant()),
  revoked_at: nullable(instant()),
  last_used_at: nullable(instant()),
};
export const API_KEY = named('ApiKey', record(KEY, 'An API key without its secret'));
/** An API key without its secret. */
export type ApiKey = Value<typeof API_KEY>;
const NEW_KEY = named(
  'NewKey',
  closed({
    client: text(undefined, { minLength: 1, maxLength: 64 }),
    tenant_id: maybe(
      text("Default: the caller's tenant; only operators may name another", { minLength: 1, maxLength: 64 }),
    ),
    user_id: maybe(text(undefined, { minLength: 1, maxLength: 128 })),
    roles: maybe(list(text())),
    tools: maybe(list(text(), 'Globs')),
    projects: maybe(list(text(), "Project ids and globs; default: the tenant's default project")),
    toolset: maybe(text('Toolset to bind the key to: name, or name@version', { maxLength: 80 })),
    tier: maybe(text(undefined, { maxLength: 64 })),
    mcp_mode: maybe(
      choice(MCP_MODES, 'The tools that its MCP requests see; absent: as their URL or MCP_SURFACE chooses'),
    ),
    expires_in_seconds: maybe(
      integer("Default: until revoked, or until the caller's credential expires", { minimum: 60 }),
    ),
  }),
);
/** An API key to create. */
export type NewKey = Value<typeof NEW_KEY>;

const CURSOR = { pattern: String.raw`^\d{1,16}$`, title: 'the cursor of a call' };
/** An instant or a day in a request. */
export const INSTANT = {
  pattern: String.raw`^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?Z)?$`,
  title: 'an instant such as 2026-01-31T12:00:00Z, or a day',
};
const CALL_ID = { minLength: 1, maxLength: 200 };
/** What calls can be summed by. */
export const CALL_GROUPS = ['tenant', 'day', 'tool', 'source', 'user', 'key', 'agent', 'status', 'code'] as const;
const CALL_GROUP = `(${CALL_GROUPS.join('|')})`;
const CALL_QUERY = record({
  limit: maybe(integer('Maximum number; default 100', { minimum: 1, maximum: 500 })),
  after: maybe(text('Calls after this cursor: the oldest first', CURSOR)),
  before: maybe(text('Calls before this cursor: the newest ones', CURSOR)),
  from: maybe(text('Ended at this instant or later', INSTANT)),
  to: maybe(text('Ended before this instant', INSTANT)),
  id: maybe(text('Start of the id of the call', CALL_ID)),
  parent_id: maybe(text('Id of the call whose tool made it', CALL_ID)),
  tool: maybe(text(undefined, CALL_ID)),
  source: maybe(text('Source of the tool: mcp/crm', CALL_ID)),
  user_id: maybe(text(undefined, CALL_ID)),
  key_id: maybe(text(undefined, CALL_ID)),
  agent_id: maybe(text(undefined, CALL_ID)),
  tenant_id: maybe(text('For operators', CALL_ID)),
  status: maybe(text('A comma list of statuses; `failure`: all but success', { pattern: `^${STATUS}(,${STATUS})*$` })),
  code: maybe(text('Error code', { pattern: '^[A-Z_]{1,40}$', title: 'an error code' })),
  slower_than_ms: maybe(integer('Took at least as long', { minimum: 0 })),
  dearer_than_usd: maybe(
    text('Cost at least as much', { pattern: String.raw`^\d{1,9}(\.\d{1,6})?$`, title: 'an amount in USD' }),
  ),
  group_by: maybe(
    text('Also sum all matching calls by these; for administrators', {
      pattern: `^${CALL_GROUP}(,${CALL_GROUP})*$`,
      title: `a comma list of ${CALL_GROUPS.join(', ')}`,
    }),
  ),
});
const CALL_SUM = named(
  'CallSum',
  record(
    {
      tenant_id: maybe(text()),
      day: maybe(text('UTC day of the end, 2026-01-31')),
      tool: maybe(text()),
      source: maybe(text()),
      user_id: maybe(text()),
      key_id: maybe(text()),
      agent_id: maybe(text()),
      status: maybe(text()),
      code: maybe(text()),
      calls: integer(),
      failures: integer('Calls that did not succeed'),
      cost_usd: number(),
      tokens: integer(),
      mean_ms: number(),
      p50_ms: number('Median, with two significant digits'),
      p95_ms: number('95 of 100 calls took at most as long, with two significant digits'),
      max_ms: number(),
    },
    'Sum of the calls of one group; it has the members that were grouped by and that its calls have',
  ),
);
/** Sum of the calls of one group. */
export type CallSum = Value<typeof CALL_SUM>;

export const OPERATION_ROUTES = {
  'GET /': {
    id: 'getIndex',
    tag: 'service',
    access: 'public',
    summary: 'The paths of the entry points as JSON; browsers are redirected to the console',
    answers: { 200: answer('Paths by name', dictionary(text())), 302: empty('To the console') },
  },
  'GET /health': {
    id: 'getHealth',
    tag: 'service',
    access: 'public',
    summary: 'Whether the process runs',
    answers: { 200: answer('It runs', record({ status: text() })) },
  },
  'GET /readiness': {
    id: 'getReadiness',
    tag: 'service',
    access: 'public',
    summary: 'Whether this gateway can take calls',
    answers: { 200: answer('Ready', record({ status: text() })), 503: answer('Not ready', record({ status: text() })) },
  },
  'GET /openapi.json': {
    id: 'getApiDocument',
    tag: 'service',
    access: 'public',
    summary: 'This document',
    answers: { 200: answer('OpenAPI 3.1', object()) },
  },
  'GET /api/v1/me': {
    id: 'whoAmI',
    tag: 'keys',
    summary: 'The caller and its rights',
    answers: { 200: answer('The caller', ME) },
  },
  'GET /api/v1/sign-in': {
    id: 'getSignIn',
    tag: 'keys',
    access: 'public',
    summary: 'Whether people can sign in at an OpenID provider (`/auth/sign-in`)',
    answers: {
      200: answer('The sign-in', record({ available: flag(), name: nullable(text('Name of the provider')) })),
    },
  },
  'POST /api/v1/sign-out': {
    id: 'signOut',
    tag: 'keys',
    summary: 'Ends the session of a signed-in user; for other callers nothing happens',
    answers: {
      200: answer(
        'It has ended',
        record({ url: nullable(text('Where the browser ends its session at the provider')) }),
      ),
    },
  },
  'GET /api/v1/sessions': {
    id: 'listSessions',
    tag: 'keys',
    summary:
      'Sign-ins of people that are valid: of browsers, and of OAuth clients they connected. Your own; of the tenant with the right manage_keys',
    query: record({ tenant_id: maybe(text('Another tenant, with the right all_tenants', ID)) }),
    answers: { 200: answer('Newest first, up to 1,000', list(SESSION)) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'DELETE /api/v1/sessions/{id}': {
    id: 'endSession',
    tag: 'keys',
    summary: 'Ends a sign-in within 5 s: your own, or with the right manage_keys one of the tenant',
    query: record({ tenant_id: maybe(text('Another tenant, with the right all_tenants', ID)) }),
    answers: { 204: empty('Ended') },
    errors: ['NOT_FOUND', 'SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/roles': {
    id: 'listRoles',
    tag: 'keys',
    access: 'manage_keys',
    summary: 'Roles that keys and signed-in users can have, with their rights',
    answers: { 200: answer('Built-in roles, the weakest first, then those of the configuration file', list(ROLE)) },
  },
  'GET /api/v1/keys': {
    id: 'listKeys',
    tag: 'keys',
    access: 'manage_keys',
    summary: 'API keys of the tenant, for operators of all tenants; without secrets',
    answers: { 200: answer('Keys', list(API_KEY)) },
  },
  'POST /api/v1/keys': {
    id: 'createKey',
    tag: 'keys',
    access: 'manage_keys',
    summary: 'Creates a key; its token is in this answer only',
    body: NEW_KEY,
    example: { client: 'support-bot', tools: ['calculator', 'crm_*'], expires_in_seconds: 86_400 },
    answers: {
      201: answer(
        'The key with its token',
        record({
          ...KEY,
          token: text('The secret'),
          warnings: list(text(), 'Tools and the toolset of the request that its tenant does not have now'),
        }),
      ),
    },
  },
  'DELETE /api/v1/keys/{id}': {
    id: 'revokeKey',
    tag: 'keys',
    access: 'manage_keys',
    summary: 'Revokes a key within 5 s',
    query: record({ children: maybe(flag('Revokes all keys created with it, directly or through others')) }),
    answers: {
      204: empty('Revoked'),
      200: answer('Ids of the revoked keys (with `children`)', record({ revoked: list(text()) })),
    },
  },
  'GET /api/v1/catalog': {
    id: 'listCatalog',
    tag: 'tools',
    summary: 'Tools with their properties; administrators also see tools that cannot be called from outside',
    answers: { 200: answer('Tools by name, without schemas', list(CATALOG_TOOL)) },
  },
  'GET /api/v1/catalog/{name}': {
    id: 'getCatalogTool',
    tag: 'tools',
    summary: 'One tool with its properties and schemas',
    answers: { 200: answer('The tool', CATALOG_TOOL_DETAIL) },
    errors: ['TOOL_NOT_FOUND'],
  },
  'GET /api/v1/calls': {
    id: 'listCalls',
    tag: 'calls',
    summary: "Finished calls of the caller's tenant, of the fleet for operators; no arguments, no results",
    query: CALL_QUERY,
    answers: {
      200: answer(
        'Oldest first; `enabled: false` if none are recorded',
        record({
          enabled: flag(),
          calls: list(FINISHED_CALL),
          next: maybe(
            text('Goes on as `before`, or as `after` if that was given, also after an empty page; absent at the end'),
          ),
          groups: maybe(
            record({
              rows: list(CALL_SUM, 'Those with the most calls first'),
              total: maybe(CALL_SUM),
              since: maybe(
                instant('Calls that were recorded before are not in the sums: there are too many for one request'),
              ),
            }),
          ),
        }),
      ),
    },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/calls/events': {
    id: 'followCalls',
    tag: 'calls',
    summary: 'Server-sent events `call`, one per finished call',
    headers: record({ 'Last-Event-ID': maybe(text('Cursor of the last call the reader has')) }),
    answers: { 200: events('Event stream; resumes after Last-Event-ID') },
  },
  'GET /api/v1/calls/{id}/record': {
    id: 'getCallRecord',
    tag: 'calls',
    summary: 'A finished call, and the calls that its tool made; no arguments, no results',
    answers: { 200: answer('The call', FINISHED_CALL_DETAIL) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/fleet': {
    id: 'getFleet',
    tag: 'operations',
    access: 'operate_fleet',
    summary: 'Queues with jobs, ages and workers; executors with their slots; faults in configuration and policies',
    answers: { 200: answer('The fleet now', FLEET) },
  },
  'GET /api/v1/breakers': {
    id: 'listBreakers',
    tag: 'operations',
    summary: 'Breakers that are not closed: of tools the caller may use; for operators also of base URLs',
    answers: { 200: answer('Breakers', record({ breakers: list(TROUBLED_BREAKER) })) },
  },
  'GET /api/v1/limits': {
    id: 'listLimits',
    tag: 'usage',
    summary: 'Rate limits of tools, and what the tenant has left; reading takes no tokens',
    answers: { 200: answer('By tool', record({ tools: list(TOOL_LIMIT) })) },
  },
  'GET /api/v1/python/modules': {
    id: 'listPythonModules',
    tag: 'operations',
    access: 'manage_sources',
    summary: 'Modules that Python runs may import in addition',
    answers: { 200: answer('By source and level', PYTHON_MODULES) },
  },
  'PUT /api/v1/python/modules/{level}': {
    id: 'setPythonModules',
    tag: 'operations',
    access: 'operate_fleet',
    summary: 'Replaces the modules added to a level; applies to the next call on every gateway',
    path: { level: choice(['standard', 'strict']) },
    body: closed({ modules: list(text()) }),
    example: { modules: ['decimal'] },
    answers: { 200: answer('By source and level', PYTHON_MODULES) },
  },
  'POST /api/v1/purges': {
    id: 'requestPurge',
    tag: 'operations',
    access: 'purge_users',
    summary: 'Removes all data of a tenant (operator) or of one of its users, or counts them; runs in the background',
    body: closed({
      tenant_id: text(undefined, ID),
      user_id: maybe(text('Only the data of this user', ID)),
      dry_run: maybe(flag('Only counts')),
      confirm: maybe(text('<tenant_id> or <tenant_id>/<user_id>; required unless it is a dry run')),
    }),
    example: { tenant_id: 'acme', user_id: 'ada', dry_run: true },
    answers: { 202: answer('The purge; follow it by its id', PURGE) },
  },
  'GET /api/v1/purges/{id}': {
    id: 'getPurge',
    tag: 'operations',
    access: 'purge_users',
    summary: 'A purge with its progress, for 30 days',
    answers: { 200: answer('The purge', PURGE) },
  },
} as const satisfies Routes;
