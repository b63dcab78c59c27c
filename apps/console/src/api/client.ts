import { type RouteRequest, ToolfleetClient } from '@toolfleet/client';

/** Timeout of a request that runs tools. */
export const RUN_TIMEOUT_MS = 125_000;
/** Timeout of a request while the registry reads a document or asks a server. */
export const SOURCE_TIMEOUT_MS = 65_000;

/** Remaining requests of the key's own limits. */
export interface RequestAllowance {
  leftMinute: number;
  leftHour: number;
}

/**
 * A client of the gateway that served this page, with a key, or without one in the session of the signed-in user. `onResponse` sees every
 * response before it is read, also refusals.
 */
export function createClient(
  key: string | undefined,
  onResponse: (response: Response) => void = () => undefined,
): ToolfleetClient {
  const credentials = key === undefined ? 'same-origin' : 'omit';
  return new ToolfleetClient({
    url: '',
    apiKey: key,
    fetch: async (input, init) => {
      const headers = new Headers(init?.headers);
      // The gateway takes a session cookie only with this header; no other site can send it.
      if (key === undefined) headers.set('x-toolfleet-session', '1');
      const response = await fetch(input, { ...init, headers, cache: 'no-store', credentials, redirect: 'error' });
      onResponse(response);
      return response;
    },
  });
}

/** The allowance that a response carries; undefined for responses without it. */
export function readAllowance(headers: Headers): RequestAllowance | undefined {
  const [minute, hour] = ['minute', 'hour'].map((window) => headers.get(`x-ratelimit-remaining-${window}`));
  return minute && hour ? { leftMinute: Number(minute), leftHour: Number(hour) } : undefined;
}

/** The path of a source by its id: `mcp/crm@acme`, or `mcp/crm` for one that is shared with all tenants. */
export function toSourcePath(id: string): RouteRequest<'GET /api/v1/sources/{kind}/{name}'> {
  const [kind = '', ...rest] = id.split('/');
  const name = rest.join('/');
  return { path: { kind, name }, query: toOwner(name) };
}

/** The path of a toolset by its id: `support@acme`, or `support` for one that is shared with all tenants. */
export const toToolsetPath = (id: string) => ({ path: { name: id }, query: toOwner(id) });

const toOwner = (id: string): { visibility?: 'fleet' } => (id.includes('@') ? {} : { visibility: 'fleet' });
