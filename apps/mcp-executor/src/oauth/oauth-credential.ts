import { DpopSession, generateDpopKeyPair, withDpop, type AuthProvider } from '@modelcontextprotocol/client';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import { HeldToken, type CryptoKeyPair } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import type { OpenSecret } from '@toolfleet/service';
import { RequestExchange } from '../exchange.js';
import type { McpTarget } from '../mcp-target.js';
import {
  readConfiguredServer,
  discoverAuthorizationServer,
  type SourceAuthorizationServer,
  type Challenge,
} from './authorization-server.js';
import type { OAuthOptions } from './oauth-options.js';
import { requestToken } from './token-request.js';

/** Parts of this process that a credential uses. */
interface CredentialDeps {
  egress: EgressClient;
  clock: Clock;
  expand: (value: string) => string;
}

const MAX_TOKEN_ANSWER_BYTES = 64 * 1024;
const TOKEN_TIMEOUT_MS = 15_000;
const MAX_CREDENTIALS = 1_000;

/**
 * The credential of one server: a token that is renewed before it expires or when the server refuses it. A credential outlives the sessions
 * that use it, so that a rotated refresh token is not lost with one.
 */
class OAuthCredential implements AuthProvider {
  /** Where the next token comes from; a challenge has to be followed first. */
  private from: SourceAuthorizationServer | Challenge | undefined;
  private key: Promise<{ pair: CryptoKeyPair; session: DpopSession }> | undefined;
  /** The token each refused response was for: another call may have renewed it in the meantime. */
  private readonly refusedTokens = new WeakMap<Response, string>();
  private readonly fetchFn: typeof fetch;
  private readonly held: HeldToken;

  constructor(
    private readonly oauth: OAuthOptions,
    private readonly deps: CredentialDeps,
  ) {
    const timeouts = { totalMs: TOKEN_TIMEOUT_MS };
    this.fetchFn = egressFetch(deps.egress, { maxBytes: MAX_TOKEN_ANSWER_BYTES, timeouts });
    // Shared by all waiting calls, so it runs outside the exchange of each.
    this.held = new HeldToken(deps.clock, (rotated) => RequestExchange.outside(() => this.request(rotated)));
  }

  /**
   * The token to send; undefined until the authorization server is known from the configuration or a challenge.
   * @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async token(): Promise<string | undefined> {
    this.from ??= readConfiguredServer(this.oauth, this.deps.expand);
    if (!this.from && !this.held.isFresh) return undefined;
    return (await this.held.get()).access_token;
  }

  /** The server refused or requires a token: discovers where it comes from and gets one, unless another call already did. */
  async onUnauthorized(challenge: Challenge): Promise<void> {
    if (!this.held.forget(this.refusedTokens.get(challenge.response))) return;
    this.from = readConfiguredServer(this.oauth, this.deps.expand) ?? challenge;
    await this.held.get();
  }

  /** The server reported inside a result that the token has expired: the next call gets another. */
  forgetToken(): void {
    this.held.forget();
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
      async () => (await this.dpop()).session,
      async () => this.held.current?.access_token,
    )((url, init) => remembering(url, init));
    return (input, init) => bound(input instanceof Request ? input.url : input, init);
  }

  private dpop() {
    return (this.key ??= generateDpopKeyPair().then(async (pair) => ({
      pair,
      session: await DpopSession.create({ keyPair: pair }),
    })));
  }

  private async request(rotated: string | undefined) {
    const { oauth, fetchFn, from } = this;
    const { expand } = this.deps;
    try {
      const server =
        from && 'response' in from ? await discoverAuthorizationServer(oauth, expand, from, fetchFn) : from!;
      this.from = server;
      const key = oauth.dpop ? (await this.dpop()).pair : undefined;
      return await requestToken(oauth, server, rotated, { expand, fetchFn, key });
    } catch (error) {
      // The token endpoint may have moved: the server's next challenge names it.
      this.from = undefined;
      throw error;
    }
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
