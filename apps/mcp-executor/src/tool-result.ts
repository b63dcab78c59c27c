import { isJsonObject, ToolError, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import { failedResponse, toFailure, type ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, MAX_BODY_DEPTH, parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import { holdsSecret, redact } from '@toolfleet/telemetry';
import { toFleetBlock } from './fleet-addresses.js';
import { readAs } from './readable.js';

/** Most characters of the text for the model (contracts: `CallResult.text`). */
export const MAX_TEXT = 6_000;
/** How servers report an expired token inside a 200 response (MediaWiki-MCP-Server#443). Matched against failed results only. */
const EXPIRED_TOKEN =
  /\b(?:invalid_token|token (?:has |is )?expired|expired (?:access )?token|unauthorized|401 unauthorized)\b/i;

/** Blocks of content that clients of MCP know, by type. */
const BLOCKS = new Map<unknown, Parameters<typeof readAs>[0]>([
  ['text', 'TextContent'],
  ['image', 'ImageContent'],
  ['audio', 'AudioContent'],
  ['resource_link', 'ResourceLink'],
  ['resource', 'EmbeddedResource'],
]);
/** Maximum number of unreadable parts that are named, and maximum length of a name. */
const MAX_NAMED = 5;
const MAX_NAME = 100;

/**
 * A tool result as the outcome of an attempt: `structuredContent` becomes the output, and unless the content is a single plain text block,
 * all blocks stay in `content` in their order. The result is read as it arrived, because the tool has run: what can be read is
 * delivered, a member that is null counts as absent, and other parts are named in a line of text.
 * @param authority of the server in addresses of the fleet
 */
export function toExecResponse(result: JsonObject, authority?: string): ExecResponse {
  if (isNestedTooDeep(result)) {
    const message = `The result is nested deeper than ${MAX_BODY_DEPTH} levels`;
    return failedResponse(new ToolError('RESULT_TOO_LARGE', { message }));
  }
  const { read, unread } = readContent(result['content']);
  const structured = result['structuredContent'] ?? undefined;
  const isError = result['isError'] === true || result['isError'] === 'true';
  if (unread.length > 0 && read.length === 0 && structured === undefined && !isError)
    return failedResponse(unreadableResult(namesOf(unread)));
  const blocks = read.map((block) => toFleetBlock(block, authority));
  const texts = blocks.filter((block) => block['type'] === 'text').map((block) => String(block['text']));
  const output = structured ?? readOutput(texts.join('\n'), texts.length);
  if (unread.length > 0) {
    const text = unreadNote(unread);
    blocks.push({ type: 'text', text });
    texts.push(text);
  }
  const joined = texts.join('\n');
  const plain = blocks.every((block) => block['type'] === 'text' && Object.keys(block).length <= 2);
  const meta = ownMeta(result['_meta']);
  const response: ExecResponse = {
    ok: !isError,
    output,
    text: joined.slice(0, MAX_TEXT),
    metadata: meta ? { mcp_meta: meta } : {},
    // One plain text block repeats `text` and `output`, unless the text was cut.
    content: plain && texts.length <= 1 && joined.length <= MAX_TEXT ? undefined : blocks,
  };
  if (!response.ok) {
    const message = joined.slice(0, 2_000) || 'The tool reported an error without a message';
    response.failure = toFailure(new ToolError('TOOL_ERROR', { message }));
  }
  return response;
}

function namesOf(unread: readonly string[]): string {
  const more = unread.length > MAX_NAMED ? [`${unread.length - MAX_NAMED} more`] : [];
  return [...unread.slice(0, MAX_NAMED), ...more].join('; ');
}

/** The line for the model about parts of a result that cannot be read. */
export const unreadNote = (unread: readonly string[]): string =>
  `[The result has parts that cannot be read: ${namesOf(unread)}]`;

/** The failure of a tool that ran, without a readable result. It must not invite to a repetition. */
export function unreadableResult(what: string): ToolError {
  return new ToolError('RESULT_UNREADABLE', { message: `The tool ran; its result cannot be read: ${what}` });
}

/** The blocks of a content that can be read, and names of the other parts. */
function readContent(content: Json | undefined): { read: ContentBlock[]; unread: string[] } {
  const read: ContentBlock[] = [];
  const unread: string[] = [];
  for (const part of Array.isArray(content) ? content : [content ?? []].flat()) {
    const block = typeof part === 'string' ? { type: 'text', text: part } : part;
    const found = isJsonObject(block) ? readBlock(block) : `a block that is ${JSON.stringify(block)}`;
    if (typeof found === 'string') unread.push(found.replaceAll(/\s+/g, ' ').slice(0, MAX_NAME));
    else read.push(found);
  }
  return { read, unread };
}

/** A block without members that no client could read; its name if it is unreadable without them. */
function readBlock(block: JsonObject): ContentBlock | string {
  if (isPlainText(block)) return block;
  const name = `a block of type ${String(block['type'])}`;
  const type = BLOCKS.get(block['type']);
  const missing: string[] = [];
  const read = type && readAs(type, block, missing);
  if (read) return read as unknown as ContentBlock;
  return missing.length > 0 ? `${name} (${missing.map((line) => line.split(':')[0]).join(', ')})` : name;
}

const isPlainText = (block: JsonObject): boolean =>
  block['type'] === 'text' && typeof block['text'] === 'string' && Object.keys(block).length === 2;

/** Whether a failed result reports that the fleet's credential has expired. */
export function reportsExpiredToken({ ok, text }: ExecResponse): boolean {
  return !ok && EXPIRED_TOKEN.test(text);
}

/**
 * Redacts the fleet's credentials from a response: a server that echoes its request, as debug endpoints and attackers do, must
 * not pass them to the caller. A response without credentials is returned unchanged.
 */
export function redactSecrets(response: ExecResponse): ExecResponse {
  const json = toExactJson(response);
  return holdsSecret(json) ? parseExact<ExecResponse>(redact(json)).value : response;
}

/** The output of a result without structured content: a single text that is a JSON object or array is parsed. */
function readOutput(text: string, blocks: number): Json {
  if (blocks === 0) return null;
  return blocks === 1 && /^\s*[[{]/.test(text) ? parseJsonOrText(text) : text;
}

/** Parses JSON. Text that is not JSON, or is nested too deeply, is returned as is. */
export function parseJsonOrText(text: string): Json {
  try {
    const { value } = parseExact(text);
    return isNestedTooDeep(value, text.length) ? text : value;
  } catch {
    return text;
  }
}

/** Prefixes of `_meta` keys of the protocol (revision, identity, capabilities), and of this fleet. */
const RESERVED = ['io.modelcontextprotocol/', 'io.toolfleet/'];

/** The members of a `_meta` that are the server's own; undefined when there are none. */
export function ownMeta(meta: unknown): JsonObject | undefined {
  if (!isJsonObject(meta)) return undefined;
  const own = Object.entries(meta).filter(([key]) => !RESERVED.some((prefix) => key.startsWith(prefix)));
  return own.length > 0 ? Object.fromEntries(own) : undefined;
}
