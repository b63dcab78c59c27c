import type { CallToolResult } from '@modelcontextprotocol/server';
import {
  CATALOGUE,
  docUrl,
  isJsonObject,
  type CallBody,
  type CallResult,
  type ContentBlock,
  type ExecutionFailure,
  type Json,
  type JsonObject,
  type ToolError,
} from '@toolfleet/contracts';
import { HANDLE, SELECTION } from '@toolfleet/catalog';
import { explainFailure, failed, shownMetadata, withDisclaimer } from '@toolfleet/engine';

/**
 * The outcome of a call. A tool that failed, and a call that was refused, are results with `isError`, so that the model can
 * correct itself; `code` and `error_type` are in `_meta`.
 */
export function renderResult(callId: string, result: CallResult): CallToolResult {
  if (!result.ok) {
    const failure = renderFailure(callId, result.failure, result.text, result.content);
    return { ...failure, _meta: { ...toMeta(result.metadata['mcp_meta']), ...failure._meta } };
  }
  const { mcp_meta: own, ...known } = shownMetadata(result);
  const metadata = Object.keys(known).length > 0 ? known : undefined;
  return {
    content: renderContent(result),
    structuredContent: structured(result),
    isError: false,
    _meta: { ...toMeta(own), call_id: callId, provenance: result.provenance, metadata },
  };
}

/** A refusal of a call of this tool, in-band and explained like a failure; without a call id when no call was made. */
export function renderRefusal(callId: string | undefined, tool: string, error: ToolError): CallToolResult {
  const { failure, text } = explainFailure(tool, failed(error));
  return renderFailure(callId, failure, text);
}

/** The stored outcome of an asynchronous call, in the shape that `renderResult` gives a call its client waited for. */
export function renderStoredResult(body: CallBody): CallToolResult {
  const {
    code,
    error_type,
    retryable,
    suggestion,
    details,
    retry_after_ms,
    provenance,
    mcp_meta: own,
    ...metadata
  } = body.metadata;
  const meta = body.success
    ? { provenance, metadata }
    : { code, error_type, retryable, suggestion, details, retry_after_ms };
  const failure = { content: body.content, text: body.text || (body.error ?? ''), output: null, metadata: {} };
  return {
    content: renderContent(body.success ? body : failure),
    structuredContent: body.success ? structured(body) : undefined,
    isError: !body.success,
    _meta: { ...toMeta(own), call_id: body.call_id, ...meta },
  };
}

/** The `_meta` of an MCP server's own result; its members follow the fleet's. */
const toMeta = (own: Json | undefined): JsonObject => (isJsonObject(own) ? own : {});

function renderFailure(
  callId: string | undefined,
  failure: ExecutionFailure | undefined,
  text = '',
  content?: ContentBlock[],
): CallToolResult {
  const code = failure?.code ?? 'TOOL_ERROR';
  const hint = CATALOGUE[code].hint;
  return {
    content: content?.length ? toBlocks(content) : [{ type: 'text', text: text || failure?.message || hint }],
    isError: true,
    _meta: {
      call_id: callId,
      code,
      error_type: failure?.errorType ?? CATALOGUE[code].class,
      retryable: failure?.retryable ?? CATALOGUE[code].retryable,
      suggestion: hint,
      doc_url: docUrl(code),
      details: failure?.details,
      retry_after_ms: failure?.retryAfterMs,
    },
  };
}

/** Executors cut texts at 5,800 to 6,000 characters; a text of this length may be cut. */
const CUT_CHARS = 5_700;

/** Rich content unchanged, else the text, else the value as JSON. A null result is the empty text. */
function renderContent({
  content,
  text,
  output,
  metadata,
}: Pick<CallResult, 'content' | 'text' | 'output' | 'metadata'>): CallToolResult['content'] {
  if (content?.length) return toBlocks(content);
  const media = toMedia(output, metadata);
  if (media) return toBlocks([{ type: 'text', text }, media]);
  // A model that reads only the text gets the whole result, unless it is too large.
  if (text.length > CUT_CHARS && typeof output === 'object' && output !== null) {
    const json = JSON.stringify(output);
    if (json.length > text.length) return [{ type: 'text', text: withDisclaimer(metadata, json) }];
  }
  if (text !== '' || output === null) return [{ type: 'text', text }];
  return [{ type: 'text', text: typeof output === 'string' ? output : JSON.stringify(output) }];
}

/** Binary output that clients show, such as a picture of an OpenAPI operation, as its block; a part of one is left as it was. */
function toMedia(output: Json, metadata: JsonObject): ContentBlock | undefined {
  if (!isJsonObject(output) || metadata['truncated'] === true) return undefined;
  const { content_base64: data, content_type: mimeType } = output;
  const type = typeof mimeType === 'string' ? /^(image|audio)\//.exec(mimeType)?.[1] : undefined;
  return type === undefined || typeof data !== 'string' ? undefined : { type, data, mimeType: mimeType! };
}

/** Content blocks have the shape of MCP throughout the fleet. */
function toBlocks(content: ContentBlock[]): CallToolResult['content'] {
  return content as unknown as CallToolResult['content'];
}

/**
 * Structured content: objects and arrays. Strings, numbers, booleans and null are in the text already. A selection is the member
 * `toolfleet_selection` of an object, and the handle of a kept result its member `toolfleet_result`, allowed by the listed output schema (`toShapedSchema`): the selected value itself would
 * not match the schema, and clients reject such a result, or one without structured content.
 */
function structured({
  output,
  metadata,
}: Pick<CallResult, 'output' | 'metadata'>): Record<string, unknown> | undefined {
  if (metadata['result_handle'] !== undefined) return { [HANDLE]: metadata['result_handle'] };
  if (metadata['select'] !== undefined) return { [SELECTION]: output };
  if (toMedia(output, metadata)) return { ...(output as JsonObject), content_base64: undefined };
  return typeof output === 'object' && output !== null ? (output as Record<string, unknown>) : undefined;
}
