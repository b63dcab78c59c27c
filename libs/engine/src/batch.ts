import {
  isJsonObject,
  isToolError,
  ToolError,
  toToolError,
  type CallRecord,
  type CallRequest,
  type CallResult,
  type EpochMs,
  type CallBody,
  type Json,
  type JsonObject,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import {
  BODY_EXCESS,
  inexactNumberMessage,
  MAX_BODY_NODES,
  parseExact,
  shapeExcess,
  shapeOfText,
} from '@toolfleet/contracts/json-text';
import { Semaphore, type Clock } from '@toolfleet/resilience';
import { requestKey } from './call-identity.js';
import type { ExecuteCall } from './call.js';
import { callBody, contentBytes, explainFailure, failed } from './result.js';
import { toResultFormat, toVendorResult, VENDOR_MEMBERS, type ResultFormat } from './vendor-results.js';

export { toResultFormat, type ResultFormat } from './vendor-results.js';

/** One call of a batch, independent of the format it was sent in. */
export interface BatchEntry {
  /** The caller's id (`call_id`, else `id`) or a generated one; not the engine's call id. */
  id: string;
  name: string;
  /** The error in place of arguments that cannot be parsed; the other items still run. */
  arguments: JsonObject | ToolError;
  /** The arguments as sent. */
  sent: Json;
  /** The whole item as sent. */
  source: JsonObject;
  /** Fields of this item; they override the batch's. */
  fields: CallFieldsOn<'batch-item'>;
}

/** The outcome of one item. */
export interface BatchAnswer {
  item: BatchEntry;
  callId: string;
  outcome: CallResult | ToolError;
  /** Id of the earlier, equal item with this outcome. */
  duplicateOf?: string;
  durationMs: number;
}

/** Most items of one batch. */
export const MAX_BATCH = 100;

/** Members of an object that holds a batch: calls under our name, or in the message of a model as its provider sends it. */
const HOLDERS = ['calls', 'tool_calls', 'content', 'parts', 'output'] as const;
/** Items of a model's answer that are not calls. */
const OTHER_ITEMS: ReadonlySet<Json | undefined> = new Set([
  ...['text', 'output_text', 'refusal', 'message'],
  ...['thinking', 'redacted_thinking', 'reasoning'],
]);

/**
 * Reads the body of a batch: an array of calls, an object with `calls` (OpenAI: `tool_calls`) and fields for all, or the whole
 * message of a model, without its other members.
 * @throws ToolError REQUEST_INVALID for unknown and invalid fields, and for two lists of calls
 */
export function readBatchBody<E extends 'http-batch' | 'nats-batch'>(
  body: unknown,
  entry: E,
): { calls: unknown; fields: CallFieldsOn<E> } {
  if (Array.isArray(body) || isMessage(body)) return { calls: body, fields: {} as CallFieldsOn<E> };
  if (!isJsonObject(body))
    throw new ToolError('REQUEST_INVALID', { message: 'A batch must be a JSON array or object' });
  if (body.calls === undefined && body.tool_calls === undefined && (body.name ?? body.tool_name ?? body.function))
    throw new ToolError('REQUEST_INVALID', { message: 'A batch is a list of calls: put this call into an array' });
  const fields = readCallFields(body, entry, ['calls', 'tool_calls']);
  if (body.calls !== undefined && body.tool_calls !== undefined)
    throw new ToolError('REQUEST_INVALID', { message: "Send either 'calls' or 'tool_calls'" });
  return { calls: body.calls ?? body.tool_calls, fields };
}

/** The message of an assistant (OpenAI, Anthropic), a response (OpenAI) or the content of a model (Gemini). */
function isMessage(value: unknown): value is JsonObject {
  return isJsonObject(value) && (value.role === 'assistant' || value.role === 'model' || value.object === 'response');
}

/** The calls in a list or message. */
function callsIn(body: unknown): unknown {
  if (Array.isArray(body)) return body.flatMap((item) => (isMessage(item) ? (callsIn(item) as Json[]) : item));
  if (!isMessage(body)) return body;
  // Some libraries repeat the same calls under a second name.
  return HOLDERS.map((name) => body[name]).find((list) => Array.isArray(list) && list.some(isCall)) ?? [];
}

const isCall = (item: Json): boolean =>
  !isJsonObject(item) || !(OTHER_ITEMS.has(item.type) || (typeof item.text === 'string' && item.name === undefined));

/**
 * Reads a batch in any mixture of shapes: OpenAI tool calls, `function_call` items of OpenAI's Responses API, `tool_use` blocks of
 * Anthropic, function calls of Gemini, `{tool_name, parameters}` (Shannon) and `{name, arguments}`. Texts and thoughts between them
 * are left out.
 * @throws ToolError REQUEST_INVALID when it is not an array, too long, or an item has no name, an unknown or an invalid field
 */
export function readBatch(body: unknown): BatchEntry[] {
  const found = callsIn(body);
  if (!Array.isArray(found)) throw new ToolError('REQUEST_INVALID', { message: 'A batch must be an array of calls' });
  const calls = found.filter(isCall);
  if (calls.length > MAX_BATCH)
    throw new ToolError('REQUEST_INVALID', { message: `A batch must have at most ${MAX_BATCH} calls` });
  const texts = { nodesLeft: MAX_BODY_NODES };
  return calls.map((item, index) => readItem(item, index, texts));
}

/** The names and values that the JSON texts of a batch may still have together. */
interface TextAllowance {
  nodesLeft: number;
}

function readItem(item: unknown, index: number, texts: TextAllowance): BatchEntry {
  if (!isJsonObject(item)) throw new ToolError('REQUEST_INVALID', { message: `Item ${index} must be an object` });
  const called = [item.function, item.functionCall].find(isJsonObject) ?? item;
  const name = called.name ?? called.tool_name;
  if (typeof name !== 'string' || name === '')
    throw new ToolError('REQUEST_INVALID', { message: `Item ${index} has no tool name` });
  // An item of the Responses API has its own `id` besides the `call_id` that its result refers to.
  const id = [item.call_id, item.id, called.id].find((own) => typeof own === 'string' && own !== '') ?? `call_${index}`;
  const sent = called.arguments ?? called.parameters ?? called.input ?? called.args ?? null;
  return {
    id: id as string,
    name,
    arguments: readArguments(sent, texts),
    sent,
    source: item,
    fields: readFields(item, index),
  };
}

/** Members of an item that are not call fields, in any of the formats. Streaming clients of OpenAI send `index`. */
const ITEM_NAMES = [
  ...['id', 'type', 'index', 'function'],
  ...['name', 'arguments'],
  ...['tool_name', 'parameters', 'session_context'],
  ...['call_id', 'input'],
];

function readFields(item: JsonObject, index: number): CallFieldsOn<'batch-item'> {
  const format = toResultFormat(item);
  try {
    return readCallFields(item, 'batch-item', format ? [...ITEM_NAMES, ...VENDOR_MEMBERS[format]] : ITEM_NAMES);
  } catch (error) {
    if (!isToolError(error)) throw error;
    throw new ToolError(error.code, { message: `Item ${index}: ${error.message}`, details: error.details });
  }
}

/** Reads arguments: an object, or the JSON text that models send. Absent arguments are an empty object. */
function readArguments(value: Json, texts: TextAllowance): JsonObject | ToolError {
  if (value === null || value === '') return {};
  if (isJsonObject(value)) return value;
  if (typeof value !== 'string') return invalid(NO_OBJECT);
  // The body was counted with this text as one value.
  const shape = shapeOfText(value);
  texts.nodesLeft -= shape.nodes;
  const excess = texts.nodesLeft < 0 ? 'nodes' : shapeExcess(shape);
  if (excess) return invalid(BODY_EXCESS[excess]);
  try {
    const { value: parsed, inexact } = parseExact(value);
    if (inexact !== undefined) return invalid(inexactNumberMessage(inexact));
    return isJsonObject(parsed) ? parsed : invalid(NO_OBJECT);
  } catch {
    return invalid(NO_OBJECT);
  }
}

const NO_OBJECT = 'arguments must be a JSON object, or JSON text of one';
const invalid = (message: string): ToolError => new ToolError('ARGUMENTS_INVALID', { message });

/** Builds the request of one item; `index` is its position in the batch. */
type ItemRequest = (item: BatchEntry, args: JsonObject, index: number) => CallRequest;

/** How a batch runs. */
interface BatchLimits {
  /** Most items at a time. With 1 an item starts when the one before it has ended. */
  parallelism: number;
  /** End of the whole batch on the wall clock of `clock`. */
  deadlineAt: EpochMs;
  clock: Clock;
}

/**
 * Runs a batch. Items start in their order, and answers are in that order; a failure affects its own item only. The time limit of
 * an item begins when the item starts, and ends with the batch at the latest.
 * Equal items (same tool, arguments, session, context, idempotency key, …) run once: later ones get the first one's outcome and
 * are marked.
 * @throws ToolError whatever `requestFor` throws, before any item has run
 */
export async function runBatch(
  execute: ExecuteCall,
  items: readonly BatchEntry[],
  requestFor: ItemRequest,
  limits: BatchLimits,
): Promise<BatchAnswer[]> {
  const builtAt = limits.clock.now();
  // All requests are built first, so that an invalid item refuses the batch before anything has run.
  const requests = items.map((item, index) =>
    item.arguments instanceof ToolError ? item.arguments : requestFor(item, item.arguments, index),
  );
  const slots = new Semaphore(limits.parallelism);
  const firsts = new Map<string, { id: string; answer: Promise<BatchAnswer> }>();
  return Promise.all(
    items.map(async (item, index) => {
      const request = requests[index]!;
      if (request instanceof ToolError) return { item, callId: '', outcome: request, durationMs: 0 };
      // The key of the batch differs per position, so only the item's own key is compared.
      const key = requestKey(request, item.fields.idempotency_key);
      // Each item for which the caller requests a live result gets its own.
      const first = request.reuse.cache === undefined ? firsts.get(key) : undefined;
      if (first) return { ...(await first.answer), item, duplicateOf: first.id, durationMs: 0 };
      const answer = slots.run(() =>
        runOne(execute, item, startLater(request, builtAt, limits), limits.clock),
      ) as Promise<BatchAnswer>; // the queue is unbounded, so it never refuses
      firsts.set(key, { id: item.id, answer });
      return answer;
    }),
  );
}

/** Moves the deadline of a request by the time that it has waited for its turn. */
function startLater(request: CallRequest, builtAt: EpochMs, { clock, deadlineAt }: BatchLimits): CallRequest {
  const movedAt = request.limits.deadlineAt + clock.now() - builtAt;
  return { ...request, limits: { ...request.limits, deadlineAt: Math.min(movedAt, deadlineAt) } };
}

async function runOne(
  execute: ExecuteCall,
  item: BatchEntry,
  request: CallRequest,
  clock: Clock,
): Promise<BatchAnswer> {
  const from = clock.monotonic();
  const outcome = await execute(request).catch(toToolError);
  return { item, callId: request.callId, outcome, durationMs: clock.monotonic() - from };
}

/**
 * Renders the answers of a batch in their order: all in `format` if there is one, else a call in the shape of a provider in the shape
 * that provider takes back, and all others by `render`.
 * The rich content of all answers together has at most `SIZES.toolResult` bytes, because they share one message; an answer's
 * that exceeds the rest is noted as `metadata.content_omitted`.
 */
export function renderAnswers<T>(
  answers: readonly BatchAnswer[],
  render: (body: CallBody, answer: BatchAnswer) => T,
  format?: ResultFormat,
): (T | JsonObject)[] {
  let leftBytes: number = SIZES.toolResult;
  return answers.map((answer) => {
    const body = answerBody(answer, leftBytes);
    leftBytes -= contentBytes(body);
    const shape = format ?? toResultFormat(answer.item.source);
    return shape ? toVendorResult(shape, answer.item, body) : render(body, answer);
  });
}

/**
 * Renders an answer as a record for storage and streaming. `result` is the JSON text of the body that a single call would get,
 * which models read; its rich content is next to it.
 */
export function callRecord({ content, ...body }: CallBody, { item, outcome, ...answer }: BatchAnswer): CallRecord {
  const args = item.arguments instanceof ToolError ? item.sent : item.arguments;
  return {
    id: item.id,
    type: 'function',
    function: { name: item.name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
    result: JSON.stringify(body),
    content,
    success: !isToolError(outcome) && outcome.ok,
    skipped: answer.duplicateOf !== undefined,
    execution_time: Math.round(answer.durationMs),
  };
}

/** An answer as the body of a single call. In a batch a refusal is in-band too, because other items succeeded. */
function answerBody(answer: BatchAnswer, maxContentBytes: number): CallBody {
  const { outcome, duplicateOf } = answer;
  const result = isToolError(outcome) ? explainFailure(answer.item.name, failed(outcome)) : outcome;
  const marked =
    duplicateOf === undefined
      ? result
      : { ...result, metadata: { ...result.metadata, skipped: true, duplicate_of: duplicateOf } };
  return callBody(answer.callId, marked, answer.durationMs, maxContentBytes);
}
