import { ToolError } from './errors/tool-error.js';
import type { CallCaller, CallRequest, CallReuse } from './call.js';
import type { Json, JsonObject } from '@toolfleet/base/json';
import { hasUnsafeCharacters, suggestion } from './text.js';
import type { EpochMs, Milliseconds } from './units.js';

/** A call as sent over NATS: tool, arguments and the fields of `CALL_FIELDS`. */
export interface CallMessage extends CallFields {
  name: string;
  arguments: JsonObject;
}

/**
 * Where a caller sends fields next to the tool and its arguments: the body of a call over HTTP or NATS, the body around a
 * batch, one item of a batch, or `_meta` of an MCP `tools/call`.
 */
export type CallEntry = 'http' | 'nats' | 'mcp' | 'http-batch' | 'nats-batch' | 'batch-item';

type FieldSchema =
  | { readonly type: 'string'; readonly minLength: number; readonly maxLength: number }
  | { readonly type: 'integer'; readonly minimum: number; readonly maximum: number }
  | { readonly type: 'boolean' }
  | { readonly type: 'object' }
  | { readonly enum: readonly string[] };

interface CallField {
  readonly schema: FieldSchema;
  readonly on: readonly CallEntry[];
  readonly description: string;
}

const ID = { type: 'string', minLength: 1, maxLength: 255 } as const;
const FLAG = { type: 'boolean' } as const;
const CALLS = ['http', 'nats', 'mcp'] as const;
const BATCHES = ['http-batch', 'nats-batch'] as const;
const INTERNAL = ['nats', 'nats-batch'] as const;

/**
 * The fields of a call. Readers, JSON Schemas, the OpenAPI and AsyncAPI documents and the client's types are derived from
 * this table. An entry point rejects the fields that it does not list in `on`.
 */
export const CALL_FIELDS = {
  session_id: {
    schema: ID,
    on: [...CALLS, ...BATCHES],
    description: 'Session of the user; session-aware tools keep state in it',
  },
  user_id: {
    schema: ID,
    on: INTERNAL,
    description: 'User on whose behalf an internal caller calls; ledger, logs and records of calls name this user',
  },
  request_id: { schema: ID, on: [...CALLS, ...BATCHES], description: 'Request whose budget the call spends from' },
  agent_id: { schema: ID, on: [...CALLS, ...BATCHES], description: 'Agent whose budget the call spends from' },
  task_id: { schema: ID, on: [...CALLS, ...BATCHES], description: 'Task whose budget the call spends from' },
  idempotency_key: {
    schema: ID,
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description: 'The first outcome of a key is replayed for 24 h; a batch adds the place of each item',
  },
  timeout_ms: {
    schema: { type: 'integer', minimum: 1, maximum: 600_000 },
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description: 'Longest attempt in milliseconds; never above GATEWAY_CALL_TIMEOUT_MS',
  },
  mode: { schema: { enum: ['sync', 'async'] }, on: ['http', 'nats'], description: 'async: accepted now, run later' },
  dry_run: {
    schema: FLAG,
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description: 'Check everything up to the price and run nothing',
  },
  no_retry: { schema: FLAG, on: [...CALLS, ...BATCHES, 'batch-item'], description: 'Make one attempt only' },
  parallel: {
    schema: FLAG,
    on: BATCHES,
    description: 'false: each item starts when the one before it has ended; default true',
  },
  max_parallel: {
    schema: { type: 'integer', minimum: 1, maximum: 100 },
    on: BATCHES,
    description: 'Most items that run at once; never above TOOL_PARALLELISM',
  },
  cache: {
    schema: { enum: ['no-store', 'reload'] },
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description:
      'Runs the tool instead of reusing an earlier result. reload: later calls may reuse the new one; no-store: it is not kept for them',
  },
  select: {
    schema: { type: 'string', minLength: 1, maxLength: 1_000 },
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description:
      'Part of the result to return: JSONPath if it starts with `$`, else JMESPath; `@` is the whole result (see [selections](selections.md))',
  },
  max_result_kb: {
    schema: { type: 'integer', minimum: 1, maximum: 5_120 },
    on: [...CALLS, ...BATCHES, 'batch-item'],
    description:
      'Largest result in KiB that is returned whole; of a larger one the call gets a [handle](large-results.md). Default: 16 over MCP, else unlimited',
  },
  project_id: { schema: ID, on: INTERNAL, description: 'Project whose files the call works on' },
  create_project: {
    schema: FLAG,
    on: INTERNAL,
    description: 'The call may create the workspace of a project that has none; otherwise: Project not found',
  },
  model: { schema: ID, on: INTERNAL, description: 'Model that asked for the call' },
  prompt_params: {
    schema: { type: 'object' },
    on: INTERNAL,
    description: 'Parameters of the prompt, for tools that declare them',
  },
} as const satisfies Record<string, CallField>;

type CallFieldTable = typeof CALL_FIELDS;
type FieldValue<S> = S extends { type: 'string' }
  ? string
  : S extends { type: 'integer' }
    ? number
    : S extends { type: 'boolean' }
      ? boolean
      : S extends { enum: readonly (infer V)[] }
        ? V
        : JsonObject;
type FieldsOn<E extends CallEntry> = {
  [K in keyof CallFieldTable]: E extends CallFieldTable[K]['on'][number] ? K : never;
}[keyof CallFieldTable];

/** Fields of a call in the spelling of the wire. Every entry point reads a subset. */
export type CallFields = { -readonly [K in keyof CallFieldTable]?: FieldValue<CallFieldTable[K]['schema']> };
/** The fields that one entry point reads. */
export type CallFieldsOn<E extends CallEntry> = Pick<CallFields, FieldsOn<E>>;

const NAMES: Readonly<Record<CallEntry, readonly (keyof CallFieldTable)[]>> = {
  http: namesOn('http'),
  nats: namesOn('nats'),
  mcp: namesOn('mcp'),
  'http-batch': namesOn('http-batch'),
  'nats-batch': namesOn('nats-batch'),
  'batch-item': namesOn('batch-item'),
};

function namesOn(entry: CallEntry): (keyof CallFieldTable)[] {
  return (Object.keys(CALL_FIELDS) as (keyof CallFieldTable)[]).filter((name) =>
    (CALL_FIELDS[name].on as readonly CallEntry[]).includes(entry),
  );
}

/** JSON Schema of each field that an entry point reads, by name. */
export function callFieldSchemas(entry: CallEntry): JsonObject {
  return Object.fromEntries(
    NAMES[entry].map((name) => {
      const { schema, description } = CALL_FIELDS[name] as CallField;
      return [name, { ...schema, description } as Json];
    }),
  ) as JsonObject;
}

/**
 * Reads the fields of a call from the object that a caller sent. Unknown names are rejected, except in MCP's `_meta`, where
 * the protocol and other extensions have their own names.
 * @param others names that the entry point reads itself
 * @throws ToolError REQUEST_INVALID with every invalid field and its bounds, or with the unknown names
 */
export function readCallFields<E extends CallEntry>(
  source: JsonObject,
  entry: E,
  others: readonly string[] = [],
): CallFieldsOn<E> {
  const names: readonly string[] = NAMES[entry];
  if (entry !== 'mcp') {
    const unknown = Object.keys(source).filter((name) => !names.includes(name) && !others.includes(name));
    // A field of another entry point is not an argument of the tool; `parameters` holds the arguments in batches of Shannon's API.
    const lacksArguments = ['arguments', 'parameters'].every((name) => source[name] === undefined);
    const mayBeArguments = !unknown.some((name) => Object.hasOwn(CALL_FIELDS, name));
    rejectUnknownFields(unknown, names, others.includes('arguments') && lacksArguments && mayBeArguments);
  }
  const read: Record<string, Json> = {};
  const reasons: string[] = [];
  const fields: string[] = [];
  for (const name of NAMES[entry]) {
    const value = Object.hasOwn(source, name) ? source[name] : undefined;
    if (value === undefined) continue;
    const violation = findViolation(CALL_FIELDS[name].schema, value);
    if (violation === undefined) read[name] = value;
    else {
      fields.push(name);
      reasons.push(`${name} ${violation}`);
    }
  }
  if (reasons.length > 0) {
    throw new ToolError('REQUEST_INVALID', {
      message: `Invalid request: ${reasons.join('; ')}`,
      details: { fields, reasons },
    });
  }
  return read as CallFieldsOn<E>;
}

/** The names come from the caller and return to it in the error, so their number and length are limited. */
const MAX_NAMES = 10;
const MAX_NAME_CHARS = 64;

/** @throws ToolError REQUEST_INVALID that lists the names, unless there are none */
export function rejectUnknownFields(names: readonly string[], known: Iterable<string>, lacksArguments = false): void {
  if (names.length === 0) return;
  const unknown = names
    .slice(0, MAX_NAMES)
    .map((name) => (name.length > MAX_NAME_CHARS ? `${name.slice(0, MAX_NAME_CHARS)}…` : name));
  const quoted = unknown.map((name) => `'${name}'${suggestion(name, known)}`).join(', ');
  const advice = lacksArguments
    ? `; arguments of the tool belong in arguments: {"arguments": {"${unknown[0]}": …}}`
    : '';
  throw new ToolError('REQUEST_INVALID', { message: `Unknown field ${quoted}${advice}`, details: { unknown } });
}

function findViolation(schema: FieldSchema, value: Json): string | undefined {
  if ('enum' in schema)
    return schema.enum.includes(value as string) ? undefined : `must be one of ${schema.enum.join(', ')}`;
  switch (schema.type) {
    case 'string': {
      const fits = typeof value === 'string' && value.length >= schema.minLength && value.length <= schema.maxLength;
      if (!fits) return `must be a string of ${schema.minLength} to ${schema.maxLength} characters`;
      return hasUnsafeCharacters(value) ? 'must not contain control characters' : undefined;
    }
    case 'integer': {
      const fits = Number.isInteger(value) && Number(value) >= schema.minimum && Number(value) <= schema.maximum;
      return fits ? undefined : `must be an integer from ${schema.minimum} to ${schema.maximum}`;
    }
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false';
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'must be an object';
  }
}

/** A call as a caller named it. */
interface CallWithName {
  id: string;
  tool: string;
  arguments: JsonObject;
  fields: CallFields;
}

/** How long a call may take, and how much of its result its caller takes whole. */
interface CallBounds {
  /** The instant at which the call begins. */
  beginsAt: EpochMs;
  /** How long it may take from then on. */
  maxMs: Milliseconds;
  /** Applies where the caller sent no `max_result_kb`. */
  inlineBytes?: number | undefined;
}

/** Builds the request of a call, for every entry point. */
export function callRequest(
  { id, tool, arguments: args, fields }: CallWithName,
  caller: CallCaller,
  { beginsAt, maxMs, inlineBytes }: CallBounds,
  reuse: Pick<CallReuse, 'keyForEffects' | 'idempotencyWaitMs'> = {},
): CallRequest {
  const { timeout_ms: timeoutMs, max_result_kb: maxResultKb } = fields;
  return {
    ...caller,
    callId: id,
    target: { toolName: tool },
    input: { rawArguments: args, select: fields.select },
    limits: {
      deadlineAt: beginsAt + Math.min(timeoutMs ?? maxMs, maxMs),
      timeoutMs,
      noRetry: fields.no_retry,
      inlineBytes: maxResultKb === undefined ? inlineBytes : maxResultKb * 1_024,
    },
    reuse: { ...reuse, idempotencyKey: fields.idempotency_key, cache: fields.cache },
    mode: { kind: fields.dry_run ? 'dry' : 'run' },
    requestId: fields.request_id,
    agentId: fields.agent_id,
    taskId: fields.task_id,
  };
}
