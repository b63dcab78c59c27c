import type { Person, Principal } from '@toolfleet/contracts';
import type { UserChanged } from '@toolfleet/contracts/identity';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Logger } from '@toolfleet/telemetry';
import type { Redis } from 'ioredis';
import { coversRole, type OwnRoles, withOwnRights } from './roles.js';

/** The part of the NATS client by which `identity` announces users. */
interface Announcements {
  subscribe(subject: string, received: (message: { body?: unknown }) => void): unknown;
}

const keyOf = (tenantId: string): string => `{auth}:people:${tenantId}`;

/**
 * The roles that people who sign in had last, next to their keys in Redis: `{auth}:people:<tenant>` user id → roles (JSON). `identity` announces
 * them with each answer of the OpenID provider, so a lost announcement is made up for by the next one. Users who never signed in have none.
 */
export class PeopleRoles {
  constructor(
    private readonly redis: Redis,
    private readonly nats: Announcements,
    /** Of the configuration file. */
    private readonly roles: OwnRoles,
    private readonly logger: Pick<Logger, 'warn'>,
  ) {}

  /** Follows `identity.user.changed`; starts after the connections. */
  asComponent(): { name: string; start(): Promise<void> } {
    return {
      name: 'roles of people',
      start: async () => {
        this.nats.subscribe(SUBJECTS.userChanged, ({ body }) => {
          const { tenant_id, user_id, roles } = body as UserChanged;
          this.redis
            .hset(keyOf(tenant_id), user_id, JSON.stringify(roles))
            .catch((error: unknown) => this.logger.warn({ error }, 'the roles of a user cannot be stored'));
        });
      },
    };
  }

  /**
   * The roles of a key that a person could give it today.
   * @throws Error when Redis is unavailable
   */
  async boundBy({ tenantId, userId }: Person, roles: readonly string[]): Promise<readonly string[]> {
    if (roles.length === 0) return roles;
    const known = await this.redis.hget(keyOf(tenantId), userId);
    if (known === null) return roles;
    const bare: Principal = { tenantId, userId, roles: JSON.parse(known) as string[], tools: [], via: 'session' };
    const person = withOwnRights(bare, this.roles);
    return roles.filter((role) => person.roles.includes(role) || coversRole(person, role));
  }

  /** Forgets a user, or all of a tenant. */
  async erase(tenantId: string, userId: string | undefined): Promise<void> {
    await (userId === undefined ? this.redis.del(keyOf(tenantId)) : this.redis.hdel(keyOf(tenantId), userId));
  }
}
