import type { JsonObject } from '@toolfleet/contracts';
import { answer, inPath, inQuery, list, operation, text } from './openapi-parts.js';

const record = (required: string[], properties: JsonObject): JsonObject => ({ type: 'object', required, properties });
const object: JsonObject = { type: 'object' };
const number: JsonObject = { type: 'number' };
const visibility: JsonObject = {
  enum: ['tenant', 'fleet'],
  description: 'Whose tools they become; default tenant; fleet takes an operator',
};

/**
 * Registering and retiring sources of tools, for administrators of a tenant, with visibility `fleet` for operators. The fields
 * are explained in docs/openapi.md and docs/mcp.md.
 */
export const SOURCE_PATHS: JsonObject = {
  '/api/v1/sources/openapi': {
    post: operation('registerOpenApi', {
      summary: 'Makes tools of the operations of an OpenAPI document (admin)',
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
        rate_limit: number,
        timeout_seconds: number,
        max_response_bytes: { type: 'integer' },
        vendor_adapter: text,
        refresh_seconds: number,
        pin: { enum: ['refuse', 'warn', 'off'] },
        visibility,
      }),
      answers: {
        '201': answer(
          'Registered, with what was refused of it',
          record(['success', 'operations_registered'], {
            success: { const: true },
            collection_name: text,
            operations_registered: list(text),
            message: text,
            refused: list(object),
            warnings: list(object),
          }),
        ),
      },
    }),
  },
  '/api/v1/sources/mcp': {
    post: operation('registerMcp', {
      summary: 'Makes tools of an MCP server, or of one {"function", "args"} endpoint (admin)',
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
        rate_limit: number,
        timeout_seconds: number,
        visibility,
      }),
      answers: {
        '201': answer(
          'Registered',
          record(['success', 'registered'], {
            success: { const: true },
            tool_name: text,
            registered: list(text),
            message: text,
          }),
        ),
      },
    }),
  },
  '/api/v1/sources/{kind}/{name}': {
    delete: operation('retireSource', {
      summary: 'Removes a source that was registered at run time, with its tools (admin)',
      parameters: [
        { ...inPath('kind'), schema: { enum: ['openapi', 'mcp'] } },
        inPath('name'),
        inQuery('visibility', 'fleet for one that was registered for all', { enum: ['tenant', 'fleet'] }),
      ],
      answers: { '200': answer('Its tools', record(['removed'], { removed: list(text) })) },
    }),
  },
};
