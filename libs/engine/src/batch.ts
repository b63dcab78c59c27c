import {
  isJsonObject,
  isToolError,
  ToolError,
  toToolError,
  type CallRecord,
  type CallRequest,
  type CallResult,
  type Json,
  type JsonObject,
} from '@toolfleet/contracts';
import { readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import { inexactNumber, inexactNumberMessage, isNestedTooDeep } from '@toolfleet/contracts/json-text';
import { Semaphore, type Clock } from '@toolfleet/resilience';
import { callBody } from './call-body.js';
import { requestKey } from './call-identity.js';
import type { ExecuteCall } from './execute-call.js';
import { failed } from './outcome.js';

/** One call of a batch, whichever format it came in. */
export interface BatchItem {
  /** The caller's own id (`call_abc` of a model), or one of ours; not the engine's call id. */
  id: string;
  name: string;
  /** The error instead of arguments that cannot be read: the other items still run. */
  arguments: JsonObject | ToolError;
  /** The arguments as they came. */
  sent: Json;
  /** The item as it came, for fields beside name and arguments. */
  source: JsonObject;
  /** Fields of this call alone; they go before those of the whole batch. */
  fields: CallFieldsOn<'batch-item'>;
}

/** What became of one item. */
export interface BatchAnswer {
  item: BatchItem;
  callId: string;
  outcome: CallResult | ToolError;
  /** Id of the earlier item with the same tool and arguments whose outcome this is. */
  duplicateOf?: string;
  durationMs: number;
}

/** Most calls of one batch. */
export const MAX_BATCH = 100;

/**
 * Reads a batch: OpenAI tool calls, `{tool_name, parameters}` of Shannon, or `{name, arguments}` of ours, mixed as they come.
 * @throws ToolError REQUEST_INVALID when it is not an array, too long, or an item has no name, an unknown field or a wrong one
 */
export function readBatch(body: unknown): BatchItem[] {
  if (!Array.isArray(body)) throw new ToolError('REQUEST_INVALID', { message: 'A batch is an array of calls' });
  if (body.length > MAX_BATCH)
    throw new ToolError('REQUEST_INVALID', { message: `At most ${MAX_BATCH} calls in one batch` });
  return body.map(readItem);
}

function readItem(item: unknown, index: number): BatchItem {
  if (!isJsonObject(item)) throw new ToolError('REQUEST_INVALID', { message: `Item ${index} is not an object` });
  const called = isJsonObject(item.function) ? item.function : item;
  const name = called.name ?? called.tool_name;
  if (typeof name !== 'string' || name === '')
    throw new ToolError('REQUEST_INVALID', { message: `Item ${index} has no tool name` });
  const id = typeof item.id === 'string' && item.id !== '' ? item.id : `call_${index}`;
  const sent = called.arguments ?? called.parameters ?? null;
  return {
    id,
    name,
    arguments: readArguments(sent),
    sent,
    source: item,
    fields: readFields(item, index),
  };
}

/** What an item consists of besides fields of the call, in any of the formats. `index` is what streaming clients of OpenAI keep. */
const ITEM_NAMES = [
  ...['id', 'type', 'index', 'function'],
  ...['name', 'arguments'],
  ...['tool_name', 'parameters', 'session_context'],
];

function readFields(item: JsonObject, index: number): CallFieldsOn<'batch-item'> {
  try {
    return readCallFields(item, 'batch-item', ITEM_NAMES);
  } catch (error) {
    if (!isToolError(error)) throw error;
    throw new ToolError(error.code, { message: `Item ${index}: ${error.message}`, details: error.details });
  }
}

/** Arguments as an object or as the JSON text models send; nothing at all is an empty object. */
function readArguments(value: Json): JsonObject | ToolError {
  if (value === null || value === '') return {};
  if (isJsonObject(value)) return value;
  try {
    const parsed = typeof value === 'string' ? (JSON.parse(value) as Json) : value;
    // Text was not walked with the body around it; what is too deep could not be compared nor written down again.
    if (isJsonObject(parsed) && !isNestedTooDeep(parsed)) {
      const inexact = typeof value === 'string' ? inexactNumber(value) : undefined;
      if (inexact === undefined) return parsed;
      return new ToolError('ARGUMENTS_INVALID', { message: inexactNumberMessage(inexact) });
    }
  } catch {
    // reported below
  }
  return new ToolError('ARGUMENTS_INVALID', { message: 'arguments must be a JSON object, or JSON text of one' });
}

/** Makes the request of one item; `index` is its place in the batch. */
export type ItemRequest = (item: BatchItem, args: JsonObject, index: number) => CallRequest;

/**
 * Runs a batch: at most `parallelism` at once, answers in the order asked, one failure fails nobody else. Items that
 * agree in all they say (tool, arguments, session, context, idempotency key, …) run once; later ones are answered with the
 * first one's outcome and marked.
 */
export async function runBatch(
  execute: ExecuteCall,
  items: readonly BatchItem[],
  requestFor: ItemRequest,
  limits: { parallelism: number; clock: Clock },
): Promise<BatchAnswer[]> {
  // All requests before any call: an item that cannot be one refuses the batch while nothing has run.
  const requests = items.map((item, index) =>
    item.arguments instanceof ToolError ? item.arguments : requestFor(item, item.arguments, index),
  );
  const slots = new Semaphore(limits.parallelism);
  const firsts = new Map<string, { id: string; answer: Promise<BatchAnswer> }>();
  return Promise.all(
    items.map(async (item, index) => {
      const request = requests[index]!;
      if (request instanceof ToolError) return { item, callId: '', outcome: request, durationMs: 0 };
      // The key of the whole batch names places; two places are the same call when the items say the same.
      const key = requestKey({ ...request, idempotencyKey: item.fields.idempotency_key });
      const first = firsts.get(key);
      if (first) return { ...(await first.answer), item, duplicateOf: first.id, durationMs: 0 };
      const answer = slots.run(() => runOne(execute, item, request, limits.clock)) as Promise<BatchAnswer>; // unbounded queue: never refused
      firsts.set(key, { id: item.id, answer });
      return answer;
    }),
  );
}

async function runOne(execute: ExecuteCall, item: BatchItem, request: CallRequest, clock: Clock): Promise<BatchAnswer> {
  const from = clock.monotonic();
  const outcome = await execute(request).catch(toToolError);
  return { item, callId: request.callId, outcome, durationMs: clock.monotonic() - from };
}

/**
 * The unified record for storage and streaming; `result` is the JSON text of the body a single call would get, without
 * rich content: it is read by a model, as text.
 */
export function callRecord(answer: BatchAnswer): CallRecord {
  const { item, outcome, duplicateOf } = answer;
  const args = item.arguments instanceof ToolError ? item.sent : item.arguments;
  const { content: _rich, ...body } = answerBody(answer);
  return {
    id: item.id,
    type: 'function',
    function: { name: item.name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
    result: JSON.stringify(body),
    success: !isToolError(outcome) && outcome.ok,
    skipped: duplicateOf !== undefined,
    execution_time: Math.round(answer.durationMs),
  };
}

/** One answer as the body of a single call: in a batch a refusal is in-band too, its siblings succeeded. */
export function answerBody(answer: BatchAnswer): ReturnType<typeof callBody> {
  const { outcome, duplicateOf } = answer;
  const result = isToolError(outcome) ? failed(outcome) : outcome;
  const marked =
    duplicateOf === undefined
      ? result
      : { ...result, metadata: { ...result.metadata, skipped: true, duplicate_of: duplicateOf } };
  return callBody(answer.callId, marked, answer.durationMs);
}
