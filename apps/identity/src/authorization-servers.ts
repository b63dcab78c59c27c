import { isToolError, ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import type { Clock } from '@toolfleet/resilience';
import { discoverServer, TokenClient, type ServerMetadata } from '@toolfleet/oauth';
import { LRUCache } from 'lru-cache';
import * as oauth from 'oauth4webapi';

/** The fleet as a client of the company's provider (section `sign_in`). */
export interface SignInClient {
  issuer: string;
  clientId: string;
  secret(): string | undefined;
  fetch: typeof fetch;
}

interface ServersDeps {
  /** Reaches the hosts of `IDENTITY_ALLOWED_DOMAINS`. */
  fetch: typeof fetch;
  /** Expands `${VAR}` and opens secrets that the registry sealed for the source. */
  open(value: string, source: string): string;
  signIn: SignInClient | undefined;
  clock: Clock;
}

/** The part of `auth.user` that names an authorization server and a client of it. */
type ServerSettings = Pick<
  UserAuth,
  'issuer' | 'authorization_url' | 'token_url' | 'client_id' | 'client_secret' | 'resource'
>;

/** Metadata is read again after this time, so that a server can move its endpoints. */
const METADATA_MS: Milliseconds = 600_000;
const MAX_KNOWN = 1_000;

/** The authorization servers of sources, with their metadata, and the fleet as their client. */
export class AuthorizationServers {
  readonly #known: LRUCache<string, Promise<ServerMetadata>>;

  constructor(private readonly deps: ServersDeps) {
    const perf = { now: () => deps.clock.monotonic() };
    this.#known = new LRUCache({ max: MAX_KNOWN, ttl: METADATA_MS, perf });
  }

  /**
   * The server and client of a source. Without `client_id` and URLs, and with no other issuer, they come from `sign_in`.
   * @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async of(source: string, settings: ServerSettings): Promise<TokenClient> {
    const { issuer, authorization_url, token_url, client_id, client_secret } = this.#opened(source, settings);
    const { signIn } = this.deps;
    const isSignIn = issuer === undefined || issuer === signIn?.issuer;
    // Its endpoints come from its own metadata, so that its secret goes nowhere else.
    if (isSignIn && [authorization_url, token_url, client_id].every((value) => value === undefined))
      return this.#ofSignIn(source);
    if (client_id === undefined) throw notConfigured(source, 'has no auth.user.client_id');
    const as = await this.#metadata(source, issuer, authorization_url, token_url);
    return new TokenClient(as, { id: client_id, secret: client_secret }, this.deps.fetch);
  }

  /**
   * The settings with the issuer that the source itself names (RFC 9728), if they name none. Public clients only: the source could name a
   * server that receives the secret of the client.
   * @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async discover(source: string, auth: UserAuth): Promise<UserAuth> {
    const { issuer, authorization_url, token_url, client_id, client_secret, resource } = this.#opened(source, auth);
    if ([issuer, authorization_url, token_url].some((value) => value !== undefined)) return auth;
    if (resource === undefined)
      throw notConfigured(source, 'needs auth.user.issuer, or authorization_url and token_url');
    const found = await this.#resource(source, resource);
    const named = found.authorization_servers?.[0];
    if (named === undefined) throw notConfigured(source, `names no authorization server; set auth.user.issuer`);
    // The text comes from the source. A variable in it would send a secret of the fleet to an address that the source chose.
    if (named.includes('$') || !/^https?:$/.test(URL.parse(named)?.protocol ?? ''))
      throw notConfigured(
        source,
        `names an authorization server whose address must be a URL without variables; set auth.user.issuer`,
      );
    if (client_id === undefined)
      throw notConfigured(source, `names the authorization server ${named}, but has no auth.user.client_id`);
    if (client_secret !== undefined)
      throw notConfigured(
        source,
        `names the authorization server ${named}; set auth.user.issuer to that if client_secret belongs to it`,
      );
    return { ...auth, issuer: named, scopes: auth.scopes ?? found.scopes_supported };
  }

  #opened(source: string, settings: ServerSettings): ServerSettings {
    const opened: ServerSettings = {};
    for (const name of ['issuer', 'authorization_url', 'token_url', 'client_id', 'client_secret', 'resource'] as const)
      if (settings[name] !== undefined) opened[name] = this.deps.open(settings[name], source);
    return opened;
  }

  async #ofSignIn(source: string): Promise<TokenClient> {
    const { signIn } = this.deps;
    if (!signIn) throw notConfigured(source, 'needs auth.user.issuer and client_id, or the section sign_in');
    // Administrators of a tenant register such sources, and could have tokens for other services sent to their own server.
    if (source.includes('@'))
      throw notConfigured(
        source,
        'belongs to a tenant, so it needs a client in auth.user: client_id with issuer or token_url',
      );
    const as = await this.#discovered(signIn.issuer, signIn.fetch);
    return new TokenClient(as, { id: signIn.clientId, secret: signIn.secret() }, signIn.fetch);
  }

  /** Configured endpoints, else from the metadata of the issuer (RFC 8414, then OpenID Connect Discovery). */
  async #metadata(
    source: string,
    issuer: string | undefined,
    authorize: string | undefined,
    token: string | undefined,
  ): Promise<ServerMetadata> {
    if (token !== undefined && (authorize !== undefined || issuer === undefined))
      return { issuer: issuer ?? new URL(token).origin, authorization_endpoint: authorize, token_endpoint: token };
    if (issuer === undefined) throw notConfigured(source, 'needs auth.user.issuer, or authorization_url and token_url');
    const found = await this.#discovered(issuer, this.deps.fetch);
    return {
      ...found,
      authorization_endpoint: authorize ?? found.authorization_endpoint,
      token_endpoint: token ?? found.token_endpoint,
    };
  }

  #discovered(issuer: string, request: typeof fetch): Promise<ServerMetadata> {
    const known = this.#known.get(issuer);
    if (known) return known;
    const found = discoverServer(issuer, request).then((metadata) => metadata ?? unreadable(issuer));
    this.#known.set(issuer, found);
    found.catch(() => this.#known.delete(issuer));
    return found;
  }

  async #resource(source: string, resource: string): Promise<oauth.ResourceServer> {
    try {
      const url = new URL(resource);
      const response = await oauth.resourceDiscoveryRequest(url, {
        [oauth.customFetch]: this.deps.fetch,
        // The egress guard decides which addresses may be reached without TLS.
        [oauth.allowInsecureRequests]: true,
      });
      return await oauth.processResourceDiscoveryResponse(url, response);
    } catch (error) {
      if (isToolError(error) && error.code !== 'NETWORK_ERROR') throw error;
      const message = `${source} has no metadata that names its authorization server (RFC 9728); set auth.user.issuer`;
      throw new ToolError('AUTH_NOT_CONFIGURED', { message, cause: error });
    }
  }
}

/** @throws ToolError NETWORK_ERROR */
function unreadable(issuer: string): never {
  throw new ToolError('NETWORK_ERROR', { message: `The metadata of ${issuer} cannot be read` });
}

export const notConfigured = (source: string, what: string): ToolError =>
  new ToolError('AUTH_NOT_CONFIGURED', { message: `${source} ${what}` });
