import type { EpochMs } from '@toolfleet/contracts';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import type { Clock } from '@toolfleet/resilience';
import { SIGN_IN, type GrantOwner, type GrantStore, type OpenGrant } from './grant-store.js';
import { DEFAULT_LIFE_S, type Tokens } from './token-response.js';

/**
 * Tokens that the company's provider gave at the sign-in of users (`sign_in.keep_tokens`), for sources that exchange them: the newest of each
 * user, sealed and refreshed as other grants are. They are used while the user has a session, and deleted after the last one.
 */
export class SignInTokens {
  readonly #auth: UserAuth;

  constructor(
    private readonly store: GrantStore,
    private readonly clock: Clock,
    /** Of `sign_in`. */
    issuer: string | undefined,
    readonly isKept: boolean,
  ) {
    this.#auth = { mode: 'connect', ...(issuer !== undefined && { issuer }) };
  }

  async keep(user: { tenantId: string; userId: string }, tokens: Tokens): Promise<void> {
    if (!this.isKept) return;
    const { access_token, refresh_token, id_token, expires_in: lifeS = DEFAULT_LIFE_S } = tokens;
    const now = this.clock.now();
    const owner = { tenant_id: user.tenantId, user_id: user.userId, source: SIGN_IN };
    const credential = { secrets: { access_token, refresh_token, id_token }, expiresAt: now + lifeS * 1_000 };
    await this.store.put(owner, this.#auth, credential, now);
  }

  /** The tokens of a user's sign-in at the provider that is configured now. */
  async find({ tenant_id, user_id }: Omit<GrantOwner, 'source'>): Promise<OpenGrant | undefined> {
    if (!this.isKept) return undefined;
    return this.store.ofOwner({ tenant_id, user_id, source: SIGN_IN }, this.#auth);
  }

  /** Deletes the tokens of users whose last session ended before an instant. */
  forgetEnded(before: EpochMs): Promise<void> {
    return this.store.forgetSignedOut(before);
  }
}
