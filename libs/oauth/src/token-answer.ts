import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { TokenEndpointResponse } from 'oauth4webapi';

/** The answer of an authorization server. */
export interface Tokens {
  access_token: string;
  /** Lower case. */
  token_type?: string;
  issued_token_type?: string;
  refresh_token?: string;
  id_token?: string;
  /** Seconds. */
  expires_in?: number;
  scopes?: string[];
}

/** Life of an access token without `expires_in` (left open by RFC 6749 section 5.1). */
export const DEFAULT_LIFE_S = 300;

/** `n_a`: the issued token is not an access token (RFC 8693 section 2.2.1). Other names, such as Apigee's, are bearer tokens. */
const TOKEN_TYPES = new Set(['bearer', 'dpop', 'n_a']);

/** @param answer in the form of RFC 6749 section 5.1 */
export function toTokens(answer: TokenEndpointResponse): Tokens {
  const { access_token, token_type, refresh_token, id_token, expires_in, scope } = answer;
  const issued = answer['issued_token_type'];
  return {
    access_token,
    token_type,
    issued_token_type: typeof issued === 'string' ? issued : undefined,
    refresh_token,
    id_token,
    expires_in,
    scopes: scope?.split(' ').filter(Boolean),
  };
}

/**
 * The answer of a token endpoint in the form of RFC 6749 section 5, for the strict reader behind. Servers send a form instead of JSON, an
 * error with status 200, a list of scopes, members that are null, a lifetime as a string and no `token_type`.
 * @returns the response unchanged when its body is neither JSON nor a form
 */
export async function readTokenAnswer(response: Response): Promise<Response> {
  const text = await response.text();
  const headers = new Headers(response.headers);
  const { status } = response;
  const given = parse(text);
  if (!given) return new Response(text || null, { status, headers });
  const { scope, expires_in: life, token_type: type, ...others } = given;
  const seconds = life === undefined ? NaN : Number(life);
  const body = {
    ...others,
    scope: Array.isArray(scope) ? scope.join(' ') : typeof scope === 'string' ? scope : undefined,
    expires_in: Number.isFinite(seconds) ? Math.max(0, seconds) : undefined,
    token_type: typeof type === 'string' && TOKEN_TYPES.has(type.toLowerCase()) ? type : 'Bearer',
    refresh_token: textOf(given['refresh_token']),
    id_token: textOf(given['id_token']),
  };
  headers.set('content-type', 'application/json');
  if (given['access_token'] !== undefined) return answer(body, response.ok ? 200 : status, headers);
  // The challenge next to an error says less than the error.
  if (typeof given['error'] === 'string') headers.delete('www-authenticate');
  return answer(body, response.ok && given['error'] !== undefined ? 400 : status, headers);
}

const answer = (body: object, status: number, headers: Headers) =>
  new Response(JSON.stringify(body), { status, headers });
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** The members of a JSON object or a form that say something. */
function parse(text: string): JsonObject | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    read = /(^|&)(access_token|error)=/.test(text) ? Object.fromEntries(new URLSearchParams(text)) : undefined;
  }
  if (!isJsonObject(read)) return undefined;
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== null && value !== ''));
}
