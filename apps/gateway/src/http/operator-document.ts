import { MCP_MODES, type JsonObject } from '@toolfleet/contracts';
import { answer, inPath, inQuery, list, operation, ref, text } from './openapi-parts.js';

const integer = { type: 'integer' } as const;
const number = { type: 'number' } as const;
const nullable = (type: string): JsonObject => ({ type: [type, 'null'] });
const record = (properties: JsonObject): JsonObject => ({ type: 'object', properties });
const slots = record({ busy: integer, total: integer });
const pendingRevision: JsonObject = {
  type: 'object',
  required: ['pending_revision'],
  properties: { pending_revision: text },
};

/** Paths for administrators and operators. `(admin)` and `(operator)` name the required role; operators may use all of them. */
export const OPERATOR_PATHS: JsonObject = {
  '/api/v1/me': {
    get: operation('whoAmI', {
      summary: 'The caller and its rights',
      answers: { '200': answer('The caller', ref('Me')) },
    }),
  },
  '/api/v1/catalog': {
    get: operation('listCatalog', {
      summary: 'Tools with their properties; administrators also see tools that cannot be called from outside',
      answers: { '200': answer('Tools by name, without schemas', list(ref('CatalogTool'))) },
    }),
  },
  '/api/v1/catalog/{name}': {
    get: operation('getCatalogTool', {
      summary: 'One tool with its properties and schemas',
      parameters: [inPath('name')],
      answers: { '200': answer('The tool', ref('CatalogTool')) },
    }),
  },
  '/api/v1/recent-calls': {
    get: operation('listRecentCalls', {
      summary: "Finished calls of the caller's tenant, of the fleet for operators; no arguments, no results",
      parameters: [
        inQuery('limit', 'Maximum number; default 100', { type: 'integer', minimum: 1, maximum: 500 }),
        inQuery('after', 'Cursor of the last call the reader has'),
      ],
      answers: {
        '200': answer(
          'Oldest first; `enabled: false` if none are recorded',
          record({ enabled: { type: 'boolean' }, calls: list(ref('RecentCall')) }),
        ),
      },
    }),
  },
  '/api/v1/recent-calls/{id}': {
    get: operation('getRecentCall', {
      summary: 'A finished call, and the calls that its tool made; no arguments, no results',
      parameters: [inPath('id')],
      answers: {
        '200': answer(
          'The call',
          record({
            call: ref('RecentCall'),
            made: list(ref('RecentCall')),
            logs: record({ trace_url: text, log_search: text }),
          }),
        ),
      },
    }),
  },
  '/api/v1/recent-calls/events': {
    get: operation('followRecentCalls', {
      summary: 'Server-sent events `call`, one per finished call',
      answers: {
        '200': {
          description: 'Event stream; resumes after Last-Event-ID, the cursor of a call',
          content: { 'text/event-stream': { schema: text } },
        },
      },
    }),
  },
  '/api/v1/fleet': {
    get: operation('getFleet', {
      summary:
        'Queues with jobs, ages and workers; executors with their slots; faults in configuration and policies (operator)',
      answers: { '200': answer('The fleet now', ref('Fleet')) },
    }),
  },
  '/api/v1/breakers': {
    get: operation('listBreakers', {
      summary: 'Breakers that are not closed: of tools the caller may use; for operators also of base URLs',
      answers: { '200': answer('Breakers', record({ breakers: list(ref('Breaker')) })) },
    }),
  },
  '/api/v1/limits': {
    get: operation('listLimits', {
      summary: 'Rate limits of tools, and what the tenant has left; reading takes no tokens',
      answers: {
        '200': answer(
          'By tool',
          record({ tools: list(record({ tool: text, per_minute: integer, left: nullable('integer') })) }),
        ),
      },
    }),
  },
  '/api/v1/quarantine': {
    get: operation('listQuarantine', {
      summary: 'Remote tools that changed after their approval, with the changes (admin)',
      answers: { '200': answer('Tools', list(ref('QuarantinedTool'))) },
    }),
  },
  '/api/v1/quarantine/{name}/approve': {
    post: operation('approveTool', {
      summary: 'Approves exactly the revision that was shown (admin)',
      parameters: [inPath('name')],
      body: pendingRevision,
      answers: { '200': answer('Approved', record({ name: text, revision: text })) },
    }),
  },
  '/api/v1/quarantine/{name}/reject': {
    post: operation('rejectTool', {
      summary: 'Keeps it quarantined until its server serves another revision (admin)',
      parameters: [inPath('name')],
      body: pendingRevision,
      answers: { '200': answer('Rejected', record({ name: text })) },
    }),
  },
  '/api/v1/python/modules': {
    get: operation('listPythonModules', {
      summary:
        'Modules that Python runs may import in addition, from the configuration file and added at run time (admin)',
      answers: { '200': answer('By source and level', ref('PythonModules')) },
    }),
  },
  '/api/v1/python/modules/{level}': {
    put: operation('setPythonModules', {
      summary: 'Replaces the modules added to a level; applies to the next call on every gateway (operator)',
      parameters: [inPath('level')],
      body: { type: 'object', required: ['modules'], properties: { modules: list(text) } },
      answers: { '200': answer('By source and level', ref('PythonModules')) },
    }),
  },
  '/api/v1/purges': {
    post: operation('requestPurge', {
      summary:
        'Removes all data of a tenant (operator) or of one of its users (admin), or counts them; runs in the background',
      body: {
        type: 'object',
        required: ['tenant_id'],
        properties: { tenant_id: text, user_id: text, dry_run: { type: 'boolean' }, confirm: text },
      },
      answers: { '202': answer('The purge; follow it by its id', ref('Purge')) },
    }),
  },
  '/api/v1/purges/{id}': {
    get: operation('getPurge', {
      summary: 'A purge with its progress, for 30 days (as for its request)',
      parameters: [inPath('id')],
      answers: { '200': answer('The purge', ref('Purge')) },
    }),
  },
  '/api/v1/keys': {
    get: operation('listKeys', {
      summary: 'API keys of the tenant, for operators of all tenants; without secrets (admin)',
      answers: { '200': answer('Keys', list(ref('ApiKey'))) },
    }),
    post: operation('createKey', {
      summary: 'Creates a key; its token is shown in this answer only (admin)',
      body: {
        type: 'object',
        required: ['client'],
        properties: {
          client: text,
          tenant_id: text,
          user_id: text,
          roles: list(text),
          tools: list(text),
          projects: list(text),
          toolset: { ...text, description: 'Toolset to bind the key to: name, or name@version' },
          tier: text,
          mcp_mode: { enum: [...MCP_MODES] },
          expires_in_seconds: {
            type: 'integer',
            minimum: 60,
            description: "Default: until revoked, or until the caller's credential expires",
          },
        },
      },
      answers: { '201': answer('The key with its token', ref('ApiKey')) },
    }),
  },
  '/api/v1/keys/{id}': {
    delete: operation('revokeKey', {
      summary: 'Revokes a key within 5 s (admin)',
      parameters: [
        inPath('id'),
        inQuery('children', 'Revokes all keys created with it, directly or through others', { type: 'boolean' }),
      ],
      answers: {
        '200': answer('Ids of the revoked keys (with `children`)', record({ revoked: list(text) })),
        '204': { description: 'Revoked' },
      },
    }),
  },
};

export const OPERATOR_SCHEMAS: JsonObject = {
  Me: record({
    tenant_id: text,
    user_id: text,
    roles: list(text),
    admin: { type: 'boolean' },
    operator: { type: 'boolean' },
    via: text,
    key_id: nullable('string'),
    tools: list(text),
    tier: record({
      name: nullable('string'),
      requests_per_minute: integer,
      requests_per_hour: integer,
      requests_per_day: integer,
    }),
    version: text,
  }),
  CatalogTool: record({
    name: text,
    kind: { enum: ['builtin', 'python', 'mcp', 'openapi'] },
    description: text,
    category: text,
    available: { type: 'boolean' },
    dangerous: { type: 'boolean' },
    idempotent: { type: 'boolean' },
    has_effects: { type: 'boolean' },
    callable: { type: 'boolean' },
    not_callable_because: record({ code: text, reason: text }),
    parameters: { type: 'object' },
    output_schema: { type: 'object' },
  }),
  RecentCall: record({
    cursor: text,
    call_id: text,
    parent_call_id: text,
    ended_at: { type: 'string', format: 'date-time' },
    tenant_id: text,
    user_id: text,
    tool: text,
    door: text,
    status: { enum: ['success', 'tool_error', 'refused', 'cancelled', 'system_error'] },
    code: text,
    error: text,
    attempts: integer,
    retried: list(record({ attempt: integer, error: text, delay_ms: number })),
    duration_ms: number,
    stages: record({ admit_ms: number, wait_ms: number, queue_ms: number, execute_ms: number, rest_ms: number }),
    cost_usd: number,
    trace_id: text,
  }),
  Fleet: record({
    queues: list(
      record({
        queue: text,
        jobs: { type: 'object', additionalProperties: integer },
        oldest_age_ms: integer,
        slots,
        workers: list(record({ worker: text, busy: integer, total: integer })),
      }),
    ),
    executors: list(record({ service: text, instance: text, slots, age_ms: integer })),
    faults: list(record({ service: text, subject: text, message: text, since: text, instances: integer })),
  }),
  Breaker: record({
    key: text,
    tenant_id: text,
    state: { enum: ['open', 'half_open'] },
    open_for_ms: integer,
    protects: { enum: ['tool', 'target'] },
    service: text,
    instances: integer,
  }),
  QuarantinedTool: record({
    name: text,
    source: record({ kind: text, name: text }),
    reason: text,
    since_at: integer,
    pending_revision: text,
    approved_revision: nullable('string'),
    rejected: record({ at: integer, by: text }),
    diff: list(record({ field: text, before: {}, after: {} })),
    diff_omitted: { const: true },
  }),
  PythonModules: record({
    configured: record({ standard: list(text), strict: list(text) }),
    added: record({ standard: list(text), strict: list(text) }),
  }),
  Purge: record({
    id: text,
    tenant_id: text,
    user_id: nullable('string'),
    dry_run: { type: 'boolean' },
    state: { enum: ['running', 'done'] },
    pseudonym: text,
    requested_by: text,
    requested_at: text,
    finished_at: nullable('string'),
    steps_done: list(text),
    counts: { type: 'object', additionalProperties: integer },
    remaining: { type: 'object', additionalProperties: integer },
    error: nullable('string'),
  }),
  ApiKey: record({
    id: text,
    tenant_id: text,
    client: text,
    user_id: text,
    roles: list(text),
    tools: list(text),
    projects: list(text),
    toolset: { anyOf: [text, { type: 'null' }] },
    tier: nullable('string'),
    mcp_mode: nullable('string'),
    parent_id: nullable('string'),
    created_by: text,
    created_at: text,
    expires_at: nullable('string'),
    revoked_at: nullable('string'),
    last_used_at: nullable('string'),
    token: text,
  }),
};
