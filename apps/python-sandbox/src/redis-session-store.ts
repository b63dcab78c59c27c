import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Milliseconds } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

const TAKE = readFileSync(new URL('../lua/take-session.lua', import.meta.url), 'utf8');
const RELEASE = readFileSync(new URL('../lua/release-session.lua', import.meta.url), 'utf8');
const COUNT = readFileSync(new URL('../lua/count-session.lua', import.meta.url), 'utf8');
/** The first two scripts use the lock and the variables, the third the account of the tenant. */
const KEY_COUNT = 2;

/** Identifies a session; each user of a tenant has its own. */
interface SessionKey {
  tenantId: string;
  /** The user the call is made for; '' when the caller names none. */
  userId: string;
  sessionId: string;
}

/** The exclusive right to run in a session. */
export interface SessionLease {
  /** Variables as JSON text; null for a new or expired session. */
  variables: string | null;
  /**
   * Ends the lease, and stores `variables` if given. A lease that expired meanwhile stores nothing. Never rejects: while
   * Redis is unavailable the lease expires by itself, and the result of the run matters more than its variables.
   * @returns false if the quota of the tenant has no room for them; the session keeps the old ones
   */
  release(variables?: string): Promise<boolean>;
}

/**
 * Stores variables between the runs of a session. Runs of one session are serialized, because two concurrent runs would
 * overwrite each other's assignments. Runs that wait for the same session start in no particular order.
 *
 * In Redis: the variables under `{s:<tenant>:<user>:<session>}`, the lease under that key with the suffix `:lock`.
 * The names are percent-encoded, so that no tenant or user can construct the key of another. Each use of a session extends
 * its lifetime by `ttlSeconds`. The size of a tenant's sessions is counted under `{s:<tenant>:}`, with hashes of its sessions.
 */
export class RedisSessionStore {
  constructor(
    private readonly redis: Redis,
    private readonly ttlSeconds: number,
    /** Bytes of all sessions of a tenant; 0 means no limit. */
    private readonly quotaBytes: number,
  ) {}

  /**
   * Takes a session for the job `holder`, or returns null while another job has it. The same holder may take it again, so
   * that a job repeated after its worker died does not wait for itself.
   */
  async take(key: SessionKey, holder: string, leaseMs: Milliseconds): Promise<SessionLease | null> {
    const owner = [key.tenantId, key.userId, key.sessionId].map(encodeURIComponent).join(':');
    const variables = `{s:${owner}}`;
    const lock = `${variables}:lock`;
    const taken = await this.redis.eval(TAKE, KEY_COUNT, lock, variables, holder, Math.ceil(leaseMs));
    const [granted, stored] = taken as [number, (string | null)?];
    if (granted === 0) return null;
    return {
      variables: stored ?? null,
      release: async (kept?: string) => {
        const fits = await this.#fits(key.tenantId, owner, kept).catch(() => true);
        const args = [holder, this.ttlSeconds, ...(kept === undefined || !fits ? [] : [kept])];
        await this.redis.eval(RELEASE, KEY_COUNT, lock, variables, ...args).catch(() => undefined);
        return fits;
      },
    };
  }

  async #fits(tenantId: string, owner: string, kept: string | undefined): Promise<boolean> {
    if (this.quotaBytes === 0) return true;
    const account = `{s:${encodeURIComponent(tenantId)}:}`;
    const session = createHash('sha256').update(owner).digest('base64url');
    const bytes = kept === undefined ? -1 : Buffer.byteLength(kept);
    const args = [session, bytes, this.ttlSeconds, this.quotaBytes];
    return (await this.redis.eval(COUNT, KEY_COUNT, `${account}:bytes`, `${account}:ends`, ...args)) === 1;
  }
}
