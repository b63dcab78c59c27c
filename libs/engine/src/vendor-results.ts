import { isJsonObject, type CallBody, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import type { RESULT_FORMATS } from '@toolfleet/contracts/resources';

/** Formats in which a result can be returned to a model provider: names of those in which tools are listed. */
export type ResultFormat = (typeof RESULT_FORMATS)[number];

/**
 * The format of the provider that a call names: `function_call` is an item of OpenAI's Responses API, `tool_use` a content block of
 * Anthropic's Messages API, `functionCall` a part of Gemini's API (SDKs also hand it out bare, as `{name, args}`). Undefined for the
 * other shapes (tool calls of Chat Completions, `{tool_name, parameters}`, `{name, arguments}`): they also mean other things.
 */
export function toResultFormat({ type, functionCall, args }: JsonObject): ResultFormat | undefined {
  if (type === 'function_call') return 'openai-responses';
  if (type === 'tool_use') return 'anthropic';
  return functionCall !== undefined || args !== undefined ? 'gemini' : undefined;
}

/** Members that calls in these formats have besides type, name and arguments. */
export const VENDOR_MEMBERS: Readonly<Record<ResultFormat, readonly string[]>> = {
  openai: [],
  'openai-responses': ['call_id', 'status', 'namespace'],
  anthropic: ['input', 'caller', 'cache_control'],
  gemini: ['functionCall', 'args', 'thought', 'thoughtSignature'],
};

/** A call that a result answers. */
interface AnsweredCall {
  /** The call's own id: `call_id` or `id` as sent, else a generated one. */
  id: string;
  name: string;
  /** The call as sent. */
  source: JsonObject;
}

/**
 * A result in the shape that the provider takes back, with its pictures and documents. A block that the provider does not take, such
 * as audio, becomes a text that names it.
 */
export function toVendorResult(format: ResultFormat, call: AnsweredCall, body: CallBody): JsonObject {
  const blocks = readBlocks(body);
  switch (format) {
    case 'openai':
      return { role: 'tool', tool_call_id: call.id, content: toText(blocks) };
    case 'openai-responses': {
      const isText = blocks.every(({ data }) => data === undefined);
      const output: Json = isText ? toText(blocks) : blocks.map(toOpenaiPart);
      return { type: 'function_call_output', call_id: call.id, output };
    }
    case 'anthropic': {
      const result: JsonObject = { type: 'tool_result', tool_use_id: call.id, content: blocks.map(toAnthropicBlock) };
      if (!body.success) result.is_error = true;
      return result;
    }
    case 'gemini':
      return { functionResponse: toFunctionResponse(call, blocks, body.success) };
  }
}

const toText = (blocks: readonly ModelBlock[]): string => blocks.map(({ text }) => text).join('\n');

/** A function response of Gemini: `output` or `error`, and data as separate parts. It has an id only if the call had one. */
function toFunctionResponse(
  { name, source }: AnsweredCall,
  blocks: readonly ModelBlock[],
  success: boolean,
): JsonObject {
  const called = isJsonObject(source.functionCall) ? source.functionCall : source;
  const response: JsonObject = { name, response: { [success ? 'output' : 'error']: toText(blocks) } };
  if (typeof called.id === 'string') response.id = called.id;
  const parts = blocks.flatMap(({ data, mimeType }) => (data === undefined ? [] : { inlineData: { mimeType, data } }));
  if (parts.length > 0) response.parts = parts;
  return response;
}

/** A block for a model: text, or base64 data with its type. `text` describes the data. */
interface ModelBlock {
  text: string;
  data?: string;
  mimeType: string;
  name: string;
}

const PICTURES: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const PDF = 'application/pdf';

/** The content of a result; without any, its text, else its output as JSON. Empty texts are left out: providers refuse them. */
function readBlocks({ content, text, output, metadata }: CallBody): ModelBlock[] {
  const asText = (shown: string): ModelBlock => ({ text: shown, mimeType: 'text/plain', name: '' });
  const omitted = metadata.content_omitted === undefined ? [] : [asText(omittedNote(metadata.content_omitted))];
  const plain = text !== '' || output === null ? text : typeof output === 'string' ? output : JSON.stringify(output);
  const blocks = content?.length ? content.map(toModelBlock) : [asText(plain), ...readBinary(output), ...omitted];
  return blocks.filter((block) => block.text !== '');
}

/** The binary output of an OpenAPI operation; the text only describes it. */
function readBinary(output: Json): ModelBlock[] {
  if (!isJsonObject(output) || typeof output.content_base64 !== 'string') return [];
  const block = toModelBlock({ type: 'output', data: output.content_base64, mimeType: output.content_type ?? '' });
  return block.data === undefined ? [] : [block];
}

const omittedNote = (omitted: Json): string =>
  `Pictures and files were too large and left out: ${JSON.stringify(omitted)}`;

function toModelBlock(block: ContentBlock): ModelBlock {
  const resource = isJsonObject(block.resource) ? block.resource : block;
  const { mimeType: type, uri, name: given, text } = resource;
  const mimeType = typeof type === 'string' ? type : 'application/octet-stream';
  const name = typeof given === 'string' ? given : typeof uri === 'string' ? uri : String(block.type);
  if (typeof text === 'string') return { text, mimeType, name };
  if (block.type === 'resource_link') return { text: `${name}: ${String(uri)}`, mimeType, name };
  const data = block.data ?? resource.blob;
  if (typeof data !== 'string') return { text: JSON.stringify(block), mimeType, name };
  const note = `${name} (${mimeType}, ${Math.floor((data.length * 3) / 4)} bytes) is not shown here`;
  return { text: note, data: PICTURES.has(mimeType) || mimeType === PDF ? data : undefined, mimeType, name };
}

function toAnthropicBlock({ text, data, mimeType }: ModelBlock): JsonObject {
  if (data === undefined) return { type: 'text', text };
  const source: JsonObject = { type: 'base64', media_type: mimeType, data };
  return { type: mimeType === PDF ? 'document' : 'image', source };
}

function toOpenaiPart({ text, data, mimeType, name }: ModelBlock): JsonObject {
  if (data === undefined) return { type: 'input_text', text };
  const url = `data:${mimeType};base64,${data}`;
  return mimeType === PDF
    ? { type: 'input_file', filename: name.slice(name.lastIndexOf('/') + 1), file_data: url }
    : { type: 'input_image', image_url: url, detail: 'auto' };
}
