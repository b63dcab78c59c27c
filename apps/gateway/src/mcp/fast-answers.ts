import { ProtocolError, type CallToolResult } from '@modelcontextprotocol/server';
import type { JsonObject, Principal } from '@toolfleet/contracts';
import { envelope, type PlainRequest } from './fast-path.js';
import { capabilitiesIn, runTool } from './call-tool.js';
import { sessionTakesForms, takesForms } from './elicitation.js';
import { audienceOf, type DoorParts } from './handlers.js';
import type { Audience } from './tool-catalog.js';

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';

/** The answer to a plain request as JSON, or undefined when it needs the SDK after all. */
export async function fastAnswer(
  parts: DoorParts,
  principal: Principal,
  request: PlainRequest,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { audience, isSearch } = await audienceOf(parts, principal);
  if (request.method === 'tools/list') return listAnswer(parts, audience, request);
  if (isSearch || !isPlainTool(parts, audience, String(request.params['name']))) return undefined;
  const call = { name: String(request.params['name']), arguments: (request.params['arguments'] ?? {}) as JsonObject };
  const { meta, era } = request;
  const canAsk =
    era === 'modern' ? takesForms(capabilitiesIn(request.params['_meta'])) : sessionTakesForms(request.session);
  let result: CallToolResult | undefined;
  try {
    result = await runTool(parts, principal, { ...call, meta, signal }, canAsk);
  } catch (error) {
    // The tool left the catalog between the list and the call: the SDK words the answer.
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
  if (!result) return undefined;
  return envelope(
    request.id,
    JSON.stringify(request.era === 'modern' ? modernResult(parts, result) : legacyResult(result)),
  );
}

/** The page was serialised when the catalog changed; only the frame is made here. */
function listAnswer({ options }: DoorParts, audience: Audience, { id, era, params }: PlainRequest): string | undefined {
  const page = audience.pages.get(String(params['cursor'] ?? ''));
  if (!page) return undefined;
  if (era === 'legacy') return envelope(id, `{${page.json}}`);
  const frame = JSON.stringify({
    ttlMs: options.listTtlMs,
    cacheScope: 'private',
    resultType: 'complete',
    _meta: { [SERVER_INFO]: serverInfo(options.version) },
  });
  return envelope(id, `{${page.json},${frame.slice(1)}`);
}

/** No header parameters, no tasks, no fixture: nothing that needs more than one request and one answer. */
function isPlainTool({ options }: DoorParts, audience: Audience, name: string): boolean {
  const tool = audience.tools.get(name);
  if (!tool || (tool.task_support ?? 'forbidden') !== 'forbidden') return false;
  return !audience.headerTools.has(name) && !options.extras;
}

function modernResult({ options }: DoorParts, result: CallToolResult): object {
  return { ...result, resultType: 'complete', _meta: { [SERVER_INFO]: serverInfo(options.version), ...result._meta } };
}

/** Structured content of 2025-11-25 is an object; a list is wrapped, as the SDK does it. */
function legacyResult(result: CallToolResult): object {
  return Array.isArray(result.structuredContent)
    ? { ...result, structuredContent: { result: result.structuredContent } }
    : result;
}

const serverInfo = (version: string) => ({ name: 'toolfleet', version });
