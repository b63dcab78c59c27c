import type { CallMessage, JsonObject } from '@toolfleet/contracts';

const id = { type: 'string', minLength: 1, maxLength: 255 } as const;

/** Fields of a call over NATS; unknown ones are refused (mass assignment). */
const CALL_FIELDS: JsonObject = {
  session_id: id,
  user_id: id,
  request_id: id,
  agent_id: id,
  task_id: id,
  idempotency_key: id,
  timeout_ms: { type: 'integer', minimum: 1, maximum: 600_000 },
  mode: { enum: ['sync', 'async'] },
  dry_run: { type: 'boolean' },
  no_retry: { type: 'boolean' },
  project_id: id,
  model: id,
  prompt_params: { type: 'object' },
};

/** Body of `tool.call`: `CallMessage`. */
export const CALL_SCHEMA: JsonObject = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 1, maxLength: 200 }, arguments: { type: 'object' }, ...CALL_FIELDS },
  required: ['name', 'arguments'],
  additionalProperties: false,
};

/** Body of `tool.batch`. */
export interface BatchMessage extends Pick<
  CallMessage,
  'session_id' | 'user_id' | 'request_id' | 'agent_id' | 'task_id' | 'idempotency_key'
> {
  calls: JsonObject[];
}
const { mode: _mode, dry_run: _dryRun, ...BATCH_FIELDS } = CALL_FIELDS;
export const BATCH_SCHEMA: JsonObject = {
  type: 'object',
  properties: { calls: { type: 'array', items: { type: 'object' }, maxItems: 100 }, ...BATCH_FIELDS },
  required: ['calls'],
  additionalProperties: false,
};

/** Body of `tool.list`; may be empty. */
export interface ListMessage {
  category?: string;
}
export const LIST_SCHEMA: JsonObject = {
  type: ['object', 'null'],
  properties: { category: { type: 'string', maxLength: 64 } },
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
