import { isToolError, ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import type { SignInSession, UserChanged } from '@toolfleet/contracts/identity';
import type { SignInSettings } from '@toolfleet/fleet-file';
import { Rounds, withTimeout, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { GrantRefresh } from '../grant-refresh.js';
import type { SessionStore } from '../session-store.js';
import type { SignInTokens } from '../sign-in-tokens.js';
import type { CompanyProvider } from './company-provider.js';
import { userOfClaims, type SignedInUser } from './user-of-claims.js';

const DEFAULT_MINUTES = 10;
/** A session of which the provider has not answered for so many intervals does not count until it answers. */
const TOLERATED_INTERVALS = 6;
/** Without an answer it is asked again after this time, or an interval. */
const RETRY_MS: Milliseconds = 30_000;
const LOOK_MS: Milliseconds = 5_000;
/** Questions at once, by one replica. */
const CONCURRENCY = 8;
/** Shorter than the time for which gateways wait for a session. */
const CONFIRM_MS: Milliseconds = 2_000;
const DEFAULT_HOURS = 12;

/** How long a session lasts if the provider cannot be asked about its user. */
export const sessionMs = ({ session_hours: hours = DEFAULT_HOURS }: SignInSettings): Milliseconds =>
  Math.round(hours * 3_600) * 1_000;

interface ProviderAsksDeps {
  settings: SignInSettings;
  provider: CompanyProvider;
  sessions: SessionStore;
  signIns: SignInTokens;
  refresh: GrantRefresh;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  /** Tells gateways the roles of a user. */
  announce(changed: UserChanged): void;
}

/**
 * Asks the company's provider again about everyone who is signed in, in browsers and through OAuth clients, every `check_minutes`: in the
 * background, so that no call waits for it. Its claims give roles as at the sign-in. A refusal ends the session, and hastens the questions
 * about the others of the user. While the provider does not answer, sessions count for six intervals.
 */
export class ProviderAsks {
  readonly name = 'questions to the OpenID provider';
  readonly #everyMs: Milliseconds;
  readonly #running = new Map<string, Promise<void>>();
  readonly #rounds: Rounds;
  #isStopped = false;

  constructor(private readonly deps: ProviderAsksDeps) {
    this.#everyMs = Math.round((deps.settings.check_minutes ?? DEFAULT_MINUTES) * 60_000);
    deps.sessions.confirm = (session) => this.#confirm(session);
    this.#rounds = new Rounds({
      clock: deps.clock,
      everyMs: Math.min(LOOK_MS, this.#everyMs / 4),
      work: () => this.run(),
      onFailure: (error) => deps.logger.warn({ error }, 'sessions that are due cannot be read'),
    });
  }

  /** Announces a user who signed in. @returns when the provider is asked about it first */
  begin({ tenantId, userId, roles }: SignedInUser): EpochMs {
    this.deps.announce({ tenant_id: tenantId, user_id: userId, roles });
    return this.#nextAt();
  }

  #nextAt(): EpochMs {
    return this.deps.clock.now() + this.#everyMs;
  }

  async start(): Promise<void> {
    this.#rounds.start();
  }

  stop(): Promise<void> {
    this.#isStopped = true;
    return this.#rounds.stop();
  }

  /** Asks about every session that is due. */
  async run(): Promise<void> {
    const { sessions, clock } = this.deps;
    for (let due: SignInSession[]; !this.#isStopped;) {
      due = await sessions.due(clock.now(), CONCURRENCY);
      await Promise.all(due.map((session) => this.ask(session)));
      if (due.length < CONCURRENCY) return;
    }
  }

  /** Asks about a session that is due, unless another replica does. */
  async ask(session: SignInSession): Promise<void> {
    const { session_id: id } = session;
    const running = this.#running.get(id) ?? this.#ask(session).finally(() => this.#running.delete(id));
    this.#running.set(id, running);
    return running;
  }

  async #ask(session: SignInSession): Promise<void> {
    const { sessions, settings, clock, logger } = this.deps;
    const { session_id, tenant_id, user_id } = session;
    const now = clock.now();
    if (!(await sessions.take(session_id, now, now + Math.min(RETRY_MS, this.#everyMs)))) return;
    try {
      const user = await this.#answer(session);
      if (user === 'unknown') return await sessions.bound(sessionMs(settings), session_id);
      const { roles, groups } = user;
      await sessions.answered(session_id, { tenant_id, user_id, roles, groups }, clock.now(), this.#nextAt());
      this.deps.announce({ tenant_id, user_id, roles });
      if (roles.join() !== session.roles.join())
        logger.info({ session_id, tenant_id, user_id, roles }, 'the OpenID provider changed the roles of a user');
    } catch (error) {
      if (!isToolError(error) || !['UNAUTHENTICATED', 'PERMISSION_DENIED'].includes(error.code))
        return logger.warn({ session_id, error }, 'the OpenID provider does not answer about a user');
      await sessions.revoke({ tenant_id, session_id }, clock.now());
      await sessions.hasten({ tenant_id, user_id }, clock.now());
      logger.info({ session_id, tenant_id, user_id, error }, 'the OpenID provider ended a session');
    }
  }

  /** @throws ToolError UNAUTHENTICATED, PERMISSION_DENIED for a user who could not sign in any more; others without an answer */
  async #answer(session: SignInSession): Promise<Pick<SignedInUser, 'roles' | 'groups'> | 'unknown'> {
    const { settings, provider, signIns, refresh } = this.deps;
    const answer = await signIns.ask(session, provider, refresh);
    if (answer === 'unknown') return answer;
    if (answer === 'confirmed') return session;
    const user = userOfClaims(answer.claims, settings);
    if (user.tenantId === session.tenant_id && user.userId === session.user_id) return user;
    const message = 'The OpenID provider gives another name or tenant';
    throw new ToolError('UNAUTHENTICATED', { message });
  }

  /** The session, if the provider has confirmed it lately; asks it if it has not. @throws ToolError SERVICE_UNAVAILABLE */
  async #confirm(session: SignInSession): Promise<SignInSession | undefined> {
    const { sessions, clock } = this.deps;
    const { asked_at: askedAt } = session;
    const since = clock.now() - this.#everyMs * TOLERATED_INTERVALS;
    if (askedAt === undefined || askedAt >= since) return session;
    await withTimeout(clock, CONFIRM_MS, this.ask(session)).catch(() => undefined);
    const now = await sessions.read(session.session_id, clock.now());
    if (!now || now.asked_at === undefined || now.asked_at >= since) return now;
    const message =
      'The OpenID provider has not confirmed this session for too long, and does not answer; retry later.';
    throw new ToolError('SERVICE_UNAVAILABLE', { message });
  }
}
