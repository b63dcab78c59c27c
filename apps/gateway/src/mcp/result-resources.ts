import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError, type Server } from '@modelcontextprotocol/server';
import { isJsonObject, isToolError, type Principal } from '@toolfleet/contracts';
import { RESULT_URI, withDisclaimer } from '@toolfleet/engine';
import type { PartRequest, ResultReader } from '@toolfleet/results';

/** Reads kept results in parts. */
export type ReadResult = ResultReader['read'];

const TEMPLATE = {
  uriTemplate: `${RESULT_URI}{handle}{?select,offset,limit}`,
  name: 'kept result',
  description: 'A result that was too large to show: a selection of it (JSONPath or JMESPath), or a page of its text',
  mimeType: 'application/json',
};
/** Kept results are found by the links of tool results; a list of them would name the calls of other clients of the same key. */
const EMPTY = { ttlMs: 0, cacheScope: 'private' as const };

/** Installs kept results as resources `toolfleet://results/<handle>?select=…` or `?offset=…&limit=…`. */
export function installResultResources(server: Server, read: ReadResult, principal: Principal): void {
  server.setRequestHandler('resources/list', () => ({ resources: [], ...EMPTY }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [TEMPLATE], ...EMPTY }));
  server.setRequestHandler('resources/read', async ({ params }, context) => {
    const { uri } = params;
    const { handle, part } = readUri(uri);
    const id = isJsonObject(params._meta) ? params._meta['session_id'] : undefined;
    const caller = {
      principal,
      session: typeof id === 'string' ? { id, userId: principal.userId } : undefined,
      signal: context.mcpReq.signal,
    };
    const found = await read(caller, handle, part).catch((error: unknown) => {
      if (!isToolError(error)) throw error;
      if (error.code === 'NOT_FOUND') throw new ResourceNotFoundError(uri);
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
    });
    const { text, output, ...facts } = found;
    const content = output === undefined ? String(text) : JSON.stringify(output);
    // JSON with a note in front is none.
    const mimeType = output === undefined || facts.disclaimer !== undefined ? 'text/plain' : 'application/json';
    return { contents: [{ uri, mimeType, text: withDisclaimer(facts, content), _meta: facts }], ...EMPTY };
  });
}

/** @throws ResourceNotFoundError, ProtocolError -32602 */
function readUri(uri: string): { handle: string; part: PartRequest } {
  const url = URL.canParse(uri) ? new URL(uri) : undefined;
  if (!url || !uri.startsWith(RESULT_URI)) throw new ResourceNotFoundError(uri);
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
