import { PRESENTED_TOKEN, ToolError, type Milliseconds, type Principal } from '@toolfleet/contracts';
import type { GrantFind, GrantFindReply, GrantsChanged } from '@toolfleet/contracts/identity';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { sourceId, usesSignIn, type UserAuth } from '@toolfleet/contracts/user-auth';
import { UserGrants, type GrantOwner } from '@toolfleet/engine';
import { RecentMap, SingleFlight, type Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** For how long a gateway relies on a grant without a known revocation. Executors ask `identity` themselves. */
const KNOWN_MS = 30_000;
const MAX_KNOWN = 20_000;

interface KnownGrant {
  /** Of the definition that was asked about. */
  auth: UserAuth;
  /** How the caller proved its sign-in, where that matters. */
  proof: string | undefined;
  id: string;
  until: Milliseconds;
}

interface UserGrantsDeps {
  nats: Pick<NatsClient, 'ask' | 'subscribe'>;
  clock: Clock;
  /** Whether the service `identity` runs (`GATEWAY_IDENTITY`). */
  isOn: boolean;
  /** The address at which a user connects an account of a source (`mcp/crm`); undefined if there is no page. */
  linkTo(user: Pick<GrantOwner, 'tenantId' | 'userId'>, source: string): string | undefined;
}

/** Waits for a user to connect an account. */
export interface GrantWatch {
  /** @returns false when that takes longer than `maxMs`, or `signal` is aborted */
  changed(maxMs: Milliseconds, signal: AbortSignal): Promise<boolean>;
  stop(): void;
}

/** The grants of users as `identity` knows them. A grant that was found is remembered until it changes; one that is missing is not. */
export class NatsUserGrants extends UserGrants {
  readonly #known = new RecentMap<string, KnownGrant>({ max: MAX_KNOWN });
  readonly #flights = new SingleFlight<GrantFindReply>();
  /** Counts changes, so that an answer from before one is not remembered. */
  #changes = 0;
  readonly #watches = new Map<string, Set<() => void>>();

  constructor(private readonly deps: UserGrantsDeps) {
    super();
  }

  /** Follows `identity.grant.changed`. */
  follow(): void {
    this.deps.nats.subscribe(SUBJECTS.grantChanged, ({ body }) => {
      this.#changes += 1;
      for (const { tenant_id, user_id, source } of (body as unknown as GrantsChanged).grants) {
        const key = keyOf(tenant_id, user_id, source);
        this.#known.delete(key);
        for (const notify of this.#watches.get(key) ?? []) notify();
      }
    });
  }

  /** Notices from now on that a user connects an account of a source. */
  watch({ tenantId, userId }: Pick<GrantOwner, 'tenantId' | 'userId'>, source: string): GrantWatch {
    const key = keyOf(tenantId, userId, source);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const notify = (): void => resolve(true);
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches.add(notify));
    return {
      changed: async (maxMs, signal) => {
        const cancelTimer = this.deps.clock.after(maxMs, () => resolve(false));
        const onAbort = (): void => resolve(false);
        signal.addEventListener('abort', onAbort, { once: true });
        if (signal.aborted) onAbort();
        try {
          return await promise;
        } finally {
          cancelTimer();
          signal.removeEventListener('abort', onAbort);
        }
      },
      stop: () => {
        watches.delete(notify);
        if (watches.size === 0) this.#watches.delete(key);
      },
    };
  }

  override find(owner: GrantOwner, auth: UserAuth, caller: Principal): string | Promise<string> {
    const { tenantId, userId, source } = owner;
    if (!this.deps.isOn)
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `${sourceId(source)} needs credentials of users, and the service identity is off; set GATEWAY_IDENTITY`,
      });
    if (userId === '')
      throw new ToolError('PERMISSION_DENIED', {
        message: `${sourceId(source)} acts as the calling user, and this credential names no user`,
      });
    const key = keyOf(tenantId, userId, sourceId(source));
    const known = this.#known.get(key);
    const proof = usesSignIn(auth) ? proofOf(caller) : {};
    const proofKey = proof.session_id ?? proof.subject_token;
    // Without a proof of its own, a caller does not use what another one has proved.
    const isProved = !usesSignIn(auth) || (proofKey !== undefined && known?.proof === proofKey);
    const isKnown = known?.auth === auth && isProved && known.until > this.deps.clock.monotonic();
    return isKnown ? known.id : this.#ask(key, owner, auth, proof, proofKey);
  }

  override required(owner: GrantOwner, auth: UserAuth, why: string): ToolError {
    const source = sourceId(owner.source);
    // The next call asks identity for a newer one.
    this.#known.delete(keyOf(owner.tenantId, owner.userId, source));
    if (usesSignIn(auth)) return new ToolError('AUTHORIZATION_REQUIRED', { message: why, details: { source } });
    return this.#refusal(source, why, this.deps.linkTo(owner, source));
  }

  /** The refusal of a call that has not begun: its entry point can send the user to the page and make it again. */
  #missing(owner: GrantOwner, auth: UserAuth, why: string): ToolError {
    if (usesSignIn(auth)) return this.required(owner, auth, why);
    const source = sourceId(owner.source);
    const url = this.deps.linkTo(owner, source);
    const refusal = this.#refusal(source, why, url);
    return url === undefined ? refusal : refusal.withFacts({ connect: { source, url } });
  }

  #refusal(source: string, why: string, url: string | undefined): ToolError {
    const command = `fleetctl connections connect ${source}`;
    return new ToolError('AUTHORIZATION_REQUIRED', {
      message: `${why}. Connect your account: ${url === undefined ? command : `${url} or ${command}`}`,
      details: { source, url },
    });
  }

  async #ask(
    key: string,
    owner: GrantOwner,
    auth: UserAuth,
    proof: SignInProof,
    proofKey: string | undefined,
  ): Promise<string> {
    const source = sourceId(owner.source);
    const changes = this.#changes;
    const question: GrantFind = { tenant_id: owner.tenantId, user_id: owner.userId, source, auth, ...proof };
    const { value } = await this.#flights.join(JSON.stringify(question), new AbortController().signal, () =>
      this.deps.nats.ask('identity.grant.find', question),
    );
    const { grant_id: id, reason } = value;
    if (id === undefined)
      throw this.#missing(owner, auth, reason ?? `${source} acts with your own account, which is not connected`);
    if (changes === this.#changes)
      this.#known.set(key, { auth, proof: proofKey, id, until: this.deps.clock.monotonic() + KNOWN_MS });
    return id;
  }
}

type SignInProof = Pick<GrantFind, 'session_id' | 'subject_token' | 'subject_until' | 'is_continued'>;

/** How a caller proves its sign-in: by the session that it or its parent has, or by the token that it presented. */
function proofOf({ sessionId, via, expiresAt, [PRESENTED_TOKEN]: token }: Principal): SignInProof {
  if (sessionId !== undefined) return { session_id: sessionId };
  if (via !== 'jwt') return {};
  // Queues have no tokens; the call was accepted with one.
  return token !== undefined && expiresAt !== undefined
    ? { subject_token: token, subject_until: expiresAt }
    : { is_continued: true };
}

const keyOf = (tenantId: string, userId: string, source: string): string => JSON.stringify([tenantId, userId, source]);
