import type { JsonObject } from '@toolfleet/contracts';
import { CONTEXT_KEYS, TOOLSETS } from '@toolfleet/contracts/tool-definition';

/**
 * Shape and ranges of a tool definition as announced (contracts: `ToolDefinition`). Rules over several fields are code, in
 * `register-definition.ts`. Unknown fields pass, so that an older registry serves a newer executor.
 */
const text = (maxLength: number): JsonObject => ({ type: 'string', minLength: 1, maxLength });
const whole = (minimum: number, maximum: number): JsonObject => ({ type: 'integer', minimum, maximum });
const listOf = (items: JsonObject, maxItems: number): JsonObject => ({ type: 'array', items, maxItems });
const flag: JsonObject = { type: 'boolean' };
const anyObject: JsonObject = { type: 'object' };
/** 1,000 USD: more for one call is a mistake of units. */
const MOST_MICRO_USD = 1_000_000_000;

const bindings: JsonObject[] = [
  {
    properties: { kind: { const: 'builtin' }, toolset: { enum: [...TOOLSETS] }, handler: text(128), build: text(64) },
    required: ['kind', 'toolset', 'handler'],
  },
  { properties: { kind: { const: 'python' } }, required: ['kind'] },
  {
    properties: {
      kind: { const: 'mcp' },
      server: text(200),
      transport: { enum: ['streamable-http', 'function-args', 'stdio'] },
      url: { type: 'string', maxLength: 4096 },
      remoteName: text(512),
      options: anyObject,
    },
    required: ['kind', 'server', 'transport', 'url', 'remoteName'],
  },
  {
    properties: {
      kind: { const: 'openapi' },
      collection: text(200),
      baseUrl: { type: 'string', maxLength: 4096 },
      operationId: text(512),
      method: text(16),
      path: text(4096),
      plan: anyObject,
      options: anyObject,
    },
    required: ['kind', 'collection', 'baseUrl', 'operationId', 'method', 'path', 'plan'],
  },
];

const retryPolicy: JsonObject = {
  oneOf: [
    { properties: { kind: { enum: ['none', 'network', 'idempotent'] } } },
    {
      properties: {
        kind: { const: 'custom' },
        max_attempts: whole(1, 10),
        base_delay_ms: whole(0, 30_000),
        multiplier: { type: 'number', minimum: 1, maximum: 10 },
        max_delay_ms: whole(0, 30_000),
        on: listOf({ enum: ['timeout', 'network_error', 'internal_error'] }, 3),
      },
      required: ['max_attempts', 'base_delay_ms', 'multiplier'],
    },
  ],
  type: 'object',
  required: ['kind'],
};

/** JSON Schema of one announced definition. */
export const DEFINITION_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    aliases: listOf({ type: 'string', pattern: '^[A-Za-z0-9_.@-]{1,200}$' }, 20),
    version: text(128),
    description: text(65_536),
    category: text(64),
    tags: listOf(text(64), 50),
    input_schema: anyObject,
    output_schema: anyObject,
    binding: { type: 'object', oneOf: bindings },
    timeout_seconds: { type: 'number', exclusiveMinimum: 0, maximum: 3_600 },
    memory_limit_mb: whole(1, 65_536),
    rate_limit: whole(0, 1_000_000_000),
    rate_limit_mode: { enum: ['reject', 'wait'] },
    cost_per_use_micro_usd: whole(0, MOST_MICRO_USD),
    cost_cap_micro_usd: whole(0, MOST_MICRO_USD),
    dangerous: flag,
    dangerous_when: listOf(
      {
        type: 'object',
        properties: { argument: text(256), values: { type: 'array', minItems: 1, maxItems: 100 } },
        required: ['argument', 'values'],
      },
      20,
    ),
    requires_auth: flag,
    sandboxed: flag,
    session_aware: flag,
    context_keys: listOf({ enum: [...CONTEXT_KEYS] }, CONTEXT_KEYS.length),
    required_roles: listOf(text(64), 50),
    idempotent: flag,
    retry_policy: retryPolicy,
    cache_ttl_seconds: whole(0, 86_400),
    forwards_idempotency_key: flag,
    task_support: { enum: ['forbidden', 'optional', 'required'] },
    annotations: anyObject,
    author: text(256),
    input_examples: listOf(anyObject, 20),
    tenant: { type: 'string', pattern: '^[A-Za-z0-9_.:-]{1,128}$' },
  },
  required: ['name', 'version', 'description', 'category', 'input_schema', 'binding'],
};
