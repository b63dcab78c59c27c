import { isJsonObject, type Json } from '@toolfleet/contracts';

/** The enterprise identity provider of an identity assertion grant (SEP-990). Values may hold `${VAR}`. */
interface IdentityOptions {
  /** Token endpoint of the identity provider. */
  tokenUrl: string;
  clientId: string;
  clientSecret?: string;
  /** OpenID Connect ID token to exchange; expanded for each exchange. */
  idToken: string;
}

/** Machine-to-machine OAuth of one server. Values may hold `${VAR}`. */
export interface OAuthOptions {
  /** Not needed where the assertion alone identifies the workload. */
  clientId?: string;
  clientSecret?: string;
  /** PKCS#8 PEM: the client authenticates with signed assertions (`private_key_jwt`, SEP-1046) instead of a secret. */
  privateKey?: string;
  /** JWS algorithm of `privateKey`. */
  signingAlgorithm: string;
  /** Token endpoint. Without it the endpoint is discovered from the server's resource metadata (requires `issuer`). */
  tokenUrl?: string;
  /** The authorization server that the credentials belong to. A discovered server with another issuer does not receive them. */
  issuer?: string;
  scope?: string;
  /** Resource indicator (RFC 8707); discovered together with the endpoint. */
  resource?: string;
  /** Use the refresh-token grant instead of client credentials. */
  refreshToken?: string;
  /** Workload identity: a JWT of the platform, exchanged for a token (RFC 7523, SEP-1933); expanded for each exchange. */
  assertion?: string;
  identity?: IdentityOptions;
  /** Whether tokens must be bound to a key of this process (DPoP: RFC 9449, SEP-1932). */
  dpop: boolean;
}

const SIGNING_ALGORITHMS = ['ES256', 'ES384', 'ES512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const IDENTITY_FIELDS = ['token_url', 'client_id', 'client_secret', 'id_token'];
const CLIENT_FIELDS = ['client_id', 'client_secret', 'private_key', 'signing_algorithm', 'refresh_token', 'assertion'];
const TEXT_FIELDS = [...CLIENT_FIELDS, 'token_url', 'issuer', 'scope', 'resource'];

/**
 * Reads `oauth` of a server.
 * @returns the options, or the name of the field that is wrong
 */
export function readOAuth(value: Json): OAuthOptions | string {
  if (!isJsonObject(value)) return 'oauth';
  const { identity, dpop, ...rest } = value;
  const texts = readTexts<OAuthOptions>(rest, TEXT_FIELDS, 'oauth');
  if (typeof texts === 'string') return texts;
  const { clientId, clientSecret, privateKey, refreshToken, assertion, signingAlgorithm = 'ES256' } = texts;
  const [grant, another] = Object.entries({ refresh_token: refreshToken, assertion, identity })
    .filter(([, given]) => given !== undefined && given !== null)
    .map(([name]) => name);
  if (another !== undefined) return `oauth has both ${grant} and ${another}`;
  if (clientSecret && privateKey) return 'oauth has both client_secret and private_key';
  if (!clientId && grant !== 'assertion') return 'oauth.client_id';
  if (!SIGNING_ALGORITHMS.includes(signingAlgorithm)) return 'oauth.signing_algorithm';
  if (typeof (dpop ?? false) !== 'boolean') return 'oauth.dpop';
  const options = { ...texts, signingAlgorithm, dpop: dpop === true };
  if (grant !== 'identity') return options;
  const provider = readTexts<IdentityOptions>(identity!, IDENTITY_FIELDS, 'oauth.identity');
  if (typeof provider === 'string') return provider;
  const { tokenUrl, clientId: id, idToken } = provider;
  if (!tokenUrl || !id || !idToken) return `oauth.identity.${!tokenUrl ? 'token_url' : !id ? 'client_id' : 'id_token'}`;
  return { ...options, identity: { ...provider, tokenUrl, clientId: id, idToken } };
}

/** The strings that are not empty, by their names in camel case, or the name of the field that is wrong. */
function readTexts<Options>(value: Json, fields: string[], path: string): Partial<StringsOf<Options>> | string {
  if (!isJsonObject(value)) return path;
  const read: Record<string, string> = {};
  for (const [field, given] of Object.entries(value)) {
    if (!fields.includes(field)) return `${path}.${field} is unknown`;
    if (given !== null && typeof given !== 'string') return `${path}.${field}`;
    if (given) read[field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())] = given;
  }
  return read as Partial<StringsOf<Options>>;
}

type StringsOf<Options> = {
  [Name in keyof Options as Options[Name] extends string | undefined ? Name : never]: string;
};
