import { readFileSync } from 'node:fs';
import { ToolError, type EpochMs } from '@toolfleet/contracts';
import type { FleetDeclaration } from '@toolfleet/contracts/resources';
import { orUnavailable } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';

const PUT = readFileSync(new URL('../../lua/put-declaration.lua', import.meta.url), 'utf8');
/** How long one client may change resources; an interrupted one blocks others for this time. */
const LEASE_MS = 10 * 60_000;
const STORE = 'The store of declarations';

interface Stored {
  revision: number;
  owned: Record<string, string>;
  changedAt: EpochMs;
  applyingUntil: EpochMs;
}

/** A change of a declaration that a client has read at `revision`. */
type DeclarationChange = Pick<FleetDeclaration, 'name' | 'revision' | 'owned'> & { applying: boolean };

/**
 * Which declaration owns which resources of a tenant. Only ids: what a resource is like is in its own store, and `fleetctl apply` compares
 * it with the files. An id has one owner.
 */
export class RedisDeclarations {
  constructor(private readonly redis: Redis) {}

  /** By name. @throws ToolError SERVICE_UNAVAILABLE */
  async list(tenantId: string): Promise<FleetDeclaration[]> {
    const all = await orUnavailable(STORE, this.redis.hgetall(keyOf(tenantId)));
    return Object.entries(all)
      .map(([name, text]) => toDeclaration(name, text))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** @throws ToolError STATE_CONFLICT when another client or declaration was first; SERVICE_UNAVAILABLE */
  async put(tenantId: string, { name, revision, owned, applying }: DeclarationChange): Promise<FleetDeclaration> {
    const values = [name, revision, JSON.stringify(owned), applying ? LEASE_MS : 0];
    const made = String(await orUnavailable(STORE, this.redis.eval(PUT, 1, keyOf(tenantId), ...values)));
    if (made.startsWith('{')) return toDeclaration(name, made);
    const [outcome, id, owner] = made.split(' ');
    const reasons: Record<string, string> = {
      changed: `Declaration ${name} was changed meanwhile`,
      applying: `Declaration ${name} is being applied by another client`,
      owned: `${id} is owned by the declaration ${owner}`,
    };
    throw new ToolError('STATE_CONFLICT', { message: reasons[outcome!]! });
  }

  /** Forgets the declarations of a tenant. Returns how many there were. */
  async erase(tenantId: string, dryRun: boolean): Promise<number> {
    const count = await this.redis.hlen(keyOf(tenantId));
    if (!dryRun) await this.redis.del(keyOf(tenantId));
    return count;
  }
}

const keyOf = (tenantId: string): string => `{fleet}:declarations:${tenantId}`;

function toDeclaration(name: string, text: string): FleetDeclaration {
  const { revision, owned, changedAt, applyingUntil } = JSON.parse(text) as Stored;
  return {
    name,
    revision,
    owned,
    changed_at: new Date(changedAt).toISOString(),
    applying_until: applyingUntil === 0 ? null : new Date(applyingUntil).toISOString(),
  };
}
