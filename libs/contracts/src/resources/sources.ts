import type { Json, JsonObject } from '@toolfleet/base/json';
import {
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
  anything,
  type Optional,
  type RecordOf,
  type Schema,
  type Value,
} from '../json-schema.js';
import { MCP_REVISIONS, START_SECONDS } from '../tool-definition.js';
import { TOOL_SETTINGS } from '../tool-settings.js';
import { USER_AUTH_SCHEMA } from '../user-auth.js';
import { answer, routes } from './route.js';

export const PENDING_APPROVAL = named(
  'PendingApproval',
  record(
    {
      name: text(),
      reason: text('What changed since the approval, or what looks suspicious'),
      pending_revision: text('Revision to name in the decision'),
    },
    'A tool of a source that awaits the approval of an administrator',
  ),
);
export type PendingApproval = Value<typeof PENDING_APPROVAL>;

const REFUSED_TOOL = named(
  'RefusedTool',
  record({ name: text(), code: text(), message: text() }, 'A definition that could not be registered, and why'),
);
export type RefusedTool = Value<typeof REFUSED_TOOL>;

const KINDS = ['openapi', 'mcp', 'builtin', 'plugin'] as const;

/** States of a source. */
const STATE = choice(
  ['pending', 'ok', 'failed', 'auth_failed', 'refused', 'unavailable'],
  'pending: not read yet. ok: the last look succeeded; for sources of executors: a process announces the tools. ' +
    'failed: the last look failed; the tools it gave before stay listed. auth_failed: the MCP server rejected the credential of the ' +
    'fleet. refused: its entry of the configuration file is invalid and ignored. unavailable: no process announces the tools',
);
export type SourceState = Value<typeof STATE>;

const SOURCE_STATUS = named(
  'SourceStatus',
  record(
    {
      id: text('kind/name, of a tenant kind/name@tenant: the path of the source below /api/v1/sources'),
      kind: choice(KINDS),
      name: text('Name in the configuration file or the registration'),
      tenant: nullable(text(), 'The only tenant that sees the tools; null: shared with all tenants'),
      origin: choice(
        ['config', 'api', 'executor'],
        'Configuration file, a registration, or a process that announces it',
      ),
      location: nullable(
        text(),
        'URL, file or command, without credentials and query; null for inline documents and executors',
      ),
      state: STATE,
      tool_count: integer('Number of its tools, quarantined ones included'),
      quarantined: list(PENDING_APPROVAL),
      last_look_at: nullable(instant()),
      last_success_at: nullable(instant(), 'The last look that succeeded'),
      last_error: nullable(text(), 'Error of the last look; null when it succeeded'),
      next_look_at: nullable(instant(), 'Null: it is not read again by itself'),
      protocol_version: maybe(text('Revision of MCP that the server used when its tools were last listed')),
      protocol_switch: maybe(
        record(
          { from: text(), at: instant() },
          'The last time the server was found to use another revision than before',
        ),
      ),
      tools: maybe(list(text(), 'Names of all tools, quarantined ones included; only in the answer for one source')),
      refused: maybe(list(REFUSED_TOOL, 'Tools of the last look that could not be registered; at most 50')),
      registration: maybe(
        object(
          'The fields of a registration, secrets as ${kept}, the SHA-256 of an inline document in its place; only in the answer for one source',
        ),
      ),
      notes: maybe(list(text(), 'What an administrator should know about the tools; at most 50')),
    },
    'A source of tools. Instants of a source that an executor announces are null',
  ),
);
export type SourceStatus = Value<typeof SOURCE_STATUS>;

const QUARANTINED_TOOL = named(
  'QuarantinedTool',
  record({
    name: text(),
    source: record({ kind: choice(KINDS), name: text() }),
    reason: text(),
    since_at: integer('Milliseconds since 1970'),
    pending_revision: text('Revision that awaits approval'),
    approved_revision: nullable(text(), 'Null when the tool was never approved'),
    rejected: maybe(record({ at: integer(), by: text() }, 'Present when an administrator rejected this revision')),
    diff: list(record({ field: text(), before: anything(), after: anything() }), 'Changed pinned fields'),
    diff_omitted: maybe(
      choice([true], 'The answer would be too large with `diff`; it is included once other tools have been decided'),
    ),
  }),
);
export type QuarantinedTool = Value<typeof QUARANTINED_TOOL>;

/** Settings of all tools of a source; the memory limit belongs to local processes, not startable by registrations. */
const SETTINGS: Record<string, Optional<Json>> = Object.fromEntries(
  Object.entries(TOOL_SETTINGS).flatMap(([name, { schema, description }]) =>
    name === 'memory_limit_mb' ? [] : [[name, maybe({ ...schema, description })]],
  ),
);
/** Fields of both kinds of sources. */
const COMMON_FIELDS = {
  pin: maybe(choice(['refuse', 'warn', 'off'], 'What happens to changed tools: held for approval, logged, accepted')),
  /** Default `refuse`; `accept` where changes pass (`trusted`, `pin`). */
  new_tools: maybe(
    choice(['refuse', 'accept'], 'What happens to tools that a known source adds: held for approval, or accepted'),
  ),
  category: maybe(text()),
  ...SETTINGS,
  overrides: maybe(
    dictionary<JsonObject>(
      closed(SETTINGS) as Schema<JsonObject>,
      'Settings by name pattern, where * is any characters; the more specific pattern wins',
    ),
  ),
  auth: maybe(
    record(
      { user: USER_AUTH_SCHEMA as Schema<JsonObject> },
      'Calls act upstream as the calling user, with a credential of that user',
    ),
  ),
  visibility: maybe(choice(['tenant', 'fleet'], 'Owner of the tools; default tenant; fleet needs an operator')),
};
const DOCUMENT_FIELDS = {
  spec_url: maybe(text()),
  spec_inline: maybe(text()),
  base_url: maybe(text()),
  operations: maybe(list(text())),
  tags: maybe(list(text())),
};
/** Reads a document without registering it. */
export type OpenApiValidate = RecordOf<typeof DOCUMENT_FIELDS>;
const OPENAPI_FIELDS = {
  name: text(),
  ...DOCUMENT_FIELDS,
  name_prefix: maybe(text()),
  auth_type: maybe(choice(['none', 'api_key', 'bearer', 'basic', 'oauth2'])),
  auth_config: maybe(object()),
  extra_headers: maybe(object()),
  base_cost_per_use: maybe(number('USD')),
  max_response_bytes: maybe(integer()),
  vendor_adapter: maybe(text()),
  refresh_seconds: maybe(number('Time between two reads of the document; 0: never again')),
};
const OPENAPI_SOURCE: Schema<JsonObject> = named<JsonObject>(
  'OpenApiSource',
  closed({ ...OPENAPI_FIELDS, ...COMMON_FIELDS }),
);
const MCP_FIELDS = {
  name: text(),
  url: text(),
  transport: maybe(choice(['auto', 'streamable-http', 'function-args'])),
  func_name: maybe(text('Registers one {"function", "args"} endpoint')),
  description: maybe(text()),
  parameters: maybe(list(object())),
  headers: maybe(object()),
  oauth: maybe(object()),
  tools: maybe(list(text())),
  prefix: maybe(text()),
  trusted: maybe(flag()),
  protocol_version: maybe(choice(MCP_REVISIONS, 'Revision of MCP; default: the newest that both sides speak')),
  start_seconds: maybe(number(`Time until the server answers for the first time; default ${START_SECONDS}`)),
  max_response_bytes: maybe(integer()),
  cost_per_use: maybe(number('USD')),
};
const MCP_SOURCE: Schema<JsonObject> = named<JsonObject>('McpSource', closed({ ...MCP_FIELDS, ...COMMON_FIELDS }));
const OPENAPI_EXAMPLE = { name: 'pets', spec_url: 'https://pets.example.com/openapi.json' };
const MCP_EXAMPLE = { name: 'crm', url: 'https://crm.example.com/mcp', prefix: 'crm_' };

const OPENAPI_REGISTERED = record({
  success: flag('false only below /tools: the document has a fault'),
  collection_name: text(),
  operations_registered: list(text()),
  message: text(),
  refused: maybe(list(REFUSED_TOOL, 'Operations and names that could not be registered')),
  warnings: maybe(list(text())),
  quarantined: maybe(list(PENDING_APPROVAL, 'Cannot be called before an administrator approves them')),
  rate_limit: maybe(number()),
  timeout_seconds: maybe(number()),
  max_response_bytes: maybe(integer()),
  code: maybe(text()),
});
export type OpenApiRegisterReply = Value<typeof OPENAPI_REGISTERED>;
const MCP_REGISTERED = record({
  success: flag('false only below /tools: the registration was refused'),
  tool_name: text(),
  registered: maybe(list(text(), 'Names of the registered tools')),
  quarantined: maybe(list(PENDING_APPROVAL, 'Cannot be called before an administrator approves them')),
  message: text(),
  code: maybe(text()),
});
export type McpRegisterReply = Value<typeof MCP_REGISTERED>;
const VALIDATED = record({
  valid: flag(),
  operations_count: integer(),
  operations: list(record({ operation_id: text(), method: text(), path: text(), description: text() })),
  base_url: text(),
  errors: list(text()),
  warnings: maybe(list(text())),
});
export type OpenApiValidateReply = Value<typeof VALIDATED>;

/** The inspected source: the URL of a document or an MCP server, or the text of a document. */
const SOURCE_PLACE = {
  url: maybe(text('Of an OpenAPI document or an MCP server', { pattern: '^https?://[^\\s]+$', maxLength: 2_000 })),
  document: maybe(text('Text of an OpenAPI document, instead of a URL')),
};
const SOURCE_ORIGINS = {
  origins: list(text(undefined, { maxLength: 300 }), 'Such as http://127.0.0.1:4010', { minItems: 1, maxItems: 20 }),
};
const SOURCE_INSPECTION = named(
  'SourceInspection',
  record(
    {
      kind: nullable(choice(['openapi', 'mcp']), 'Null: neither, or it cannot be reached'),
      needs_credential: flag('It asks for a credential before it shows its tools'),
      tools: list(record({ name: text('Operation id, or name at the server'), description: text() }), 'The first 200'),
      tool_count: integer(),
      faults: list(text(), 'Why there are no tools, or fewer'),
      notes: list(text(), 'Warnings about the document'),
      blocked: list(text(), 'Origins that the egress guard refuses'),
    },
    'What a URL or document would give as a source',
  ),
);
/** Findings about a URL or document as a source. */
export type SourceInspection = Value<typeof SOURCE_INSPECTION>;

const REFUSALS = [
  'SPEC_INVALID',
  'SOURCE_REFUSED',
  'TOOL_NAME_CONFLICT',
  'QUOTA_EXCEEDED',
  'DEADLINE_EXCEEDED',
] as const;
const SOURCE_PATH = { kind: choice(KINDS), name: text('Name of the source, name@tenant for one of another tenant') };
const OWNER = record({
  visibility: maybe(choice(['tenant', 'fleet'], 'fleet for a source shared with all tenants; needs an operator')),
});
const PREVIEW = record({ preview: maybe(flag('Answers with the names the tools would have, and registers nothing')) });
const DECISION = closed({ pending_revision: text('The revision that was shown') });
const DECISION_EXAMPLE = { pending_revision: '3f1c0f0e9d2b4a57' };

/** Time to fetch and convert a large document. */
const LOOK_SECONDS = 60;
/** Time to wait for a server with the largest `start_seconds`, and for its lists. */
const SERVER_SECONDS = 270;

export const SOURCE_ROUTES = routes({ owner: 'registry', tag: 'sources', access: 'registrar' })({
  'GET /api/v1/sources': {
    id: 'listSources',
    summary: "Sources of tools and their last look: of the administrator's tenant, for operators all",
    answers: { 200: answer('By id, without names of tools', list(SOURCE_STATUS)) },
  },
  'POST /api/v1/sources/openapi': {
    id: 'registerOpenApi',
    seconds: LOOK_SECONDS,
    summary:
      'Registers the operations of an OpenAPI document as tools. ${kept} keeps a secret of the registration before, its spec_inline the document',
    query: PREVIEW,
    body: OPENAPI_SOURCE,
    readsBody: true,
    example: OPENAPI_EXAMPLE,
    audit: ['name', 'visibility'],
    answers: { 201: answer('Registered, with the operations that were refused', OPENAPI_REGISTERED) },
    errors: REFUSALS,
  },
  'POST /api/v1/sources/mcp': {
    id: 'registerMcp',
    seconds: SERVER_SECONDS,
    summary:
      'Registers the tools of an MCP server, or one {"function", "args"} endpoint. ${kept} keeps a secret of the registration before',
    query: PREVIEW,
    body: MCP_SOURCE,
    readsBody: true,
    example: MCP_EXAMPLE,
    audit: ['name', 'visibility'],
    answers: { 201: answer('Registered', MCP_REGISTERED) },
    errors: REFUSALS,
  },
  'POST /api/v1/sources/inspect': {
    id: 'inspectSource',
    seconds: LOOK_SECONDS,
    summary: 'Finds out what a URL or a document is, with its tools and faults, and registers nothing',
    body: closed(SOURCE_PLACE),
    example: { url: 'https://pets.example.com/openapi.json' },
    audit: 'none',
    answers: { 200: answer('What was found', SOURCE_INSPECTION) },
    errors: ['DEADLINE_EXCEEDED'],
  },
  'POST /api/v1/sources/allow': {
    id: 'allowOrigins',
    access: 'operate_fleet',
    summary:
      'Lets the fleet that `npm start` runs connect to origins; for any other fleet its operator sets EGRESS_ALLOWED_ENDPOINTS',
    body: closed(SOURCE_ORIGINS),
    example: { origins: ['http://127.0.0.1:4010'] },
    audit: ['origins'],
    answers: { 200: answer('Allowed; services notice within a second', record({ origins: list(text()) })) },
  },
  'GET /api/v1/sources/{kind}/{name}': {
    id: 'getSource',
    summary: 'One source with its tools and what its last look refused',
    path: SOURCE_PATH,
    query: OWNER,
    answers: { 200: answer('The source', SOURCE_STATUS) },
  },
  'DELETE /api/v1/sources/{kind}/{name}': {
    id: 'retireSource',
    summary: 'Removes a source that was registered at run time, with its tools',
    path: SOURCE_PATH,
    query: OWNER,
    answers: { 200: answer('Its tools', record({ removed: list(text()) })) },
  },
  'POST /api/v1/sources/{kind}/{name}/refresh': {
    id: 'refreshSource',
    seconds: SERVER_SECONDS,
    summary: "Reads a document, or requests a server's tools, now",
    path: SOURCE_PATH,
    query: OWNER,
    answers: { 200: answer('The source after the look, which may have failed', SOURCE_STATUS) },
    errors: REFUSALS,
  },
});

export const QUARANTINE_ROUTES = routes({ owner: 'registry', tag: 'sources', access: 'approve_tools' })({
  'GET /api/v1/quarantine': {
    id: 'listQuarantine',
    summary: 'Remote tools that changed after their approval, with the changes',
    answers: { 200: answer('Tools', list(QUARANTINED_TOOL)) },
  },
  'POST /api/v1/quarantine/{name}/approve': {
    id: 'approveTool',
    summary: 'Approves exactly the revision that was shown',
    body: DECISION,
    example: DECISION_EXAMPLE,
    audit: ['pending_revision'],
    answers: { 200: answer('Approved', record({ name: text(), revision: text() })) },
  },
  'POST /api/v1/quarantine/{name}/reject': {
    id: 'rejectTool',
    summary: 'Keeps it quarantined until its server serves another revision',
    body: DECISION,
    example: DECISION_EXAMPLE,
    audit: ['pending_revision'],
    answers: { 200: answer('Rejected', record({ name: text() })) },
  },
});

export const SHANNON_SOURCE_ROUTES = routes({ owner: 'registry', tag: 'shannon', access: 'registrar' })({
  'POST /tools/openapi/register': {
    id: 'registerOpenApiInBand',
    seconds: LOOK_SECONDS,
    summary: 'As /api/v1/sources/openapi; a refused document is an answer with success: false',
    body: OPENAPI_SOURCE,
    readsBody: true,
    example: OPENAPI_EXAMPLE,
    audit: ['name', 'visibility'],
    answers: { 200: answer('Registered, or the fault', OPENAPI_REGISTERED) },
  },
  'POST /tools/openapi/validate': {
    id: 'validateOpenApi',
    seconds: LOOK_SECONDS,
    summary: 'Reads an OpenAPI document without registering it',
    body: closed(DOCUMENT_FIELDS),
    readsBody: true,
    example: { spec_url: 'https://pets.example.com/openapi.json' },
    audit: 'none',
    answers: { 200: answer('Its operations, or its faults', VALIDATED) },
    errors: REFUSALS,
  },
  'POST /tools/mcp/register': {
    id: 'registerMcpInBand',
    seconds: SERVER_SECONDS,
    summary: 'As /api/v1/sources/mcp; a refused registration is an answer with success: false',
    body: MCP_SOURCE,
    readsBody: true,
    example: MCP_EXAMPLE,
    audit: ['name', 'visibility'],
    answers: { 200: answer('Registered, or the fault', MCP_REGISTERED) },
  },
});
