import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { CLIENT_INFO_META_KEY, isInitializeRequest } from '@modelcontextprotocol/server';
import {
  isJsonObject,
  type CallRequest,
  type ExchangeSession,
  type Json,
  type Milliseconds,
} from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import { readUserAgent, toClientName, type ProjectContext } from '@toolfleet/access';
import { readClientCapabilities, readFeatures, type ClientFeatures } from './client-features.js';

/**
 * Prefix of the session ids of 2025 clients. No replica stores a session: after the prefix an id has the client's capabilities from
 * `initialize` (`session-forms-apps-client.<name in hex>-<uuid>`), so that any replica knows it later. An id grants nothing, so it is
 * not signed.
 */
const PREFIX = 'session-';
const MODERN = '2026-07-28';
const CLIENT = 'client.';

/** Additions of the HTTP exchange to the context of a call. */
export interface Exchange {
  session?: ExchangeSession;
  project: ProjectContext;
  /** Program that sent the request, as it names itself. */
  client?: string | undefined;
  /** How long the request may have waited for a gateway that was suspended. */
  waitedMs?: Milliseconds;
  /** A call that the fast path made, and that goes on with a question to a person. */
  begun?: { request: CallRequest; refusal: unknown };
}

/**
 * The session that calls of an exchange have when they name none: a 2025 client's, or the caller itself in 2026-07-28, which
 * has no sessions. Tools keep state per user, so the id need not name the user.
 */
export function exchangeSession(headers: IncomingHttpHeaders): ExchangeSession | undefined {
  if (headers['mcp-protocol-version'] === MODERN) return { id: 'mcp', scope: 'principal' };
  const id = readSession(headers);
  return isPlainId(id) && id.length <= 255 ? { id, scope: 'connection' } : undefined;
}

/** The session id to answer an `initialize` request with; undefined for all other bodies. */
export function newSessionId(body: Json | undefined): string | undefined {
  if (!isInitializeRequest(body)) return undefined;
  const declared = Object.entries(readFeatures(body.params.capabilities)).flatMap(([name, is]) => (is ? [name] : []));
  const client = describeClient(body.params.clientInfo);
  const named = client === undefined ? [] : [CLIENT + Buffer.from(client).toString('hex')];
  return PREFIX + [...declared, ...named, randomUUID()].join('-');
}

/**
 * The program that sent a request: as it names itself in the envelope of the request, in 2025 revisions at `initialize`, else by its
 * `User-Agent`.
 */
export function requestClient(headers: IncomingHttpHeaders, body: Json | undefined): string | undefined {
  const params = isJsonObject(body) ? body['params'] : undefined;
  const meta = isJsonObject(params) ? params['_meta'] : undefined;
  const named = isJsonObject(meta) ? describeClient(meta[CLIENT_INFO_META_KEY]) : undefined;
  return named ?? sessionClient(readSession(headers)) ?? readUserAgent(headers['user-agent']);
}

function sessionClient(session: string | undefined): string | undefined {
  if (!isOwn(session)) return undefined;
  const part = session.split('-').find((each) => each.startsWith(CLIENT));
  return part && toClientName(Buffer.from(part.slice(CLIENT.length), 'hex').toString());
}

function describeClient(info: unknown): string | undefined {
  if (!isJsonObject(info) || typeof info['name'] !== 'string') return undefined;
  const { name, version } = info;
  return toClientName(typeof version === 'string' && version !== '' ? `${name}/${version}` : name);
}

/** Declared capabilities of a request's client: in the envelope of the request, or in 2025 revisions at `initialize`. */
export function requestFeatures(headers: IncomingHttpHeaders, body: Json | undefined): ClientFeatures {
  const params = isJsonObject(body) ? body['params'] : undefined;
  const capabilities = isJsonObject(params) ? readClientCapabilities(params['_meta']) : undefined;
  return capabilities === undefined ? sessionFeatures(readSession(headers)) : readFeatures(capabilities);
}

function sessionFeatures(session: string | undefined): ClientFeatures {
  const declared = new Set(isOwn(session) ? session.split('-') : []);
  return { forms: declared.has('forms'), urls: declared.has('urls'), apps: declared.has('apps'), tasks: false };
}

/** The session id of a request; undefined when it sends none. */
export function readSession(headers: IncomingHttpHeaders): string | undefined {
  const session = headers['mcp-session-id'];
  return session === undefined ? undefined : String(session);
}

/** The session of a 2025 client that opens its stream; undefined for other requests, and for sessions that this endpoint did not issue. */
export function readStreamSession({ method, headers }: IncomingMessage): string | undefined {
  const session = readSession(headers);
  if (method !== 'GET' || headers['mcp-protocol-version'] === MODERN || !isOwn(session)) return undefined;
  return headers.accept?.includes('text/event-stream') ? session : undefined;
}

/** The session id of a 2025 client's request, if this endpoint issued it. */
export function ownSession({ session }: Exchange): string | undefined {
  return session?.scope === 'connection' && isOwn(session.id) ? session.id : undefined;
}

const isOwn = (session: string | undefined): session is string => session?.startsWith(PREFIX) === true;

/** Whether a request carries a session id that this endpoint did not issue. */
export function hasForeignSession(headers: IncomingHttpHeaders): boolean {
  const session = readSession(headers);
  return session !== undefined && !isOwn(session);
}

/** The id of a `tools/call` that its client can cancel by a notification: one of the 2025 revisions, not in a JSON-RPC batch. */
export function readCancellableId(headers: IncomingHttpHeaders, body: Json | undefined): string | number | undefined {
  if (!isJsonObject(body) || body['method'] !== 'tools/call' || headers['mcp-protocol-version'] === MODERN)
    return undefined;
  const { id } = body;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}
