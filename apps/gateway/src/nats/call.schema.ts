import type { JsonObject } from '@toolfleet/contracts';
import { callFieldSchemas } from '@toolfleet/contracts/call-fields';
import type { SpendMessage } from '@toolfleet/contracts/budget';
import {
  choice,
  closed,
  integer,
  maybe,
  object,
  orEmpty,
  text,
  type Schema,
  type Value,
} from '@toolfleet/contracts/json-schema';

const toolName = text(undefined, { minLength: 1, maxLength: 200 });

/** Body of `tool.call`: `CallMessage`. Unknown fields are refused. */
export const CALL_SCHEMA: JsonObject = {
  type: 'object',
  properties: { name: toolName, arguments: object(), ...callFieldSchemas('nats') },
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
export const LIST_SCHEMA = orEmpty(
  closed({
    category: maybe(text(undefined, { maxLength: 64 })),
    query: maybe(text(undefined, { minLength: 1, maxLength: 10_000 })),
    limit: maybe(integer(undefined, { minimum: 1, maximum: 500 })),
  }),
);
export type ListMessage = Value<typeof LIST_SCHEMA>;

const amount = integer(undefined, { minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/** Body of `tool.spend`. */
export const SPEND_SCHEMA: Schema<SpendMessage> = closed({
  op: choice(['hold', 'settle', 'release']),
  slice: text(undefined, { pattern: '^[A-Za-z0-9-]{1,64}$' }),
  tool: toolName,
  tokens: amount,
  micro_usd: amount,
});

/** Body of `tool.cancel`. */
export const CANCEL_SCHEMA = closed({ call_id: text(undefined, { minLength: 1, maxLength: 64 }) });
export type CancelMessage = Value<typeof CANCEL_SCHEMA>;
