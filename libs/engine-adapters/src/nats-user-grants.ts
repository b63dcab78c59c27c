import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { GrantFind, GrantFindReply, GrantsChanged } from '@toolfleet/contracts/identity';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { sourceId, type UserAuth } from '@toolfleet/contracts/user-auth';
import { UserGrants, type GrantOwner } from '@toolfleet/engine';
import { SingleFlight, type Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';
import { LRUCache } from 'lru-cache';

/** For how long a gateway relies on a grant whose revocation it has not heard of. Executors ask `identity` themselves. */
const KNOWN_MS = 30_000;
const MAX_KNOWN = 20_000;
const ASK_MS: Milliseconds = 10_000;

interface KnownGrant {
  /** Of the definition that was asked about. */
  auth: UserAuth;
  id: string;
  until: Milliseconds;
}

interface GrantsDeps {
  nats: Pick<NatsClient, 'request' | 'subscribe'>;
  clock: Clock;
  /** Whether the service `identity` runs (`GATEWAY_IDENTITY`). */
  isOn: boolean;
}

/** The grants of users as `identity` knows them. A grant that was found is remembered until it changes; one that is missing is not. */
export class NatsUserGrants extends UserGrants {
  readonly #known = new LRUCache<string, KnownGrant>({ max: MAX_KNOWN });
  readonly #flights = new SingleFlight<GrantFindReply>();
  /** Counts changes, so that an answer from before one is not remembered. */
  #changes = 0;

  constructor(private readonly deps: GrantsDeps) {
    super();
  }

  /** Follows `identity.grant.changed`. */
  follow(): void {
    this.deps.nats.subscribe(SUBJECTS.grantChanged, ({ body }) => {
      this.#changes += 1;
      for (const { tenant_id, user_id, source } of (body as unknown as GrantsChanged).grants)
        this.#known.delete(keyOf(tenant_id, user_id, source));
    });
  }

  override find(owner: GrantOwner, auth: UserAuth): string | Promise<string> {
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
    const isKnown = known?.auth === auth && known.until > this.deps.clock.monotonic();
    return isKnown ? known.id : this.#ask(key, owner, auth);
  }

  override required(owner: GrantOwner, why: string): ToolError {
    const source = sourceId(owner.source);
    return new ToolError('AUTHORIZATION_REQUIRED', {
      message: `${why}. Connect your account: fleetctl connections connect ${source}`,
      details: { source },
    });
  }

  async #ask(key: string, owner: GrantOwner, auth: UserAuth): Promise<string> {
    const source = sourceId(owner.source);
    const changes = this.#changes;
    const question: GrantFind = { tenant_id: owner.tenantId, user_id: owner.userId, source, auth };
    const { value } = await this.#flights.join(`${key} ${JSON.stringify(auth)}`, new AbortController().signal, () =>
      this.deps.nats.request<GrantFindReply>(SUBJECTS.grantFind, question, { timeoutMs: ASK_MS }),
    );
    const { grant_id: id, reason } = value;
    if (id === undefined)
      throw this.required(owner, reason ?? `${source} acts with your own account, which is not connected`);
    if (changes === this.#changes) this.#known.set(key, { auth, id, until: this.deps.clock.monotonic() + KNOWN_MS });
    return id;
  }
}

const keyOf = (tenantId: string, userId: string, source: string): string => JSON.stringify([tenantId, userId, source]);
