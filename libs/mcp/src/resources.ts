import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError, type Server } from '@modelcontextprotocol/server';
import { isJsonObject, isToolError } from '@toolfleet/contracts';
import { RESULT_URI, withDisclaimer } from '@toolfleet/engine';
import type { PartRequest, ResultReader } from '@toolfleet/results';
import { callFeature, openFeatures, pageOf, UNCACHED, type FeatureCaller } from './features.js';
import { findSubscribable } from './listen.js';
import type { McpSession } from './redis-session-subscriptions.js';
import { orRpcError, toRpcRefusal } from './rpc-errors.js';
import { ownSession } from './session.js';
import type { SessionStreams } from './session-streams.js';

type ReadResult = ResultReader['read'];

const TEMPLATE = {
  uriTemplate: `${RESULT_URI}{handle}{?select,offset,limit}`,
  name: 'kept result',
  description: 'A result that was too large to show: a selection of it (JSONPath or JMESPath), or a page of its text',
  mimeType: 'application/json',
};

/**
 * Installs the resources of MCP servers, and kept results as resources `toolfleet://results/<handle>?select=…` or
 * `?offset=…&limit=…`. Kept results are found by the links of tool results: a list of them would name the calls of other clients of the
 * same key.
 */
export function installResources(server: Server, caller: FeatureCaller): void {
  const { deps, principal } = caller;
  const { readResult } = deps;
  const list = { ttlMs: deps.options.listTtlMs, cacheScope: 'private' as const };

  server.setRequestHandler('resources/list', async ({ params }) => {
    const { items, nextCursor } = pageOf((await openFeatures(deps, principal)).resources, params?.cursor);
    return { resources: items as never, nextCursor, ...list };
  });

  server.setRequestHandler('resources/templates/list', async ({ params }) => {
    const { resourceTemplates } = await openFeatures(deps, principal);
    const { items, nextCursor } = pageOf([...(readResult ? [TEMPLATE] : []), ...resourceTemplates], params?.cursor);
    return { resourceTemplates: items as never, nextCursor, ...list };
  });

  server.setRequestHandler('resources/read', async ({ params }, context) => {
    const { uri } = params;
    if (readResult && uri.startsWith(RESULT_URI)) {
      const id = isJsonObject(params._meta) ? params._meta['session_id'] : undefined;
      const session = typeof id === 'string' ? { id, userId: principal.userId } : undefined;
      return readKeptResult(readResult, { principal, session, signal: context.mcpReq.signal }, uri);
    }
    const resource = (await openFeatures(deps, principal)).resource(uri);
    if (!resource) throw new ResourceNotFoundError(uri);
    const result = await callFeature(caller, resource.definition, { uri: resource.uri }, context, { address: uri });
    return { ...UNCACHED, ...result } as never;
  });
}

/** Installs the subscriptions of 2025 clients. Each is decided by a dry run of the request that reads the resource. */
export function installSubscriptions(server: Server, caller: FeatureCaller, sessions: SessionStreams): void {
  const { deps, principal, exchange } = caller;
  const session = (): McpSession => {
    const id = exchange && ownSession(exchange);
    if (id !== undefined) return { principal, id };
    throw new ProtocolError(ProtocolErrorCode.InvalidRequest, 'Subscriptions need the Mcp-Session-Id of initialize');
  };

  server.setRequestHandler('resources/subscribe', async ({ params: { uri } }, context) => {
    const subscribing = session();
    const resource = await findSubscribable(deps, principal, uri);
    if (!resource) throw new ResourceNotFoundError(uri);
    await callFeature(caller, resource.definition, { uri: resource.uri }, context, { address: uri, dryRun: true });
    await orRpcError(sessions.subscribe(subscribing, uri));
    return {};
  });

  server.setRequestHandler('resources/unsubscribe', async ({ params: { uri } }) => {
    await orRpcError(sessions.unsubscribe(session(), uri));
    return {};
  });
}

/** @throws ResourceNotFoundError, ProtocolError -32602 */
async function readKeptResult(read: ReadResult, caller: Parameters<ReadResult>[0], uri: string) {
  const { handle, part } = readUri(uri);
  const found = await read(caller, handle, part).catch((error: unknown) => {
    if (!isToolError(error)) throw error;
    if (error.code === 'NOT_FOUND') throw new ResourceNotFoundError(uri);
    if (error.code === 'PERMISSION_DENIED') throw toRpcRefusal(error);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
  });
  const { text, output, ...facts } = found;
  const content = output === undefined ? String(text) : JSON.stringify(output);
  // JSON with a note in front is none.
  const mimeType = output === undefined || facts.disclaimer !== undefined ? 'text/plain' : 'application/json';
  return { contents: [{ uri, mimeType, text: withDisclaimer(facts, content), _meta: facts }], ...UNCACHED };
}

/** @throws ResourceNotFoundError, ProtocolError -32602 */
function readUri(uri: string): { handle: string; part: PartRequest } {
  const url = URL.canParse(uri) ? new URL(uri) : undefined;
  if (!url) throw new ResourceNotFoundError(uri);
  const number = (name: string): number | undefined => {
    const value = url.searchParams.get(name);
    if (value === null) return undefined;
    if (/^\d{1,9}$/.test(value)) return Number(value);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `${name} must be a non-negative integer`);
  };
  const select = url.searchParams.get('select') ?? undefined;
  const handle = url.pathname.slice(1);
  return { handle, part: { select, offset: number('offset'), limit: number('limit') } };
}
