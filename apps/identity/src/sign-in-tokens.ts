import { isToolError, ToolError, type EpochMs } from '@toolfleet/contracts';
import type { SignInSession } from '@toolfleet/contracts/identity';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { DEFAULT_LIFE_S, type Tokens } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import type { GrantRefresh } from './grant-refresh.js';
import { SIGN_IN, type UserGrantOwner, type UserGrantStore, type OpenGrant } from './user-grant-store.js';
import type { ProviderAnswer, CompanyProvider } from './sign-in/company-provider.js';
import type { SignedInUser } from './sign-in/user-of-claims.js';

/**
 * A second use of a refresh token ends at worst a connection that the lost answer has ended already, so one with an unknown outcome is sent
 * again, however late.
 */
const GRACE_SECONDS = 365 * 86_400;

/**
 * Tokens that the company's provider gave at sign-ins, one grant for each session, sealed and refreshed as other grants are. With them the
 * provider is asked again about a user, and with `sign_in.keep_tokens` sources get tokens in exchange. They are deleted after their session.
 */
export class SignInTokens {
  readonly #auth: UserAuth;

  constructor(
    private readonly store: UserGrantStore,
    private readonly clock: Clock,
    /** Of `sign_in`. */
    issuer: string | undefined,
    /** Whether sources may exchange them. */
    readonly isKept: boolean,
  ) {
    this.#auth = { mode: 'connect', issuer, refresh_grace_seconds: GRACE_SECONDS };
  }

  /** @param sessionId of the session that the sign-in opens, now or after a consent */
  async keep(sessionId: string, user: Pick<SignedInUser, 'tenantId' | 'userId'>, tokens: Tokens): Promise<void> {
    const { access_token, refresh_token, id_token, expires_in: lifeS = DEFAULT_LIFE_S } = tokens;
    const now = this.clock.now();
    const owner = { tenant_id: user.tenantId, user_id: user.userId, source: sourceOf(sessionId) };
    const credential = { secrets: { access_token, refresh_token, id_token }, expiresAt: now + lifeS * 1_000 };
    await this.store.put(owner, this.#auth, credential, now);
  }

  /** The tokens of the newest sign-in of a user at the provider that is configured now, for exchanges. */
  async find(owner: Omit<UserGrantOwner, 'source'>): Promise<OpenGrant | undefined> {
    return this.isKept ? this.store.newestSignIn(owner, this.#auth) : undefined;
  }

  /** The tokens of a session. */
  of({ tenant_id, user_id, session_id }: Pick<SignInSession, 'tenant_id' | 'user_id' | 'session_id'>) {
    return this.store.ofOwner({ tenant_id, user_id, source: sourceOf(session_id) }, this.#auth);
  }

  /**
   * Asks the provider about the user of a session: by its refresh token, else by the access token while that is valid.
   * @throws ToolError UNAUTHENTICATED when the provider refuses the user; others when it does not answer
   */
  async ask(session: SignInSession, provider: CompanyProvider, refresh: GrantRefresh): Promise<ProviderAnswer> {
    const kept = await this.of(session);
    if (!kept) return 'unknown';
    if (kept.reason !== undefined) throw refused(kept.reason);
    const isRenewable = kept.secrets.refresh_token !== undefined;
    if (!isRenewable && (kept.expires_at ?? 0) <= this.clock.now()) return 'unknown';
    const { secrets } = isRenewable ? await refresh.refresh(kept, 0).catch(asRefusal) : kept;
    // An ID token of the sign-in says nothing about today.
    const idToken = secrets.id_token === kept.secrets.id_token ? undefined : secrets.id_token;
    const answer = await provider.ask(secrets.access_token!, idToken, session.provider!.subject);
    return answer === 'unknown' && isRenewable ? 'confirmed' : answer;
  }

  /** Deletes the tokens of all sign-ins of a user, so that none that waits for a consent opens a session. */
  forgetUser(owner: Omit<UserGrantOwner, 'source'>): Promise<void> {
    return this.store.forgetSignIns(owner);
  }

  /** Deletes the tokens of sessions that ended before an instant. */
  forgetEnded(before: EpochMs): Promise<void> {
    return this.store.forgetSignedOut(before);
  }
}

const sourceOf = (sessionId: string): string => `${SIGN_IN}/${sessionId}`;

const refused = (reason: string, cause?: unknown): ToolError =>
  new ToolError('UNAUTHENTICATED', { message: `The OpenID provider refuses the user: ${reason}`, cause });

/** @throws */
function asRefusal(error: unknown): never {
  throw isToolError(error) && error.code === 'AUTHORIZATION_REQUIRED' ? refused(error.message, error) : error;
}
