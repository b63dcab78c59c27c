import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { hasForeignSession } from './elicitation.js';

/** A plain request that needs nothing of the SDK but its rules, which are checked here word for word. */
export interface PlainRequest {
  era: 'modern' | 'legacy';
  id: string | number;
  method: 'tools/list' | 'tools/call';
  params: JsonObject;
  /** `_meta` without the protocol's own keys. */
  meta: JsonObject;
  /** Session id of a 2025 client that can be asked something. */
  session?: string;
}

const MODERN = '2026-07-28';
const LEGACY = new Set(['2025-03-26', '2025-06-18', '2025-11-25']);
const PREFIX = 'io.modelcontextprotocol/';
const KNOWN_META = new Set(['protocolVersion', 'clientCapabilities', 'clientInfo']);
const PARAMS = {
  'tools/list': new Set(['cursor', '_meta']),
  'tools/call': new Set(['name', 'arguments', '_meta']),
} as const;

/**
 * The request, when it is one of the two hot methods in its plainest form: right headers, a complete envelope, nothing
 * unusual. Everything else (streams, tasks, input, batches, anything wrong) is undefined and goes to the SDK, which also owns
 * every error answer. So this decides about speed only, never about behaviour.
 */
export function plainRequest(headers: IncomingHttpHeaders, body: Json | undefined): PlainRequest | undefined {
  if (!isJsonObject(body) || body['jsonrpc'] !== '2.0') return undefined;
  const { id, method, params = {} } = body;
  if (typeof id !== 'string' && !(typeof id === 'number' && Number.isInteger(id))) return undefined;
  if ((method !== 'tools/list' && method !== 'tools/call') || !isJsonObject(params)) return undefined;
  if (!acceptsBoth(headers.accept) || !/^application\/json\s*(;|$)/i.test(headers['content-type'] ?? ''))
    return undefined;
  if (hasForeignSession(headers)) return undefined;
  for (const name of Object.keys(params)) if (!(PARAMS[method] as ReadonlySet<string>).has(name)) return undefined;
  if (method === 'tools/list' && params['cursor'] !== undefined && typeof params['cursor'] !== 'string')
    return undefined;
  if (method === 'tools/call' && !isPlainCall(params)) return undefined;
  const wire = params['_meta'] ?? {};
  if (!isJsonObject(wire) || wire['progressToken'] !== undefined) return undefined;
  const era = eraOf(headers, wire, method, params);
  if (!era) return undefined;
  const meta = Object.fromEntries(Object.entries(wire).filter(([key]) => !key.startsWith(PREFIX)));
  const session = headers['mcp-session-id'];
  return { era, id, method, params, meta, ...(session === undefined ? {} : { session: String(session) }) };
}

function eraOf(
  headers: IncomingHttpHeaders,
  wire: JsonObject,
  method: string,
  params: JsonObject,
): PlainRequest['era'] | undefined {
  const own = Object.keys(wire).filter((key) => key.startsWith(PREFIX));
  const version = headers['mcp-protocol-version'];
  if (own.length === 0) {
    const isModern = headers['mcp-method'] !== undefined || headers['mcp-name'] !== undefined;
    return !isModern && (version === undefined || LEGACY.has(String(version))) ? 'legacy' : undefined;
  }
  if (!own.every((key) => KNOWN_META.has(key.slice(PREFIX.length)))) return undefined;
  if (version !== MODERN || wire[`${PREFIX}protocolVersion`] !== MODERN || headers['mcp-method'] !== method)
    return undefined;
  if (headers['mcp-name'] !== (method === 'tools/call' ? params['name'] : undefined)) return undefined;
  const info = wire[`${PREFIX}clientInfo`];
  const isInfo =
    info === undefined ||
    (isJsonObject(info) && typeof info['name'] === 'string' && typeof info['version'] === 'string');
  // Capabilities are only counted here; what uses them (tasks, input) goes the other way.
  return isInfo && isJsonObject(wire[`${PREFIX}clientCapabilities`]) ? 'modern' : undefined;
}

function isPlainCall(params: JsonObject): boolean {
  const { name, arguments: args } = params;
  return typeof name === 'string' && /^[\x21-\x7e]+$/.test(name) && (args === undefined || isJsonObject(args));
}

function acceptsBoth(accept: string | undefined): boolean {
  return accept !== undefined && accept.includes('application/json') && accept.includes('text/event-stream');
}

/** Envelope of an answer around a result that is JSON already. */
export function envelope(id: string | number, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}
