import type { CallToolResult } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import { failedResponse, toFailure, type ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, MAX_BODY_DEPTH, parseExact } from '@toolfleet/contracts/json-text';
import { holdsSecret, redact } from '@toolfleet/telemetry';
import { toFleetBlock } from './fleet-addresses.js';

/** Most characters of the text for the model (contracts: `CallResult.text`). */
export const MAX_TEXT = 6_000;
/** How servers report an expired token inside a 200 response (MediaWiki-MCP-Server#443). Matched against failed results only. */
const EXPIRED_TOKEN =
  /\b(?:invalid_token|token (?:has |is )?expired|expired (?:access )?token|unauthorized|401 unauthorized)\b/i;

/**
 * A tool result as the outcome of an attempt, without loss: `structuredContent` becomes the output, and unless the content is
 * a single plain text block, all blocks stay in `content` in their order.
 * @param authority of the server in addresses of the fleet
 */
export function toExecResponse(result: CallToolResult, authority?: string): ExecResponse {
  if (isNestedTooDeep(result as unknown as Json)) {
    const message = `The result is nested deeper than ${MAX_BODY_DEPTH} levels`;
    return failedResponse(new ToolError('RESULT_TOO_LARGE', { message }));
  }
  const blocks = ((result.content ?? []) as unknown as ContentBlock[]).map((block) => toFleetBlock(block, authority));
  const texts = blocks.filter((block) => block['type'] === 'text').map((block) => String(block['text'] ?? ''));
  const joined = texts.join('\n');
  const structured = result.structuredContent as Json | undefined;
  const plain = blocks.every((block) => block['type'] === 'text' && Object.keys(block).length <= 2);
  const meta = ownMeta(result._meta);
  const response: ExecResponse = {
    ok: result.isError !== true,
    output: structured === undefined ? readOutput(joined, texts.length) : structured,
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

/** Whether a failed result reports that the fleet's credential has expired. */
export function reportsExpiredToken({ ok, text }: ExecResponse): boolean {
  return !ok && EXPIRED_TOKEN.test(text);
}

/**
 * Redacts the fleet's credentials from a response: a server that echoes its request, as debug endpoints and attackers do, must
 * not pass them to the caller. A response without credentials is returned unchanged.
 */
export function redactSecrets(response: ExecResponse): ExecResponse {
  const json = JSON.stringify(response);
  return holdsSecret(json) ? (JSON.parse(redact(json)) as ExecResponse) : response;
}

/** The output of a result without structured content: a single text that is a JSON object or array is parsed. */
function readOutput(text: string, blocks: number): Json {
  if (blocks === 0) return null;
  return blocks === 1 && /^\s*[[{]/.test(text) ? parseJsonOrText(text) : text;
}

/** Parses JSON, with integers beyond a double as strings. Text that is not JSON, or is nested too deeply, is returned as is. */
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
