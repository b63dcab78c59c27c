import { isJsonObject, type Json } from '@toolfleet/contracts';

/** Where an enterprise identity provider vouches for the fleet (identity assertion grant, SEP-990). Values may hold `${VAR}`. */
export interface IdentityOptions {
  /** Token endpoint of the identity provider. */
  tokenUrl: string;
  clientId: string;
  clientSecret?: string;
  /** OpenID Connect ID token that is exchanged; read anew for every exchange. */
  idToken: string;
}

/** OAuth of a server, without a person in it. Values may hold `${VAR}`. */
export interface OAuthOptions {
  /** Workloads that are known by their assertion alone need none. */
  clientId?: string;
  clientSecret?: string;
  /** PKCS#8 PEM: the client proves itself by signed assertions (`private_key_jwt`, SEP-1046) instead of a secret. */
  privateKey?: string;
  /** JWS algorithm of `privateKey`. */
  signingAlgorithm: string;
  /** Token endpoint; without it, it is discovered from the server's protected-resource metadata, which needs `issuer`. */
  tokenUrl?: string;
  /** Authorization server the credentials belong to; a discovered one receives them only if it is this one. */
  issuer?: string;
  scope?: string;
  /** Resource indicator (RFC 8707); where the endpoint is discovered, so is this. */
  resource?: string;
  /** Use the refresh-token grant instead of client credentials. */
  refreshToken?: string;
  /** Workload identity: a JWT of the platform, exchanged for a token (RFC 7523, SEP-1933); read anew for every exchange. */
  assertion?: string;
  identity?: IdentityOptions;
  /** Tokens are bound to a key of this process (RFC 9449, SEP-1932). */
  dpop: boolean;
}

const SIGNING_ALGORITHMS = ['ES256', 'ES384', 'ES512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const IDENTITY_FIELDS = ['token_url', 'client_id', 'client_secret', 'id_token'];
const TEXT_FIELDS = [
  'client_id',
  'client_secret',
  'private_key',
  'signing_algorithm',
  'token_url',
  'issuer',
  'scope',
  'resource',
  'refresh_token',
  'assertion',
];

/**
 * Reads `oauth` of a server.
 * @returns the options, or the name of the field that is wrong
 */
export function readOAuth(value: Json): OAuthOptions | string {
  if (!isJsonObject(value)) return 'oauth';
  for (const [field, given] of Object.entries(value)) {
    if (field === 'identity' || field === 'dpop') continue;
    if (!TEXT_FIELDS.includes(field)) return `oauth.${field} is unknown`;
    if (given !== null && typeof given !== 'string') return `oauth.${field}`;
  }
  const text = (field: string): string | undefined => (value[field] as string | null | undefined) || undefined;
  const [clientId, clientSecret, privateKey] = [text('client_id'), text('client_secret'), text('private_key')];
  const [refreshToken, assertion] = [text('refresh_token'), text('assertion')];
  const identity = value['identity'] ?? undefined;
  const [grant, another] = Object.entries({ refresh_token: refreshToken, assertion, identity })
    .filter(([, given]) => given !== undefined)
    .map(([name]) => name);
  if (another !== undefined) return `oauth has both ${grant} and ${another}`;
  if (clientSecret && privateKey) return 'oauth has both client_secret and private_key';
  if (!clientId && grant !== 'assertion') return 'oauth.client_id';
  const signingAlgorithm = text('signing_algorithm') ?? 'ES256';
  if (!SIGNING_ALGORITHMS.includes(signingAlgorithm)) return 'oauth.signing_algorithm';
  const dpop = value['dpop'] ?? false;
  if (typeof dpop !== 'boolean') return 'oauth.dpop';
  const vouching = identity === undefined ? undefined : readIdentity(identity);
  if (typeof vouching === 'string') return vouching;
  const optional = {
    clientId,
    clientSecret,
    privateKey,
    tokenUrl: text('token_url'),
    issuer: text('issuer'),
    scope: text('scope'),
    resource: text('resource'),
    refreshToken,
    assertion,
    identity: vouching,
  };
  const given = Object.entries(optional).filter(([, one]) => one !== undefined);
  return { ...Object.fromEntries(given), signingAlgorithm, dpop };
}

function readIdentity(value: Json): IdentityOptions | string {
  if (!isJsonObject(value)) return 'oauth.identity';
  for (const [field, given] of Object.entries(value)) {
    if (!IDENTITY_FIELDS.includes(field)) return `oauth.identity.${field} is unknown`;
    if (given !== null && typeof given !== 'string') return `oauth.identity.${field}`;
  }
  const text = (field: string): string => (value[field] as string | null | undefined) ?? '';
  for (const field of ['token_url', 'client_id', 'id_token']) if (text(field) === '') return `oauth.identity.${field}`;
  const clientSecret = text('client_secret');
  return {
    tokenUrl: text('token_url'),
    clientId: text('client_id'),
    idToken: text('id_token'),
    ...(clientSecret ? { clientSecret } : {}),
  };
}
