import { isJsonObject, type CallBody, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';

/**
 * Shapes of tool calls that name their provider: `function_call` is an item of OpenAI's Responses API, `tool_use` a content block of
 * Anthropic's Messages API. A batch answers such a call in the shape that the provider takes back. Other shapes (tool calls of Chat
 * Completions, `{tool_name, parameters}`, `{name, arguments}`) are answered with call records.
 */
export type VendorShape = 'function_call' | 'tool_use';

/** The shape of a call as sent; undefined for one that names no provider. */
export function toVendorShape({ type }: JsonObject): VendorShape | undefined {
  return type === 'function_call' || type === 'tool_use' ? type : undefined;
}

/** Members that these shapes have besides type, name and arguments. */
export const VENDOR_MEMBERS: Readonly<Record<VendorShape, readonly string[]>> = {
  function_call: ['call_id', 'status', 'namespace'],
  tool_use: ['input', 'caller', 'cache_control'],
};

/**
 * A result in the shape that the provider takes back, with its pictures and documents. A block that the provider does not take, such
 * as audio, becomes a text that names it.
 * @param id the call's own id: `call_id` or `id` as sent
 */
export function toVendorResult(shape: VendorShape, id: string, body: CallBody): JsonObject {
  const blocks = readBlocks(body);
  if (shape === 'tool_use') {
    const content = blocks.map(toAnthropicBlock);
    const result: JsonObject = { type: 'tool_result', tool_use_id: id, content };
    if (!body.success) result.is_error = true;
    return result;
  }
  const isText = blocks.every(({ data }) => data === undefined);
  const output: Json = isText ? blocks.map(({ text }) => text).join('\n') : blocks.map(toOpenaiPart);
  return { type: 'function_call_output', call_id: id, output };
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

/** The content of a result; without any, its text, else its output as JSON. Empty texts are left out, which providers refuse. */
function readBlocks({ content, text, output, metadata }: CallBody): ModelBlock[] {
  const asText = (shown: string): ModelBlock => ({ text: shown, mimeType: 'text/plain', name: '' });
  const omitted = metadata.content_omitted === undefined ? [] : [asText(omittedNote(metadata.content_omitted))];
  const plain = text !== '' || output === null ? text : typeof output === 'string' ? output : JSON.stringify(output);
  const blocks = content?.length ? content.map(toModelBlock) : [asText(plain), ...readBinary(output), ...omitted];
  return blocks.filter((block) => block.text !== '');
}

/** The binary output of an OpenAPI operation, which the text only describes. */
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
