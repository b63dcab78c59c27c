import { type EpochMs, OPERATOR_TENANT, type Principal, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { ApiKeys } from './api-keys.js';
import { OPERATOR_KEY_ID } from './operator.js';
import { VERIFIED_TTL_MS } from './verified-cache.js';

const MAX_KEYS = 10_000;

/** What the status of credentials is looked up in. */
export interface CredentialStatusDeps {
  keys?: Pick<ApiKeys, 'isLive'>;
  /** `GATEWAY_ADMIN_KEY` is set: work accepted from its holder may start. */
  hasAdminKey: boolean;
  clock: Clock;
}

/**
 * Whether the credential behind a principal may still be used, for whatever acts later than the request that proved it: queued
 * calls and tools that call tools. It knows of a revocation within 5 s, like every proof of a credential.
 */
export class CredentialStatus {
  /** Instants on the monotonic clock until which a key is known to be live. */
  readonly #live = new LRUCache<string, number>({ max: MAX_KEYS });

  constructor(private readonly deps: CredentialStatusDeps) {}

  /**
   * Undefined while the credential may be used, else the refusal of what it would have done.
   * @throws ToolError SERVICE_UNAVAILABLE when its key cannot be looked up
   */
  async refusalOf(principal: Principal): Promise<ToolError | undefined> {
    if (isOver(principal.expiresAt, this.deps.clock.now())) return voidCredential('has expired');
    if (principal.keyId === undefined || (await this.#isLive(principal.keyId, principal.tenantId))) return undefined;
    return voidCredential('was revoked');
  }

  async #isLive(keyId: string, tenantId: string): Promise<boolean> {
    const { keys, hasAdminKey, clock } = this.deps;
    if (keyId === OPERATOR_KEY_ID && tenantId === OPERATOR_TENANT) return hasAdminKey;
    const known = `${tenantId}/${keyId}`;
    const now = clock.monotonic();
    if ((this.#live.get(known) ?? 0) > now) return true;
    const isLive = (await keys?.isLive(keyId, tenantId)) ?? false;
    if (isLive) this.#live.set(known, now + VERIFIED_TTL_MS);
    return isLive;
  }
}

const isOver = (expiresAt: EpochMs | undefined, now: EpochMs): boolean => expiresAt !== undefined && expiresAt <= now;

const voidCredential = (what: string): ToolError =>
  new ToolError('UNAUTHENTICATED', { message: `The credential that made this call ${what} before the call started.` });
