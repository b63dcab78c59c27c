import type { IncomingHttpHeaders } from 'node:http';
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  SERVER_INFO_META_KEY,
  type CallToolResult,
} from '@modelcontextprotocol/server';
import { isJsonObject, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { ClientFeatures } from './client-features.js';
import type { McpServerDeps } from './server-deps.js';
import type { Operation } from './operation.js';
import type { RenderedCatalog } from './rendered-catalog.js';
import { hasForeignSession, type Exchange } from './session.js';
import { openSurface } from './surface.js';
import { callPlainTool } from './tool-call.js';

/** A request that the fast path may answer. */
interface FastRequest {
  /** Protocol revision 2026-07-28. */
  isModern: boolean;
  id: string | number;
  method: 'tools/list' | 'tools/call';
  params: JsonObject;
  /** `_meta` without the protocol's own keys. */
  meta: JsonObject;
}

const MODERN = '2026-07-28';
const LEGACY = new Set(['2025-03-26', '2025-06-18', '2025-11-25']);
const PREFIX = 'io.modelcontextprotocol/';
const KNOWN_META = new Set<string>([PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY]);
const PARAMS: Record<FastRequest['method'], ReadonlySet<string>> = {
  'tools/list': new Set(['cursor', '_meta']),
  'tools/call': new Set(['name', 'arguments', '_meta']),
};

/**
 * Reads a request that uses one of the two hot methods in their plainest form: correct headers, a complete envelope, no unusual
 * field. Everything else (streams, tasks, input, batches, invalid requests) is left to the SDK with all errors.
 * So the fast path changes the cost of a request and not its result: half of the gateway's CPU time for a call
 * (docs/decisions/0008-hot-path.md).
 * @returns undefined when the SDK must serve the request
 */
export function readPlainRequest(headers: IncomingHttpHeaders, body: Json | undefined): FastRequest | undefined {
  if (!isJsonObject(body) || body['jsonrpc'] !== '2.0') return undefined;
  const { id, method, params = {} } = body;
  if (typeof id !== 'string' && !(typeof id === 'number' && Number.isInteger(id))) return undefined;
  if ((method !== 'tools/list' && method !== 'tools/call') || !isJsonObject(params)) return undefined;
  if (!acceptsJsonAndEvents(headers.accept)) return undefined;
  if (!/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '')) return undefined;
  if (hasForeignSession(headers)) return undefined;
  if (Object.keys(params).some((name) => !PARAMS[method].has(name))) return undefined;
  const { cursor, _meta: wire = {} } = params;
  if (method === 'tools/list' && cursor !== undefined && typeof cursor !== 'string') return undefined;
  if (method === 'tools/call' && !isPlainCall(params)) return undefined;
  if (!isJsonObject(wire) || wire['progressToken'] !== undefined) return undefined;
  const isModern = hasEnvelope(wire);
  if (!(isModern ? isValidModern(headers, wire, method, params) : isValidLegacy(headers))) return undefined;
  const meta = Object.fromEntries(Object.entries(wire).filter(([key]) => !key.startsWith(PREFIX)));
  return { isModern, id, method, params, meta };
}

/** The sender of a plain request, and its telemetry. */
interface PlainRequestContext {
  principal: Principal;
  exchange: Exchange | undefined;
  features: ClientFeatures;
  signal: AbortSignal;
  operation: Operation | undefined;
}

/** The response to a plain request as JSON, or undefined when the SDK has to serve it after all. */
export async function answerPlainRequest(
  deps: McpServerDeps,
  { principal, exchange, features, signal, operation }: PlainRequestContext,
  request: FastRequest,
): Promise<string | undefined> {
  const { isModern, params, meta } = request;
  const surface = await openSurface(deps, principal, features);
  const { catalog } = surface;
  if (request.method === 'tools/list') return listResponse(deps, catalog, request);
  const name = String(params['name']);
  const args = (params['arguments'] ?? {}) as JsonObject;
  let result: CallToolResult | undefined;
  try {
    const routed = await surface.route({ name, arguments: args });
    if ('result' in routed) result = routed.result;
    else if (!isPlainTool(catalog, routed.call.name)) return undefined;
    else {
      const { resultReading } = surface;
      const plainCall = { ...routed.call, meta, principal, exchange, signal, resultReading };
      result = await callPlainTool(deps, plainCall, features, isModern);
    }
  } catch (error) {
    // Wrong fields in `_meta`, a tool outside the surface or one that left the catalog since it was listed: the SDK words the error.
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
  if (!result) return undefined;
  if (operation) {
    operation.tool = catalog.tools.get(name);
    operation.answered({ result });
  }
  return response(request.id, JSON.stringify(isModern ? toModernResult(deps, result) : toLegacyResult(result)));
}

/** The page was serialized when the catalog changed; only the frame around it is built here. */
function listResponse(deps: McpServerDeps, catalog: RenderedCatalog, request: FastRequest): string | undefined {
  const { id, isModern, params } = request;
  const page = catalog.pages.get(String(params['cursor'] ?? ''));
  if (!page) return undefined;
  if (!isModern) return response(id, `{${page.json}}`);
  const frame = JSON.stringify({
    ttlMs: deps.options.listTtlMs,
    cacheScope: 'private',
    resultType: 'complete',
    _meta: serverMeta(deps),
  });
  return response(id, `{${page.json},${frame.slice(1)}`);
}

/** A tool without header parameters and tasks, for one request and one response. */
function isPlainTool(catalog: RenderedCatalog, name: string): boolean {
  const tool = catalog.tools.get(name);
  return tool !== undefined && (tool.task_support ?? 'forbidden') === 'forbidden' && !catalog.headerTools.has(name);
}

/** A call that waits for people is a task; its result has the type already. */
function toModernResult(deps: McpServerDeps, result: CallToolResult): object {
  return { resultType: 'complete', ...result, _meta: { ...serverMeta(deps), ...result._meta } };
}

/** Structured content of 2025-11-25 is an object; an array is wrapped as the SDK does it. */
function toLegacyResult(result: CallToolResult): object {
  return Array.isArray(result.structuredContent)
    ? { ...result, structuredContent: { result: result.structuredContent } }
    : result;
}

function serverMeta({ options }: McpServerDeps): object {
  return { [SERVER_INFO_META_KEY]: { name: 'toolfleet', version: options.version } };
}

function response(id: string | number, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}

/** The envelope of 2026-07-28: protocol keys in `_meta`. */
function hasEnvelope(wire: JsonObject): boolean {
  return Object.keys(wire).some((key) => key.startsWith(PREFIX));
}

function isValidLegacy(headers: IncomingHttpHeaders): boolean {
  const version = headers['mcp-protocol-version'];
  if (headers['mcp-method'] !== undefined || headers['mcp-name'] !== undefined) return false;
  return version === undefined || LEGACY.has(String(version));
}

function isValidModern(headers: IncomingHttpHeaders, wire: JsonObject, method: string, params: JsonObject): boolean {
  if (Object.keys(wire).some((key) => key.startsWith(PREFIX) && !KNOWN_META.has(key))) return false;
  if (headers['mcp-protocol-version'] !== MODERN || wire[PROTOCOL_VERSION_META_KEY] !== MODERN) return false;
  if (headers['mcp-method'] !== method) return false;
  if (headers['mcp-name'] !== (method === 'tools/call' ? params['name'] : undefined)) return false;
  const info = wire[CLIENT_INFO_META_KEY];
  const isInfo =
    info === undefined ||
    (isJsonObject(info) && typeof info['name'] === 'string' && typeof info['version'] === 'string');
  return isInfo && isJsonObject(wire[CLIENT_CAPABILITIES_META_KEY]);
}

function isPlainCall({ name, arguments: args }: JsonObject): boolean {
  return typeof name === 'string' && /^[\x21-\x7e]+$/.test(name) && (args === undefined || isJsonObject(args));
}

function acceptsJsonAndEvents(accept = '*/*'): boolean {
  return accept.includes('*/*') || (accept.includes('application/json') && accept.includes('text/event-stream'));
}
