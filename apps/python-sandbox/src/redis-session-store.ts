import type { Milliseconds } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';
import { type SessionKey, type SessionLease, SessionStore } from './session-store.js';

/** KEYS: lock, variables. ARGV: holder, lease in ms. Answer: 0 when another holds it, else 1 and the variables. */
const TAKE_2 = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {0} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, redis.call('GET', KEYS[2])}
`;

/** KEYS: lock, variables. ARGV: holder, ttl in seconds, variables if they are to be kept. A lost lease keeps nothing. */
const RELEASE_2 = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] then redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[2]) else redis.call('EXPIRE', KEYS[2], ARGV[2]) end
redis.call('DEL', KEYS[1])
return 1
`;

/**
 * Sessions in Redis, `{s:<tenant>:<user>:<session>}` and its lock. All names are percent-encoded, so that no tenant and no
 * user can spell the key of another. Each use of a session makes it live another `ttlSeconds`.
 */
export class RedisSessionStore extends SessionStore {
  constructor(
    private readonly redis: Redis,
    private readonly ttlSeconds: number,
  ) {
    super();
  }

  override async take(key: SessionKey, holder: string, leaseMs: Milliseconds): Promise<SessionLease | null> {
    const owner = [key.tenantId, key.userId, key.sessionId].map(encodeURIComponent).join(':');
    const variables = `{s:${owner}}`;
    const lock = `${variables}:lock`;
    const answer = (await this.redis.eval(TAKE_2, 2, lock, variables, holder, Math.ceil(leaseMs))) as [
      number,
      (string | null)?,
    ];
    if (answer[0] === 0) return null;
    return {
      variables: answer[1] ?? null,
      release: async (kept?: string) => {
        const args = kept === undefined ? [] : [kept];
        // While Redis is away the lease ends by itself; the answer of the run matters more than its variables.
        await this.redis.eval(RELEASE_2, 2, lock, variables, holder, this.ttlSeconds, ...args).catch(() => undefined);
      },
    };
  }
}
