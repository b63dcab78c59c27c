import { isToolError, type EpochMs } from '@toolfleet/contracts';
import type { GrantFind, GrantFindReply } from '@toolfleet/contracts/identity';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { TokenFailure, type Tokens } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import type { GrantRefresh } from './grant-refresh.js';
import type { UserGrantOwner, UserGrantStore, OpenGrant } from './user-grant-store.js';
import type { SessionStore } from './session-store.js';
import type { SignInTokens } from './sign-in-tokens.js';
import type { OAuthClient, SubjectToken } from './oauth-client.js';

/** A refused exchange is tried again after this time, or after the next sign-in. */
const AGAIN_MS = 30_000;
/** A token that ends so soon is not exchanged. */
const LEAST_LIFE_MS = 5_000;

interface ExchangedGrantsDeps {
  store: UserGrantStore;
  sessions: SessionStore;
  signIns: SignInTokens;
  client: Pick<OAuthClient, 'exchange'>;
  clock: Clock;
}

/** How a caller proves its sign-in. */
type Proof = { reason: string } | { since: EpochMs; token?: { value: string; until: EpochMs } };

/**
 * Grants of sources with the modes `exchange` and `id_jag`. They begin with the first call of a user who has proved a sign-in, and their
 * tokens come from the token of that sign-in: the one that a caller presented, or the one that the fleet keeps.
 */
export class ExchangedGrants {
  constructor(private readonly deps: ExchangedGrantsDeps) {}

  /** The grant of a caller, begun if there is none; or why there can be none. */
  async find({ auth, tenant_id, user_id, source, ...query }: GrantFind): Promise<GrantFindReply> {
    const { store, clock } = this.deps;
    const owner = { tenant_id, user_id, source };
    const grant = await store.ofOwner(owner, auth);
    const refused = grant?.reason;
    if (query.is_continued && grant) return refused === undefined ? { grant_id: grant.grant_id } : { reason: refused };
    const proof = await this.#proofOf(owner, query);
    if ('reason' in proof) return proof;
    const now = clock.now();
    const { token, since } = proof;
    const subject = token && { subject_token: token.value, subject_until: token.until };
    if (grant && refused === undefined) {
      const isNewer = token !== undefined && (grant.secrets.subject_until ?? 0) + AGAIN_MS < token.until;
      if (isNewer) await store.replaceSecrets(grant, { ...grant.secrets, ...subject });
      return { grant_id: grant.grant_id };
    }
    if (grant && since <= grant.updated_at && now < grant.updated_at + AGAIN_MS) return { reason: refused! };
    return { grant_id: await store.begin(owner, auth, { secrets: subject ?? {}, expiresAt: now }, now) };
  }

  /** New tokens for a grant. @throws TokenFailure of kind `grant` when its user has to sign in again; ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async renew({ auth, source, secrets, ...grant }: OpenGrant, refresh: GrantRefresh): Promise<Tokens> {
    const { subject_token: value, subject_until: until = 0 } = secrets;
    const isPresented =
      auth.mode === 'exchange' && value !== undefined && until > this.deps.clock.now() + LEAST_LIFE_MS;
    const subject: SubjectToken = isPresented
      ? { value, type: 'access_token' }
      : await this.#ofSignIn({ ...grant, source }, auth, refresh);
    return this.deps.client.exchange(source, auth, subject);
  }

  async #proofOf(owner: UserGrantOwner, query: Partial<GrantFind>): Promise<Proof> {
    const { sessions, signIns, clock } = this.deps;
    const { session_id: id, subject_token: value, subject_until: until } = query;
    if (value !== undefined && until !== undefined) return { since: 0, token: { value, until } };
    if (id === undefined)
      return {
        reason: `${owner.source} acts with the sign-in of its user, and this credential proves none: call from the console, from an MCP client that is connected by OAuth, or with a token of the identity provider`,
      };
    const session = await sessions.byId(id, clock.now());
    if (session?.tenant_id !== owner.tenant_id || session.user_id !== owner.user_id)
      return { reason: 'your sign-in has ended; sign in again' };
    const kept = await signIns.find(owner);
    if (kept) return kept.reason === undefined ? { since: kept.updated_at } : { reason: kept.reason };
    return {
      reason: signIns.isKept
        ? 'the fleet has no token of your sign-in; sign in again'
        : `${owner.source} needs the token of your sign-in, and this fleet keeps none (sign_in.keep_tokens)`,
    };
  }

  /** The token of the sign-in of a user who is still signed in somewhere, refreshed before it ends. */
  async #ofSignIn(owner: UserGrantOwner, auth: UserAuth, refresh: GrantRefresh): Promise<SubjectToken> {
    const { sessions, signIns, clock } = this.deps;
    const { tenant_id, user_id } = owner;
    const kept = await signIns.find(owner);
    const isSignedIn = (await sessions.list({ tenant_id, user_id }, clock.now())).length > 0;
    if (!kept || !isSignedIn) throw new TokenFailure('grant', 'your sign-in has ended; sign in again');
    if (kept.reason !== undefined) throw new TokenFailure('grant', kept.reason);
    const endsAt = kept.expires_at ?? 0;
    const isEnding = endsAt < clock.now() + LEAST_LIFE_MS;
    if (isEnding && kept.secrets.refresh_token === undefined)
      throw new TokenFailure('grant', 'your sign-in has expired; sign in again');
    const { secrets } = isEnding ? await refresh.refresh(kept, endsAt).catch(asSignIn) : kept;
    const type = auth.mode === 'id_jag' ? 'id_token' : 'access_token';
    const value = secrets[type];
    if (value === undefined)
      throw new TokenFailure('grant', `the provider of your sign-in gave no ${type}; sign in again`);
    return { value, type };
  }
}

/** A refresh of a sign-in that the provider refuses. @throws */
function asSignIn(error: unknown): never {
  if (isToolError(error) && error.code === 'AUTHORIZATION_REQUIRED')
    throw new TokenFailure('grant', 'your sign-in has expired; sign in again', { cause: error });
  throw error;
}
