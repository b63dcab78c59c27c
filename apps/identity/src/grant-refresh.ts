import { randomUUID } from 'node:crypto';
import { ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { usesSignIn, type UserAuthMode } from '@toolfleet/contracts/user-auth';
import { DEFAULT_LIFE_S, TokenFailure, type Tokens } from '@toolfleet/oauth';
import type { Clock } from '@toolfleet/resilience';
import type { UserGrantStore, OpenGrant } from './user-grant-store.js';

/** Longer than a token request may take, so that a holder without its right no longer waits for its answer. */
const LEASE_MS: Milliseconds = 20_000;
/** How often a replica looks whether another one has refreshed. */
const LOOK_MS: Milliseconds = 50;
const LOST = 'the outcome of the last refresh is unknown';

interface RefreshDeps {
  store: UserGrantStore;
  /** Requests new tokens for a grant. @throws TokenFailure, ToolError */
  renew(grant: OpenGrant): Promise<Tokens>;
  /** Takes the tokens of a grant that was deleted meanwhile. */
  abandon?(grant: OpenGrant): void;
  clock: Clock;
}

/**
 * Refreshes the tokens of grants: one refresher per grant and generation, among all replicas. The right to refresh a generation is
 * stored before its refresh token is sent, and only its holder stores an outcome, under the same generation: a late answer changes no newer
 * credential.
 *
 * A process may end between the answer of the authorization server and its commit. The refresh token has then been used, and servers that
 * detect reuse (RFC 9700 section 4.14.2) revoke every token of a user who presents it again. So a refresh token with an unknown outcome is
 * sent again only where that is known to be harmless: the server keeps refresh tokens, or takes the previous one for a while
 * (`refresh_grace_seconds`), or nothing was used up (exchanges). Elsewhere the access token is used until it ends, and the user connects
 * again. A holder that was only slow still stores its answer.
 */
export class GrantRefresh {
  readonly #running = new Map<string, Promise<OpenGrant>>();

  constructor(private readonly deps: RefreshDeps) {}

  /**
   * The grant with newer tokens than the given ones; with the given ones while another replica refreshes them.
   * @param usableUntil until when the given ones can be used; 0: the upstream refused them
   * @throws ToolError AUTHORIZATION_REQUIRED when there can be none; NETWORK_ERROR, SERVICE_UNAVAILABLE
   */
  refresh(grant: OpenGrant, usableUntil: EpochMs): Promise<OpenGrant> {
    const key = `${grant.grant_id} ${grant.generation} ${usableUntil > 0}`;
    const running = this.#running.get(key);
    if (running) return running;
    const begun = this.#refresh(grant, usableUntil).finally(() => this.#running.delete(key));
    this.#running.set(key, begun);
    return begun;
  }

  async #refresh(grant: OpenGrant, usableUntil: EpochMs): Promise<OpenGrant> {
    const { store, clock } = this.deps;
    const holder = randomUUID();
    for (;;) {
      const graceMs = (grant.auth.refresh_grace_seconds ?? 0) * 1_000;
      // With a grace there has to be time for the second use.
      const leaseMs = graceMs > 0 ? Math.min(LEASE_MS, graceMs / 2) : LEASE_MS;
      const now = clock.now();
      if (await store.takeRefresh(grant, holder, { now, until: now + leaseMs, graceMs }))
        return this.#asHolder(grant, holder);
      const current = await store.open(grant.grant_id);
      if (!current) throw required(grant, 'it is no longer connected');
      if (current.generation !== grant.generation) return current;
      if (current.reason !== undefined) throw required(grant, current.reason);
      // Given back by its holder: the authorization server is unavailable.
      if (current.refresh_until === undefined) throw unavailable(grant);
      if (usableUntil > clock.now()) return current;
      if (current.refresh_until <= now) {
        await store.refuse(grant, undefined, LOST, clock.now());
        throw required(grant, LOST);
      }
      await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
    }
  }

  async #asHolder(grant: OpenGrant, holder: string): Promise<OpenGrant> {
    const { store, clock } = this.deps;
    const { secrets } = grant;
    try {
      const tokens = await this.deps.renew(grant);
      const { access_token, refresh_token = secrets.refresh_token, id_token = secrets.id_token } = tokens;
      const now = clock.now();
      await this.#commit(grant, holder, {
        secrets: { ...secrets, access_token, refresh_token, id_token },
        scopes: tokens.scopes,
        expiresAt: now + (tokens.expires_in ?? DEFAULT_LIFE_S) * 1_000,
        rotates: refresh_token !== secrets.refresh_token,
        now,
      });
      const current = await store.open(grant.grant_id);
      if (!current) {
        this.deps.abandon?.({ ...grant, secrets: { refresh_token } });
        throw required(grant, 'it is no longer connected');
      }
      return current;
    } catch (error) {
      const failure = error instanceof TokenFailure ? error : undefined;
      if (failure?.kind === 'grant') {
        const reason =
          grant.auth.mode === 'connect' ? `the authorization was refused (${failure.reason})` : failure.reason;
        await store.refuse(grant, holder, reason, clock.now());
        const current = await store.open(grant.grant_id);
        if (current && current.generation !== grant.generation) return current;
        throw required(grant, reason);
      }
      // The right stays taken while the outcome is unknown.
      if (failure?.kind === 'lost') throw unavailable(grant, error);
      await store.giveBack(grant, holder);
      throw error;
    }
  }

  /** Stores tokens also when the store is unavailable for a moment: no other process has them. */
  async #commit(
    grant: OpenGrant,
    holder: string,
    outcome: Parameters<UserGrantStore['commitRefresh']>[2],
  ): Promise<boolean> {
    const { store, clock } = this.deps;
    for (const until = clock.now() + LEASE_MS; ;) {
      try {
        return await store.commitRefresh(grant, holder, outcome);
      } catch (error) {
        if (clock.now() > until) throw new TokenFailure('lost', 'the tokens could not be stored', { cause: error });
        await new Promise<void>((resolve) => void clock.after(LOOK_MS * 4, resolve));
      }
    }
  }
}

/** AUTHORIZATION_REQUIRED for a grant that was there. */
export const required = ({ source, mode }: { source: string; mode?: UserAuthMode }, reason: string): ToolError =>
  new ToolError('AUTHORIZATION_REQUIRED', {
    message: usesSignIn({ mode: mode ?? 'connect' })
      ? `${source} cannot act as you: ${reason}`
      : `Connect your account at ${source} again: ${reason}`,
  });

const unavailable = ({ source }: { source: string }, cause?: unknown): ToolError =>
  new ToolError('SERVICE_UNAVAILABLE', { message: `The tokens of ${source} cannot be refreshed at the moment`, cause });
