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
import { CallScope } from '../call-scope.js';
import {
  configuredServer,
  discoveredServer,
  type AuthorizationServer,
  type Challenge,
} from './authorization-server.js';
import { clientAuthentication } from './client-authentication.js';
import type { OAuthOptions } from './oauth-options.js';
import { tokenError } from './token-error.js';
import { tokenGrant } from './token-grant.js';

/** What a credential needs of this process. */
export interface CredentialParts {
  egress: EgressClient;
  clock: Clock;
  expand: (value: string) => string;
}

/** A token is renewed so long before it expires. */
const EARLY_MS = 30_000;
/** Lifetime of a token that names none (RFC 6749 5.1 leaves it open). */
const DEFAULT_LIFETIME_S = 300;
const MAX_TOKEN_ANSWER_BYTES = 64 * 1024;
const TOKEN_TIMEOUT_MS = 15_000;

interface Token {
  value: string;
  isBound: boolean;
  /** Monotonic instant after which it is renewed. */
  renewAt: number;
  expiresAt: number;
}

/**
 * The credential of one server: a token, renewed before it expires or when the server refuses it, by one request at a time
 * however many calls wait. It outlives the sessions that use it, so a refresh token that was rotated is not lost with one.
 */
export class OAuthCredential implements AuthProvider {
  private held: Token | undefined;
  private renewing: Promise<Token> | undefined;
  /** Rotated by the authorization server (OAuth 2.1 4.3.1). */
  private rotated: string | undefined;
  private server: AuthorizationServer | undefined;
  private key: Promise<DpopSession> | undefined;
  /** With which token a response was refused: by then another call may have got a new one. */
  private readonly refusedTokens = new WeakMap<Response, string>();
  private readonly fetchFn: typeof fetch;

  constructor(
    private readonly oauth: OAuthOptions,
    private readonly parts: CredentialParts,
  ) {
    this.fetchFn = egressFetch(parts.egress, {
      maxBytes: MAX_TOKEN_ANSWER_BYTES,
      timeouts: { totalMs: TOKEN_TIMEOUT_MS },
    });
  }

  /**
   * The token to send, or undefined as long as nobody has said where tokens come from.
   * @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async token(): Promise<string | undefined> {
    const now = this.parts.clock.monotonic();
    if (this.held && this.held.renewAt > now) return this.held.value;
    this.server ??= configuredServer(this.oauth, this.parts.expand);
    if (!this.server) return undefined;
    const held = this.held;
    try {
      return (await this.renew(this.server)).value;
    } catch (error) {
      // Renewed early on purpose: trouble at the authorization server is no trouble until the token ends.
      if (held && held === this.held && held.expiresAt > this.parts.clock.monotonic()) return held.value;
      throw error;
    }
  }

  /** The server refused a token, or wants one: finds out where it comes from, and gets another unless that was done already. */
  async onUnauthorized(challenge: Challenge): Promise<void> {
    const refused = this.refusedTokens.get(challenge.response);
    if (this.held && refused !== undefined && refused !== this.held.value) return;
    this.held = undefined;
    await this.renew(configuredServer(this.oauth, this.parts.expand) ?? challenge);
  }

  /** The server says in an answer that the token has expired: the next call gets another. */
  forgetToken(): void {
    this.held = undefined;
  }

  /** `fetch` for requests with this credential: proofs of possession go with bound tokens, and refusals are remembered. */
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
    // Shared by all who wait, so outside the exchange of any of them.
    this.renewing ??= CallScope.outside(() => this.fetchToken(from))
      .catch((error: unknown) => {
        // The server may name another place by now: its next refusal says which.
        this.server = undefined;
        throw tokenError(error);
      })
      .finally(() => (this.renewing = undefined));
    return this.renewing;
  }

  private async fetchToken(from: AuthorizationServer | Challenge): Promise<Token> {
    const { clock, expand } = this.parts;
    const server = 'response' in from ? await discoveredServer(this.oauth, expand, from, this.fetchFn) : from;
    this.server = server;
    const tokens = await fetchToken(this.provider(server), server.url, {
      fetchFn: this.fetchFn,
      ...(server.metadata ? { metadata: server.metadata } : {}),
      ...(server.resource === undefined ? {} : { resource: server.resource }),
      ...(server.scope === undefined ? {} : { scope: server.scope }),
    });
    registerSecret(tokens.access_token);
    const isBound = tokens.token_type.toLowerCase() === 'dpop';
    if (this.oauth.dpop && !isBound) {
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `The authorization server gave no token bound to a key (token_type ${tokens.token_type.slice(0, 20)})`,
        details: { state: 'auth_failed' },
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

  /** What the SDK's token request asks for; the parts of a login it never uses. */
  private provider(server: AuthorizationServer): OAuthClientProvider {
    const { oauth, parts } = this;
    const { expand } = parts;
    const never = (): never => {
      throw new Error('nobody logs in here');
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
      addClientAuthentication: clientAuthentication(oauth, expand),
      prepareTokenRequest: () => {
        const refresh = this.rotated ?? (oauth.refreshToken === undefined ? undefined : expand(oauth.refreshToken));
        return tokenGrant(oauth, refresh, server, { expand, fetchFn: this.fetchFn });
      },
      ...(oauth.dpop ? { dpop: () => this.dpop() } : {}),
    };
  }
}
