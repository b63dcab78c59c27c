import {
  DpopSession,
  fetchToken,
  withDpop,
  type AuthProvider,
  type OAuthClientProvider,
} from '@modelcontextprotocol/client';
import { ToolError } from '@toolfleet/contracts';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import { registerSecret } from '@toolfleet/telemetry';
import type { OpenSecret } from '@toolfleet/service';
import { Exchange } from '../exchange.js';
import type { McpTarget } from '../mcp-target.js';
import {
  readConfiguredServer,
  discoverAuthorizationServer,
  type AuthorizationServer,
  type Challenge,
} from './authorization-server.js';
import type { OAuthOptions } from './oauth-options.js';
import { authenticateClient, toTokenError, toTokenParams } from './token-request.js';

/** Parts of this process that a credential uses. */
interface CredentialDeps {
  egress: EgressClient;
  clock: Clock;
  expand: (value: string) => string;
}

/** How long before its expiry a token is renewed. */
const EARLY_MS = 30_000;
/** Lifetime of a token without `expires_in` (RFC 6749 section 5.1 leaves it open). */
const DEFAULT_LIFETIME_S = 300;
const MAX_TOKEN_ANSWER_BYTES = 64 * 1024;
const TOKEN_TIMEOUT_MS = 15_000;
const MAX_CREDENTIALS = 1_000;

interface Token {
  value: string;
  isBound: boolean;
  /** Monotonic instant after which it is renewed. */
  renewAt: number;
  expiresAt: number;
}

/**
 * The credential of one server: a token that is renewed before it expires or when the server refuses it. Concurrent calls share
 * one token request. A credential outlives the sessions that use it, so that a rotated refresh token is not lost with one.
 */
class OAuthCredential implements AuthProvider {
  private held: Token | undefined;
  private renewing: Promise<Token> | undefined;
  /** The refresh token that replaced the configured one (OAuth 2.1 section 4.3.1). */
  private rotated: string | undefined;
  private server: AuthorizationServer | undefined;
  private key: Promise<DpopSession> | undefined;
  /** The token each refused response was for: another call may have renewed it in the meantime. */
  private readonly refusedTokens = new WeakMap<Response, string>();
  private readonly fetchFn: typeof fetch;

  constructor(
    private readonly oauth: OAuthOptions,
    private readonly deps: CredentialDeps,
  ) {
    this.fetchFn = egressFetch(deps.egress, {
      maxBytes: MAX_TOKEN_ANSWER_BYTES,
      timeouts: { totalMs: TOKEN_TIMEOUT_MS },
    });
  }

  /**
   * The token to send; undefined until the authorization server is known from the configuration or a challenge.
   * @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async token(): Promise<string | undefined> {
    const now = this.deps.clock.monotonic();
    if (this.held && this.held.renewAt > now) return this.held.value;
    this.server ??= readConfiguredServer(this.oauth, this.deps.expand);
    if (!this.server) return undefined;
    const held = this.held;
    try {
      return (await this.renew(this.server)).value;
    } catch (error) {
      // Renewed early: while the old token is valid, a failing authorization server does not fail the call.
      if (held && held === this.held && held.expiresAt > this.deps.clock.monotonic()) return held.value;
      throw error;
    }
  }

  /** The server refused or requires a token: discovers where it comes from and gets one, unless another call already did. */
  async onUnauthorized(challenge: Challenge): Promise<void> {
    const refused = this.refusedTokens.get(challenge.response);
    if (this.held && refused !== undefined && refused !== this.held.value) return;
    this.held = undefined;
    await this.renew(readConfiguredServer(this.oauth, this.deps.expand) ?? challenge);
  }

  /** The server reported inside a result that the token has expired: the next call gets another. */
  forgetToken(): void {
    this.held = undefined;
  }

  /** `fetch` for requests with this credential: adds proofs of possession to bound tokens and records refusals. */
  wrap(next: typeof fetch): typeof fetch {
    const remembering: typeof fetch = async (input, init) => {
      const response = await next(input, init);
      const sent = new Headers(init?.headers).get('authorization');
      if (response.status === 401 && sent) this.refusedTokens.set(response, sent.slice(sent.indexOf(' ') + 1));
      return response;
    };
    if (!this.oauth.dpop) return remembering;
    const bound = withDpop(
      () => this.dpop(),
      async () => (this.held?.isBound ? this.held.value : undefined),
    )((url, init) => remembering(url, init));
    return (input, init) => bound(input instanceof Request ? input.url : input, init);
  }

  private dpop(): Promise<DpopSession> {
    return (this.key ??= DpopSession.create());
  }

  private renew(from: AuthorizationServer | Challenge): Promise<Token> {
    // Shared by all waiting calls, so it runs outside the exchange of each.
    this.renewing ??= Exchange.outside(() => this.fetchToken(from))
      .catch((error: unknown) => {
        // The token endpoint may have moved: the server's next challenge names it.
        this.server = undefined;
        throw toTokenError(error);
      })
      .finally(() => (this.renewing = undefined));
    return this.renewing;
  }

  private async fetchToken(from: AuthorizationServer | Challenge): Promise<Token> {
    const { clock, expand } = this.deps;
    const server =
      'response' in from ? await discoverAuthorizationServer(this.oauth, expand, from, this.fetchFn) : from;
    this.server = server;
    const tokens = await fetchToken(this.provider(server), server.url, {
      fetchFn: this.fetchFn,
      metadata: server.metadata,
      resource: server.resource,
      scope: server.scope,
    });
    registerSecret(tokens.access_token);
    const isBound = tokens.token_type.toLowerCase() === 'dpop';
    if (this.oauth.dpop && !isBound) {
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `The authorization server returned a token that is not bound to a key (token_type ${tokens.token_type.slice(0, 20)})`,
        details: { state: 'auth_failed' },
        facts: { reason: 'auth_failed' },
      });
    }
    if (tokens.refresh_token !== undefined && this.oauth.refreshToken !== undefined) {
      registerSecret(tokens.refresh_token);
      this.rotated = tokens.refresh_token;
    }
    const lifetimeMs = Math.max(0, tokens.expires_in ?? DEFAULT_LIFETIME_S) * 1_000;
    const now = clock.monotonic();
    const renewAt = now + Math.max(lifetimeMs - EARLY_MS, lifetimeMs / 2);
    return (this.held = { value: tokens.access_token, isBound, renewAt, expiresAt: now + lifetimeMs });
  }

  /** The SDK's view of this credential for one token request. The members of an interactive login are never called. */
  private provider(server: AuthorizationServer): OAuthClientProvider {
    const { oauth } = this;
    const { expand } = this.deps;
    const never = (): never => {
      throw new Error('this client has no interactive login');
    };
    return {
      redirectUrl: undefined,
      clientMetadata: { redirect_uris: [] },
      clientInformation: () => ({ client_id: oauth.clientId === undefined ? '' : expand(oauth.clientId) }),
      tokens: () => undefined,
      saveTokens: never,
      redirectToAuthorization: never,
      saveCodeVerifier: never,
      codeVerifier: never,
      addClientAuthentication: authenticateClient(oauth, expand),
      prepareTokenRequest: () => {
        const refresh = this.rotated ?? (oauth.refreshToken === undefined ? undefined : expand(oauth.refreshToken));
        return toTokenParams(oauth, refresh, server, { expand, fetchFn: this.fetchFn });
      },
      dpop: oauth.dpop ? () => this.dpop() : undefined,
    };
  }
}

/** One credential per server and configuration, shared by all its sessions. The least recently used is dropped. */
export class CredentialStore {
  private readonly credentials = new Map<string, OAuthCredential>();

  constructor(private readonly deps: Omit<CredentialDeps, 'expand'> & { expand: OpenSecret }) {}

  /** The credential of a server, or undefined when it does not use OAuth. */
  get(target: Pick<McpTarget, 'key' | 'oauth' | 'registration'>): OAuthCredential | undefined {
    if (!target.oauth) return undefined;
    const expand = (value: string): string => this.deps.expand(value, target.registration);
    const credential = this.credentials.get(target.key) ?? new OAuthCredential(target.oauth, { ...this.deps, expand });
    this.credentials.delete(target.key);
    this.credentials.set(target.key, credential);
    if (this.credentials.size > MAX_CREDENTIALS)
      this.credentials.delete(this.credentials.keys().next().value as string);
    return credential;
  }
}
