import type { CallToolResult, Tool } from '@modelcontextprotocol/server';
import {
  CATALOGUE,
  type CallResult,
  type ContentBlock,
  type ExecutionFailure,
  type Json,
  type ToolError,
} from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';

/** A tool as MCP clients see it. Only an object schema can be an output schema for both revisions. */
export function renderTool(tool: RegisteredTool): Tool {
  const { title, ...annotations } = tool.annotations ?? {};
  return {
    name: tool.name,
    ...(typeof title === 'string' ? { title } : {}),
    description: tool.description,
    inputSchema: tool.input_schema as Tool['inputSchema'],
    ...(tool.output_schema?.['type'] === 'object' ? { outputSchema: tool.output_schema as Tool['outputSchema'] } : {}),
    annotations: {
      ...annotations,
      ...(tool.idempotent === undefined ? {} : { idempotentHint: tool.idempotent }),
      ...(typeof title === 'string' ? { title } : {}),
    },
    ...(tool.available === false ? { _meta: { 'io.toolfleet/available': false } } : {}),
  };
}

/**
 * The outcome of a call. A tool that failed, and a call that was refused, are results with `isError`, so that the model can
 * correct itself; `code` and `error_type` are in `_meta`.
 */
export function renderResult(callId: string, result: CallResult): CallToolResult {
  if (!result.ok) return renderFailure(callId, result.failure, result.text, result.content);
  const meta = {
    call_id: callId,
    provenance: result.provenance,
    ...(Object.keys(result.metadata).length > 0 ? { metadata: result.metadata } : {}),
  };
  return {
    content: contentOf(result),
    ...(isStructured(result.output) ? { structuredContent: result.output as Record<string, unknown> } : {}),
    isError: false,
    _meta: meta,
  } as CallToolResult;
}

/** A refusal by the engine, in-band. */
export function renderRefusal(callId: string, error: ToolError): CallToolResult {
  return renderFailure(callId, toFailure(error));
}

function renderFailure(
  callId: string,
  failure: ExecutionFailure | undefined,
  text = '',
  content?: ContentBlock[],
): CallToolResult {
  const code = failure?.code ?? 'TOOL_ERROR';
  const message = text || failure?.message || CATALOGUE[code].hint;
  const hint = CATALOGUE[code].hint;
  // A tool's own words stand alone; a refusal of ours says what can be done about it.
  const suggestion = text === '' && !message.includes(hint) ? `\n${hint}` : '';
  return {
    content: (content?.length
      ? content
      : [{ type: 'text', text: `${message}${suggestion}` }]) as CallToolResult['content'],
    isError: true,
    _meta: {
      call_id: callId,
      code,
      error_type: failure?.errorType ?? CATALOGUE[code].class,
      retryable: failure?.retryable ?? CATALOGUE[code].retryable,
      suggestion: hint,
      ...(failure?.details ? { details: failure.details } : {}),
      ...(failure?.retryAfterMs === undefined ? {} : { retry_after_ms: failure.retryAfterMs }),
    },
  } as CallToolResult;
}

/** Rich content as it came; else the text, else the value as JSON. A null result is the empty text. */
function contentOf(result: CallResult): CallToolResult['content'] {
  if (result.content?.length) return result.content as unknown as CallToolResult['content'];
  if (result.text !== '') return [{ type: 'text', text: result.text }];
  if (result.output === null) return [{ type: 'text', text: '' }];
  return [{ type: 'text', text: typeof result.output === 'string' ? result.output : JSON.stringify(result.output) }];
}

/** Strings and null are in the text already; numbers and booleans too. */
const isStructured = (output: Json): boolean => typeof output === 'object' && output !== null;
