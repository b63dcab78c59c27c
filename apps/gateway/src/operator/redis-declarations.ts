import { readFileSync } from 'node:fs';
import { ToolError, type EpochMs } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS, quotaExceeded, type Quotas } from '@toolfleet/contracts/account';
import type { FleetDeclaration } from '@toolfleet/contracts/resources';
import { defineScript, orUnavailable, type Script } from '@toolfleet/queue/redis';
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
 * Which declaration owns which resources of a tenant. Only ids: the content of a resource is in its own store, and `fleetctl apply` compares
 * it with the files. An id has one owner; an index by id shows it.
 */
export class RedisDeclarations {
  readonly #put: Script<string[]>;

  constructor(
    private readonly redis: Redis,
    private readonly quotas: Pick<Quotas, 'declarations' | 'declaration_bytes'> = DEFAULT_QUOTAS,
  ) {
    this.#put = defineScript(redis, 'putDeclaration', 2, PUT);
  }

  /** By name. @throws ToolError SERVICE_UNAVAILABLE */
  async list(tenantId: string): Promise<FleetDeclaration[]> {
    const all = await orUnavailable(STORE, this.redis.hgetall(keyOf(tenantId)));
    return Object.entries(all)
      .map(([name, text]) => toDeclaration(name, JSON.parse(text) as Stored))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /**
   * @param mayChange whether the caller may change an id; the declaration keeps its other ids
   * @throws ToolError STATE_CONFLICT when another client or declaration was first; QUOTA_EXCEEDED; SERVICE_UNAVAILABLE
   */
  put(tenantId: string, change: DeclarationChange, mayChange: (id: string) => boolean): Promise<FleetDeclaration> {
    return orUnavailable(STORE, this.#change(tenantId, change, mayChange));
  }

  /** Forgets the declarations of a tenant. Returns how many there were. */
  async erase(tenantId: string, dryRun: boolean): Promise<number> {
    const count = await this.redis.hlen(keyOf(tenantId));
    if (!dryRun) await this.redis.unlink(keyOf(tenantId), indexOf(tenantId));
    return count;
  }

  async #change(
    tenantId: string,
    { name, revision, applying, ...change }: DeclarationChange,
    mayChange: (id: string) => boolean,
  ): Promise<FleetDeclaration> {
    const read = (await this.redis.hget(keyOf(tenantId), name)) ?? '';
    const known: Stored = read === '' ? NONE : (JSON.parse(read) as Stored);
    if (known.revision !== revision) throw refusal(name, 'changed');
    const kept = Object.entries(known.owned).filter(([id]) => !mayChange(id));
    const owned = { ...change.owned, ...Object.fromEntries(kept) };
    const text = JSON.stringify(owned);
    const claimed = Object.keys(owned).filter((id) => !Object.hasOwn(known.owned, id));
    const released = Object.keys(known.owned).filter((id) => !Object.hasOwn(owned, id));
    // A client that ends applying adds notes to its claims; refused, it would lose them.
    if (applying || claimed.length > 0) this.#checkSize(text, known);
    const next = [revision + 1, text === '{}' ? '' : text, applying ? LEASE_MS : 0];
    const values = [
      name,
      read,
      known.applyingUntil,
      ...next,
      this.quotas.declarations,
      claimed.length,
      ...claimed,
      ...released,
    ];
    const [outcome = '', first = '', second = ''] = await this.#put(keyOf(tenantId), indexOf(tenantId), ...values);
    if (outcome === 'full') throw quotaExceeded('declarations', this.quotas.declarations);
    if (outcome !== 'done') throw refusal(name, outcome, first, second);
    const [changedAt, applyingUntil] = [Number(first), Number(second)];
    return toDeclaration(name, { revision: revision + 1, owned, changedAt, applyingUntil });
  }

  /** One that a lowered quota leaves too large can shrink. @throws ToolError QUOTA_EXCEEDED */
  #checkSize(text: string, known: Stored): void {
    const [bytes, most] = [Buffer.byteLength(text), this.quotas.declaration_bytes];
    if (bytes > most && bytes > Buffer.byteLength(JSON.stringify(known.owned)))
      throw quotaExceeded('declaration_bytes', most);
  }
}

const NONE: Stored = { revision: 0, owned: {}, changedAt: 0, applyingUntil: 0 };
const keyOf = (tenantId: string): string => `{fleet}:declarations:${tenantId}`;
const indexOf = (tenantId: string): string => `${keyOf(tenantId)}:owners`;

/** The error of an outcome of the script. @param id of a resource that `owner` owns */
function refusal(name: string, outcome: string, id?: string, owner?: string): ToolError {
  const reasons: Record<string, string> = {
    changed: `Declaration ${name} was changed meanwhile`,
    applying: `Declaration ${name} is being applied by another client`,
    owned: `${id} is owned by the declaration ${owner}`,
  };
  return new ToolError('STATE_CONFLICT', { message: reasons[outcome]! });
}

function toDeclaration(name: string, { revision, owned, changedAt, applyingUntil }: Stored): FleetDeclaration {
  return {
    name,
    revision,
    owned,
    changed_at: new Date(changedAt).toISOString(),
    applying_until: applyingUntil === 0 ? null : new Date(applyingUntil).toISOString(),
  };
}
