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
import { TOOL_LIMITS } from './tools.js';
import { answer, empty, routes } from './route.js';

export const TOOL_KIND = choice(['builtin', 'python', 'program', 'result', 'mcp', 'openapi']);
/** Kind of executor that runs a tool. */
export type ToolKind = Value<typeof TOOL_KIND>;

const METADATA = {
  name: text(),
  version: text(),
  description: text(),
  category: text(),
  author: nullable(text()),
  requires_auth: flag(),
  ...TOOL_LIMITS,
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
  kind: TOOL_KIND,
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
/** Something wrong with the configuration or a policy of a running service that works on with its earlier state. */
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
export type FleetBreaker = Value<typeof TROUBLED_BREAKER>;

const TOOL_LIMIT = record({
  tool: text(),
  per_minute: number(),
  left: nullable(number(), 'Null for tools past the first 200, whose use is not read'),
});
/** Calls per minute of a tool for a tenant. */
export type ToolLimit = Value<typeof TOOL_LIMIT>;

const PURGED = { minLength: 1, maxLength: 200 };
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

/** What needs no credential. */
export const SERVICE_ROUTES = routes({ tag: 'service', access: 'public' })({
  'GET /': {
    id: 'getIndex',
    summary: 'The paths of the entry points as JSON; browsers are redirected to the console',
    answers: { 200: answer('Paths by name', dictionary(text())), 302: empty('To the console') },
  },
  'GET /health': {
    id: 'getHealth',
    summary: 'Whether the process runs',
    answers: { 200: answer('It runs', record({ status: text() })) },
  },
  'GET /readiness': {
    id: 'getReadiness',
    summary: 'Whether this gateway can take calls',
    answers: { 200: answer('Ready', record({ status: text() })), 503: answer('Not ready', record({ status: text() })) },
  },
  'GET /openapi.json': {
    id: 'getApiDocument',
    summary: 'This document',
    answers: { 200: answer('OpenAPI 3.1', object()) },
  },
  'GET /docs/errors': {
    id: 'getErrorPage',
    summary: 'The catalogue of errors as a page, to which doc_url of an error leads',
    answers: { 200: { ...answer('A row for each code', text()), type: 'text/html' } },
  },
});

export const OPERATION_ROUTES = routes({ tag: 'operations' })({
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
  'GET /api/v1/fleet': {
    id: 'getFleet',
    access: 'operate_fleet',
    summary: 'Queues with jobs, ages and workers; executors with their slots; faults in configuration and policies',
    answers: { 200: answer('The fleet now', FLEET) },
  },
  'GET /api/v1/breakers': {
    id: 'listBreakers',
    summary: 'Breakers that are not closed: of tools the caller may use; for operators also of base URLs',
    answers: { 200: answer('Breakers', record({ breakers: list(TROUBLED_BREAKER) })) },
  },
  'GET /api/v1/limits': {
    id: 'listLimits',
    tag: 'usage',
    summary: 'Rate limits of tools, and what the tenant has left; reading takes no tokens',
    answers: { 200: answer('By tool', record({ tools: list(TOOL_LIMIT) })) },
  },
  'POST /api/v1/purges': {
    id: 'requestPurge',
    access: 'purge_users',
    summary: 'Removes all data of a tenant (operator) or of one of its users, or counts them; runs in the background',
    body: closed({
      tenant_id: text(undefined, PURGED),
      user_id: maybe(text('Only the data of this user', PURGED)),
      dry_run: maybe(flag('Only counts')),
      confirm: maybe(text('<tenant_id> or <tenant_id>/<user_id>; required unless it is a dry run')),
    }),
    example: { tenant_id: 'acme', user_id: 'ada', dry_run: true },
    audit: ['tenant_id', 'user_id', 'dry_run'],
    answers: { 202: answer('The purge; follow it by its id', PURGE) },
  },
  'GET /api/v1/purges/{id}': {
    id: 'getPurge',
    access: 'purge_users',
    summary: 'A purge with its progress, for 30 days',
    answers: { 200: answer('The purge', PURGE) },
  },
});
