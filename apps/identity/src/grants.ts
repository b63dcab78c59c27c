import { invalidRequest, ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import type {
  GrantAuthorize,
  GrantFind,
  GrantFindReply,
  GrantFinish,
  GrantPut,
  GrantRevoke,
  GrantsChanged,
  GrantToken,
  GrantTokenReply,
  UserGrant,
} from '@toolfleet/contracts/identity';
import { usesSignIn } from '@toolfleet/contracts/user-auth';
import { openGrantToken, type SignedTokens } from '@toolfleet/access/signed-tokens';
import { DEFAULT_LIFE_S } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import type { AttemptStore } from './attempt-store.js';
import { required, type GrantRefresh } from './grant-refresh.js';
import type { UserGrantStore, OpenGrant } from './user-grant-store.js';
import type { ExchangedGrants } from './exchanged-grants.js';
import type { OAuthClient } from './oauth-client.js';
import type { UpstreamRevocation } from './upstream-revocation.js';

/** Longest time for which an executor keeps a credential, so that it forgets a revoked one also when it misses the announcement. */
const MAX_KEPT_MS = 60_000;
/** Access tokens are refreshed so long before they end. */
const EARLY_MS = 30_000;

interface GrantsDeps {
  store: UserGrantStore;
  attempts: AttemptStore;
  client: Pick<OAuthClient, 'begin' | 'finish'>;
  refresh: GrantRefresh;
  exchanged: Pick<ExchangedGrants, 'find'>;
  upstream: Pick<UpstreamRevocation, 'begin'>;
  tokens: SignedTokens;
  clock: Clock;
  /** Tells gateways and executors to forget grants. */
  announce(changed: GrantsChanged): void;
}

/** Credentials of users: stored, given to the executors of their calls, revoked. */
export class Grants {
  constructor(private readonly deps: GrantsDeps) {}

  async find(query: GrantFind): Promise<GrantFindReply> {
    const { auth, tenant_id, user_id, source } = query;
    if (usesSignIn(auth)) return this.deps.exchanged.find(query);
    const owner = { tenant_id, user_id, source };
    return this.deps.store.find(owner, auth);
  }

  /** Stores a personal key. @throws ToolError REQUEST_INVALID for a source that takes none */
  async putKey({ auth, api_key, ...owner }: GrantPut): Promise<string> {
    if (auth.mode !== 'api_key')
      throw invalidRequest(
        `${owner.source} takes no personal key; ${usesSignIn(auth) ? 'it acts with your sign-in' : 'connect the account'}`,
      );
    if (/[^\x20-\x7e]/.test(api_key)) throw invalidRequest('api_key must consist of printable ASCII characters');
    const { store, clock } = this.deps;
    const { id, replaced } = await store.put(owner, auth, { secrets: { api_key } }, clock.now());
    this.#announce([...replaced, { ...owner, grant_id: id }]);
    return id;
  }

  /** Where a user signs in for a source. @throws ToolError REQUEST_INVALID for a source that takes keys; AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async authorize({ auth, redirect_uri: redirectUri, ...owner }: GrantAuthorize): Promise<string> {
    if (auth.mode !== 'connect')
      throw invalidRequest(
        `${owner.source} ${usesSignIn(auth) ? 'acts with your sign-in; there is nothing to connect' : 'takes a personal key; it has no sign-in'}`,
      );
    const { attempts, client, clock } = this.deps;
    const { auth: granted, url, state, verifier } = await client.begin(owner.source, auth, redirectUri);
    await attempts.begin({ ...owner, auth, granted, redirectUri, state, verifier }, clock.now());
    return url;
  }

  /** Ends a sign-in: stores the answer of the authorization server. @returns the source */
  async finish({ redirect, redirect_uri: cameTo, ...user }: GrantFinish): Promise<string> {
    const { attempts, client, clock, store } = this.deps;
    const parameters = new URLSearchParams(redirect);
    const attempt = await attempts.take(parameters.get('state') ?? '', user, clock.now());
    // The code comes from the server with this registered address, the only difference between servers without `iss` (RFC 9207).
    if (attempt.redirectUri !== cameTo)
      throw invalidRequest(`The answer belongs to another source than ${attempt.source}; connect again`);
    const { auth, granted, source } = attempt;
    const tokens = await client.finish(source, granted, parameters, attempt);
    const now = clock.now();
    const expiresAt = now + (tokens.expires_in ?? DEFAULT_LIFE_S) * 1_000;
    const { access_token, refresh_token, scopes = granted.scopes } = tokens;
    const owner = { ...user, source };
    const { id, replaced } = await store.put(
      owner,
      auth,
      { secrets: { access_token, refresh_token }, scopes, expiresAt },
      now,
      granted,
    );
    this.#announce([...replaced, { ...owner, grant_id: id }]);
    return source;
  }

  list(tenantId: string, userId: string | undefined): Promise<UserGrant[]> {
    return this.deps.store.list(tenantId, userId);
  }

  /** @returns how many grants were deleted */
  async revoke({ tenant_id, user_id, source }: GrantRevoke): Promise<number> {
    const revoked = await this.deps.store.revoke(tenant_id, user_id, source);
    this.#announce(revoked);
    this.deps.upstream.begin(revoked);
    return revoked.length;
  }

  /** @returns how many grants were deleted, or found */
  async purge(tenantId: string, userId: string | undefined, isDryRun: boolean): Promise<number> {
    const { store, attempts } = this.deps;
    if (!isDryRun) await attempts.purge(tenantId, userId);
    const found = await store.purge(tenantId, userId, isDryRun);
    if (!isDryRun) this.#announce(found);
    return found.length;
  }

  /**
   * The credential of a call.
   * @throws ToolError PERMISSION_DENIED for a token that the gateways have not signed; AUTHORIZATION_REQUIRED when the user has to
   *   connect again
   */
  async token({ token, refused }: GrantToken): Promise<GrantTokenReply> {
    const { store, tokens } = this.deps;
    const call = openGrantToken(tokens, token);
    if (!call) throw new ToolError('PERMISSION_DENIED', { message: 'The token of the call is invalid or has expired' });
    const grant = await store.open(call.grantId);
    if (!grant || grant.tenant_id !== call.tenantId || grant.user_id !== call.userId) throw revoked(call.source);
    if (grant.reason !== undefined) throw required(grant, grant.reason);
    if (grant.mode !== 'api_key') return this.#accessToken(grant, refused);
    // The key stays: a service that refuses all keys for a while must not cost every user theirs.
    if (refused === grant.generation) throw required(grant, `${grant.source} refused the key`);
    return { kind: 'key', value: grant.secrets.api_key!, generation: grant.generation, lives_ms: MAX_KEPT_MS };
  }

  /** The access token, refreshed before it ends, or because the upstream refused it. */
  async #accessToken(grant: OpenGrant, refused: number | undefined): Promise<GrantTokenReply> {
    const isRefused = refused === grant.generation;
    if (!isRefused && this.#livesMs(grant) > 0) return this.#asToken(grant);
    if (grant.mode === 'connect' && grant.secrets.refresh_token === undefined) {
      if (!isRefused && this.#endsIn(grant) > 0) return this.#asToken(grant);
      throw required(grant, isRefused ? `${grant.source} refused the token` : 'the token has expired');
    }
    try {
      return this.#asToken(await this.deps.refresh.refresh(grant, isRefused ? 0 : this.#endsAt(grant)));
    } catch (error) {
      // Refreshed early: until the old token ends, a failing authorization server fails no call.
      if (isRefused || this.#endsIn(grant) <= 0) throw error;
      return this.#asToken(grant);
    }
  }

  #asToken(grant: OpenGrant): GrantTokenReply {
    const lives_ms = Math.min(MAX_KEPT_MS, Math.max(0, this.#livesMs(grant)));
    return { kind: 'token', value: grant.secrets.access_token!, generation: grant.generation, lives_ms };
  }

  /** An exchanged grant begins without a token. */
  #endsAt({ expires_at: at = 0, secrets }: OpenGrant): EpochMs {
    return secrets.access_token === undefined ? 0 : at;
  }

  #endsIn(grant: OpenGrant): Milliseconds {
    return this.#endsAt(grant) - this.deps.clock.now();
  }

  /** Until the token is refreshed: before its end by a quarter of its life, up to 30 seconds. */
  #livesMs(grant: OpenGrant): number {
    const lifeMs = (grant.expires_at ?? 0) - grant.updated_at;
    return this.#endsIn(grant) - Math.min(EARLY_MS, lifeMs / 4);
  }

  #announce(grants: GrantsChanged['grants']): void {
    if (grants.length === 0) return;
    this.deps.announce({
      grants: grants.map(({ tenant_id, user_id, source, grant_id }) => ({ tenant_id, user_id, source, grant_id })),
    });
  }
}

const revoked = (source: string): ToolError => required({ source }, 'it is no longer connected');
