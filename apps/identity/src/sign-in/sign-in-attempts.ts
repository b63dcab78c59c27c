import { createHash } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { KeyRing } from '@toolfleet/service';
import type { IdentityDb } from '../identity-tables.js';
import { cookie, openCookie, type WebRequest } from './web.js';

/** How long a person may take at the provider. */
const ATTEMPT_SECONDS = 600;
const PREFIX = '__Host-toolfleet-sign-in-';

/** A sign-in that has begun: the values that the provider's response is checked against, and where the browser goes on. */
export interface SignInAttempt {
  state: string;
  nonce: string;
  verifier: string;
  /** The authorization request of an OAuth client that the user signs in for; absent: the console. */
  interaction?: string;
  expiresAt: EpochMs;
}

/** What may be used once: the state of a sign-in, the `jti` of a logout token. */
export class UsedOnce {
  constructor(
    private readonly db: IdentityDb,
    private readonly clock: Clock,
  ) {}

  /** @returns false if it was used before @param forSeconds for which it could be used again */
  async use(kind: 'state' | 'logout', value: string, forSeconds: number): Promise<boolean> {
    const digest = createHash('sha256').update(`${kind}/${value}`).digest('base64url');
    const row = { digest, expires_at: this.clock.now() + forSeconds * 1_000 };
    const insert = this.db.insertInto('used_once').values(row);
    const { numInsertedOrUpdatedRows } = await insert
      .onConflict((conflict) => conflict.column('digest').doNothing())
      .executeTakeFirstOrThrow();
    return (numInsertedOrUpdatedRows ?? 0n) > 0n;
  }

  /** Deletes what can no longer be used. */
  async forgetEnded(before: EpochMs): Promise<void> {
    await this.db.deleteFrom('used_once').where('expires_at', '<', before).execute();
  }
}

/**
 * Attempts live sealed in a cookie of the browser that began them, so that a response is rejected in another browser and beginning
 * one costs the service no memory. Each browser tab has its own cookie. A state is used once, whatever became of its sign-in.
 */
export class SignInAttempts {
  constructor(
    private readonly keys: KeyRing,
    private readonly used: UsedOnce,
    private readonly clock: Clock,
  ) {}

  /** The `Set-Cookie` of an attempt. `Lax`: the provider sends the browser back by a link. */
  remember(attempt: Omit<SignInAttempt, 'expiresAt'>): string {
    const expiresAt = this.clock.now() + ATTEMPT_SECONDS * 1_000;
    const sealed = this.keys.seal(JSON.stringify({ ...attempt, expiresAt }), placeOf(attempt.state));
    return cookie(nameOf(attempt.state), sealed, ATTEMPT_SECONDS);
  }

  /** Takes the attempt of a response; undefined if this browser began none with its state, or it was used or has expired. */
  async take(state: string, request: Pick<WebRequest, 'cookies'>): Promise<SignInAttempt | undefined> {
    const attempt = openCookie<SignInAttempt>(request, nameOf(state), this.keys, placeOf(state));
    if (!attempt || attempt.expiresAt <= this.clock.now()) return undefined;
    return (await this.used.use('state', state, ATTEMPT_SECONDS)) ? attempt : undefined;
  }

  /** The `Set-Cookie` that removes an attempt. */
  forget(state: string): string {
    return cookie(nameOf(state), '', 0);
  }
}

const placeOf = (state: string): string => `sign-in/${state}`;
/** A state is made of letters, digits, "-" and "_"; anything else in a response names no cookie. */
const nameOf = (state: string): string => PREFIX + (/^[\w-]{20,100}$/.test(state) ? state.slice(0, 12) : '');
