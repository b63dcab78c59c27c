import { hash } from 'node:crypto';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';

/** A session of a 2025 client. Its id is known to its client only, and is valid with the credential that it was opened with. */
export interface McpSession {
  principal: Principal;
  /** `Mcp-Session-Id`. */
  id: string;
}

/** Bounds of a tenant's subscriptions: clients choose their addresses, and may claim any number of sessions. */
const MAX_ADDRESS_CHARS = 1_000;
const MAX_RESOURCES = 100;
const MAX_SESSIONS = 500;
/** How long subscriptions outlive the last use of their session, in seconds. */
const KEPT_SECONDS = 24 * 3_600;

/**
 * Resources that sessions of 2025 clients subscribe to, in one Redis set per session (`ms:<hash>`): any replica may serve its stream. Of the
 * sessions of a tenant (`ms:t:<tenant>`, by last use), those used last are kept.
 */
export class RedisSessionSubscriptions {
  constructor(
    private readonly redis: Redis,
    private readonly clock: Clock,
  ) {}

  /** The resources of a session, as its client names them; they are kept for another day. @throws ToolError SERVICE_UNAVAILABLE */
  async list(session: McpSession): Promise<string[]> {
    const addresses = await available(this.redis.smembers(redisKey(session)));
    if (addresses.length > 0) await available(this.#keep(session));
    return addresses;
  }

  /** @throws ToolError REQUEST_INVALID when the address is too long or the session has too many; SERVICE_UNAVAILABLE */
  async add(session: McpSession, address: string): Promise<void> {
    if (address.length > MAX_ADDRESS_CHARS) {
      const message = `The address of a subscription may have ${MAX_ADDRESS_CHARS} characters`;
      throw new ToolError('REQUEST_INVALID', { message });
    }
    const key = redisKey(session);
    const [added, size] = await available(
      Promise.all([this.redis.sadd(key, address), this.redis.scard(key), this.#keep(session)]),
    );
    if (added === 0 || size <= MAX_RESOURCES) return;
    await this.remove(session, address);
    throw new ToolError('REQUEST_INVALID', { message: `A session may subscribe to ${MAX_RESOURCES} resources` });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  async remove(session: McpSession, address: string): Promise<void> {
    await available(this.redis.srem(redisKey(session), address));
  }

  async #keep(session: McpSession): Promise<void> {
    const sessions = `ms:t:${session.principal.tenantId}`;
    const [, , , count] = await Promise.all([
      this.redis.expire(redisKey(session), KEPT_SECONDS),
      this.redis.zadd(sessions, this.clock.now(), sessionKey(session)),
      this.redis.expire(sessions, KEPT_SECONDS),
      this.redis.zcard(sessions),
    ]);
    if (count <= MAX_SESSIONS) return;
    const oldest = await this.redis.zpopmin(sessions, count - MAX_SESSIONS);
    await Promise.all(oldest.filter((_, index) => index % 2 === 0).map((key) => this.redis.unlink(`ms:${key}`)));
  }
}

/** Names a session without its id: other sessions and credentials have other names. */
export function sessionKey({ principal: { tenantId, userId, keyId }, id }: McpSession): string {
  return hash('sha256', JSON.stringify([tenantId, userId, keyId ?? null, id]), 'base64url');
}

const redisKey = (session: McpSession): string => `ms:${sessionKey(session)}`;

function available<T>(answer: Promise<T>): Promise<T> {
  return answer.catch((cause: unknown) => {
    throw new ToolError('SERVICE_UNAVAILABLE', { message: 'Subscriptions are unavailable; retry later', cause });
  });
}
