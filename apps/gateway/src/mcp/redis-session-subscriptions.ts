import { hash } from 'node:crypto';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/** A session of a 2025 client. Its id is known to its client only, and is valid with the credential that it was opened with. */
export interface McpSession {
  principal: Principal;
  /** `Mcp-Session-Id`. */
  id: string;
}

/** Maximum number of resources of one session. */
const MAX_RESOURCES = 100;
/** How long subscriptions outlive the last use of their session, in seconds. */
const KEPT_SECONDS = 24 * 3_600;

/** Resources that sessions of 2025 clients subscribe to, in one Redis set per session (`ms:<hash>`): any replica may serve its stream. */
export class RedisSessionSubscriptions {
  constructor(private readonly redis: Redis) {}

  /** The resources of a session, as its client names them; they are kept for another day. @throws ToolError SERVICE_UNAVAILABLE */
  async list(session: McpSession): Promise<string[]> {
    const key = redisKey(session);
    const [addresses] = await available(Promise.all([this.redis.smembers(key), this.redis.expire(key, KEPT_SECONDS)]));
    return addresses;
  }

  /** @throws ToolError REQUEST_INVALID when the session has too many; SERVICE_UNAVAILABLE */
  async add(session: McpSession, address: string): Promise<void> {
    const key = redisKey(session);
    const [added, size] = await available(
      Promise.all([this.redis.sadd(key, address), this.redis.scard(key), this.redis.expire(key, KEPT_SECONDS)]),
    );
    if (added === 0 || size <= MAX_RESOURCES) return;
    await this.remove(session, address);
    throw new ToolError('REQUEST_INVALID', { message: `A session may subscribe to ${MAX_RESOURCES} resources` });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  async remove(session: McpSession, address: string): Promise<void> {
    await available(this.redis.srem(redisKey(session), address));
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
