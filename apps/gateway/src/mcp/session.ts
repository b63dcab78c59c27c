import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isInitializeRequest } from '@modelcontextprotocol/server';
import { isJsonObject, type ExchangeSession, type Json, type Milliseconds } from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import type { ProjectContext } from '@toolfleet/access';
import { supportsForms } from './elicitation.js';

/**
 * Prefixes of the session ids of 2025 clients. No replica stores a session: the prefix records whether the client declared at
 * `initialize` that it can show forms, so that any replica knows it later. An id grants nothing, so it is not signed.
 */
const WITH_FORMS = 'elicits-';
const WITHOUT_FORMS = 'session-';
const MODERN = '2026-07-28';

/** What the HTTP exchange of a call adds to its context. */
export interface Exchange {
  session?: ExchangeSession;
  project: ProjectContext;
  /** How long the request may have waited for a gateway that was suspended. */
  waitedMs?: Milliseconds;
}

/**
 * The session that calls of an exchange have when they name none: that of a 2025 client, or the caller itself in 2026-07-28, which
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
  return `${supportsForms(body.params.capabilities) ? WITH_FORMS : WITHOUT_FORMS}${randomUUID()}`;
}

/** Whether the 2025 client of a session declared at `initialize` that it can show forms. */
export function sessionSupportsForms(session: string | null | undefined): boolean {
  return session?.startsWith(WITH_FORMS) === true;
}

/** The session id of a request; undefined when it sends none. */
export function readSession(headers: IncomingHttpHeaders): string | undefined {
  const session = headers['mcp-session-id'];
  return session === undefined ? undefined : String(session);
}

/** Whether a request carries a session id that this endpoint did not issue. */
export function hasForeignSession(headers: IncomingHttpHeaders): boolean {
  const session = readSession(headers);
  return session !== undefined && !session.startsWith(WITH_FORMS) && !session.startsWith(WITHOUT_FORMS);
}

/** The id of a `tools/call` that its client can cancel by a notification: one of the 2025 revisions, not in a JSON-RPC batch. */
export function readCancellableId(headers: IncomingHttpHeaders, body: Json | undefined): string | number | undefined {
  if (!isJsonObject(body) || body['method'] !== 'tools/call' || headers['mcp-protocol-version'] === MODERN)
    return undefined;
  const { id } = body;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}
