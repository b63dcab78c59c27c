import type { CallToolResult } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError, type ContentBlock, type Json } from '@toolfleet/contracts';
import { toFailure, failedResponse, type ExecResponse } from '@toolfleet/contracts/execution';
import { isNestedTooDeep, MAX_BODY_DEPTH, parseExact } from '@toolfleet/contracts/json-text';

/** Text for the model is cut here (contracts `CallResult.text`). */
const MAX_TEXT = 6_000;
/** Servers that hide an expired token inside a 200 answer (MediaWiki-MCP-Server#443). Only looked for in failed results. */
const EXPIRED_TOKEN =
  /\b(?:invalid_token|token (?:has |is )?expired|expired (?:access )?token|unauthorized|401 unauthorized)\b/i;

/**
 * A tool result as the outcome of an attempt, without loss: every content block that is not plain text, and every text
 * block beside others, stays in `content` in its order; `structuredContent` is the output.
 */
export function mapToolResult(result: CallToolResult): ExecResponse {
  if (isNestedTooDeep(result as unknown as Json)) {
    const message = `The result is nested deeper than ${MAX_BODY_DEPTH} levels`;
    return failedResponse(new ToolError('RESULT_TOO_LARGE', { message }));
  }
  const blocks = (result.content ?? []) as unknown as ContentBlock[];
  const texts = blocks.filter((block) => block['type'] === 'text').map((block) => String(block['text'] ?? ''));
  const joined = texts.join('\n');
  const structured = result.structuredContent as Json | undefined;
  const plain = blocks.every((block) => block['type'] === 'text' && block['annotations'] === undefined);
  const reply: ExecResponse = {
    ok: result.isError !== true,
    output: structured === undefined ? outputOf(joined, texts.length) : structured,
    text: joined.slice(0, MAX_TEXT),
    metadata: remoteMeta(result),
    // One plain text block says nothing that `text` and `output` do not say already, unless it was cut.
    ...(plain && texts.length <= 1 && joined.length <= MAX_TEXT ? {} : { content: blocks }),
  };
  if (!reply.ok) {
    const message = joined.slice(0, 2_000) || 'The tool reported an error without a message';
    reply.failure = toFailure(new ToolError('TOOL_ERROR', { message }));
  }
  return reply;
}

/** True when a failed result says that our credential has expired. */
export function reportsExpiredToken(reply: ExecResponse): boolean {
  return !reply.ok && EXPIRED_TOKEN.test(reply.text);
}

/** Without structured content a single text that is a JSON object or array counts as the value; anything else is the text. */
function outputOf(text: string, blocks: number): Json {
  if (blocks === 0) return null;
  return blocks === 1 && /^\s*[[{]/.test(text) ? jsonOr(text) : text;
}

/** JSON of a depth the fleet can handle as a value, integers beyond a double as text; anything else stays text. */
export function jsonOr(text: string): Json {
  try {
    const { value } = parseExact(text);
    return isNestedTooDeep(value, text.length) ? text : value;
  } catch {
    return text;
  }
}

/** Facts of the server about this result; the protocol's own keys are left out. */
function remoteMeta(result: CallToolResult): ExecResponse['metadata'] {
  const meta = result._meta as unknown;
  if (!isJsonObject(meta)) return {};
  const own = Object.entries(meta).filter(([key]) => !key.startsWith('io.modelcontextprotocol/'));
  return own.length > 0 ? { mcp_meta: Object.fromEntries(own) } : {};
}
