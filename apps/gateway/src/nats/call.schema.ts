import type { JsonObject } from '@toolfleet/contracts';
import { callFieldSchemas } from '@toolfleet/contracts/call-fields';

/** Body of `tool.call`: `CallMessage`. Unknown fields are refused. */
export const CALL_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 200 },
    arguments: { type: 'object' },
    ...callFieldSchemas('nats'),
  },
  required: ['name', 'arguments'],
  additionalProperties: false,
};

const calls: JsonObject = { type: 'array', items: { type: 'object' } };

/** Body of `tool.batch`: calls, an object with calls and fields for all of them, or a model's message; `readBatchBody` reads it. */
export const BATCH_SCHEMA: JsonObject = {
  type: ['array', 'object'],
  items: { type: 'object' },
  properties: { calls, tool_calls: calls, ...callFieldSchemas('nats-batch') },
};

/** Body of `tool.list`; may be empty. With `query` the tools for a task in words, best first. */
export interface ListMessage {
  category?: string;
  query?: string;
  limit?: number;
}
export const LIST_SCHEMA: JsonObject = {
  type: ['object', 'null'],
  properties: {
    category: { type: 'string', maxLength: 64 },
    query: { type: 'string', minLength: 1, maxLength: 10_000 },
    limit: { type: 'integer', minimum: 1, maximum: 500 },
  },
  additionalProperties: false,
};

const amount = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;

/** Body of `tool.spend`: `SpendMessage`. */
export const SPEND_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    op: { enum: ['hold', 'settle', 'release'] },
    slice: { type: 'string', pattern: '^[A-Za-z0-9-]{1,64}$' },
    tool: { type: 'string', minLength: 1, maxLength: 200 },
    tokens: amount,
    micro_usd: amount,
  },
  required: ['op', 'slice', 'tool', 'tokens', 'micro_usd'],
  additionalProperties: false,
};

/** Body of `tool.cancel`. */
export const CANCEL_SCHEMA: JsonObject = {
  type: 'object',
  properties: { call_id: { type: 'string', minLength: 1, maxLength: 64 } },
  required: ['call_id'],
  additionalProperties: false,
};
