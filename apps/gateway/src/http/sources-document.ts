import type { JsonObject } from '@toolfleet/contracts';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { answer, inPath, inQuery, list, operation, ref, text } from './openapi-parts.js';

const record = (required: string[], properties: JsonObject): JsonObject => ({ type: 'object', required, properties });
const object: JsonObject = { type: 'object' };
const number: JsonObject = { type: 'number' };
const instant: JsonObject = { type: 'string', format: 'date-time' };
const visibility: JsonObject = {
  enum: ['tenant', 'fleet'],
  description: 'Owner of the tools; default tenant; fleet needs an operator',
};

/** Settings of all tools of a source, and of those that a name pattern matches (docs/tool-settings.md). */
const settings: JsonObject = Object.fromEntries(
  Object.entries(TOOL_SETTINGS).flatMap(([name, { schema, description }]): [string, JsonObject][] =>
    // Belongs to local processes, which registrations cannot start.
    name === 'memory_limit_mb' ? [] : [[name, { ...schema, description }]],
  ),
);
settings.overrides = {
  type: 'object',
  description: 'Settings by name pattern, in which * stands for any characters; the more specific pattern wins',
  additionalProperties: { type: 'object', properties: { ...settings } },
};

const nullable = (type: JsonObject): JsonObject => ({ anyOf: [type, { type: 'null' }] });
const pending = record(['name', 'reason', 'pending_revision'], { name: text, reason: text, pending_revision: text });
const refusedTool = record(['name', 'code', 'message'], { name: text, code: text, message: text });
const sourcePath: JsonObject[] = [
  { ...inPath('kind'), schema: { enum: ['openapi', 'mcp', 'builtin', 'plugin'] } },
  inPath('name'),
  inQuery('visibility', 'fleet for a source shared with all tenants', { enum: ['tenant', 'fleet'] }),
];

/** Schemas that `SOURCE_PATHS` refer to. */
export const SOURCE_SCHEMAS: JsonObject = {
  SourceStatus: record(
    [
      ...['id', 'kind', 'name', 'tenant', 'origin', 'location', 'state', 'tool_count', 'quarantined'],
      ...['last_look_at', 'last_success_at', 'last_error', 'next_look_at'],
    ],
    {
      id: text,
      kind: { enum: ['openapi', 'mcp', 'builtin', 'plugin'] },
      name: text,
      tenant: nullable(text),
      origin: { enum: ['config', 'api', 'executor'] },
      location: nullable(text),
      state: { enum: ['pending', 'ok', 'failed', 'auth_failed', 'refused', 'unavailable'] },
      tool_count: { type: 'integer' },
      quarantined: list(pending),
      last_look_at: nullable(instant),
      last_success_at: nullable(instant),
      last_error: nullable(text),
      next_look_at: nullable(instant),
      tools: list(text),
      refused: list(refusedTool),
      notes: list(text),
    },
  ),
};

/**
 * Paths to register, see, refresh and remove sources of tools, for administrators; visibility `fleet` is for operators. docs/openapi.md and
 * docs/mcp.md explain the fields.
 */
export const SOURCE_PATHS: JsonObject = {
  '/api/v1/sources': {
    get: operation('listSources', {
      summary: "Sources of tools and their last look: of the administrator's tenant, for operators all (admin)",
      answers: { '200': answer('By id, without names of tools', list(ref('SourceStatus'))) },
    }),
  },
  '/api/v1/sources/openapi': {
    post: operation('registerOpenApi', {
      summary: 'Registers the operations of an OpenAPI document as tools (admin)',
      body: record(['name'], {
        name: text,
        spec_url: text,
        spec_inline: text,
        base_url: text,
        operations: list(text),
        tags: list(text),
        name_prefix: text,
        auth_type: { enum: ['none', 'api_key', 'bearer', 'basic', 'oauth2'] },
        auth_config: object,
        extra_headers: object,
        category: text,
        base_cost_per_use: number,
        ...settings,
        max_response_bytes: { type: 'integer' },
        vendor_adapter: text,
        refresh_seconds: number,
        pin: { enum: ['refuse', 'warn', 'off'] },
        visibility,
      }),
      answers: {
        '201': answer(
          'Registered, with the operations that were refused',
          record(['success', 'operations_registered'], {
            success: { const: true },
            collection_name: text,
            operations_registered: list(text),
            message: text,
            refused: list(refusedTool),
            warnings: list(text),
            quarantined: list(pending),
          }),
        ),
      },
    }),
  },
  '/api/v1/sources/mcp': {
    post: operation('registerMcp', {
      summary: 'Registers the tools of an MCP server, or one {"function", "args"} endpoint (admin)',
      body: record(['name', 'url'], {
        name: text,
        url: text,
        transport: { enum: ['auto', 'streamable-http', 'function-args'] },
        func_name: text,
        description: text,
        parameters: list(object),
        headers: object,
        oauth: object,
        tools: list(text),
        prefix: text,
        trusted: { type: 'boolean' },
        pin: { enum: ['refuse', 'warn', 'off'] },
        category: text,
        cost_per_use: number,
        ...settings,
        visibility,
      }),
      answers: {
        '201': answer(
          'Registered',
          record(['success', 'registered'], {
            success: { const: true },
            tool_name: text,
            registered: list(text),
            quarantined: list(pending),
            message: text,
          }),
        ),
      },
    }),
  },
  '/api/v1/sources/{kind}/{name}': {
    get: operation('getSource', {
      summary: 'One source with its tools and what its last look refused (admin)',
      parameters: sourcePath,
      answers: { '200': answer('The source', ref('SourceStatus')) },
    }),
    delete: operation('retireSource', {
      summary: 'Removes a source that was registered at run time, with its tools (admin)',
      parameters: sourcePath,
      answers: { '200': answer('Its tools', record(['removed'], { removed: list(text) })) },
    }),
  },
  '/api/v1/sources/{kind}/{name}/refresh': {
    post: operation('refreshSource', {
      summary: "Reads a document, or requests a server's tools, now (admin)",
      parameters: sourcePath,
      answers: { '200': answer('The source after the look, which may have failed', ref('SourceStatus')) },
    }),
  },
};
