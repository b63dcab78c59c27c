import type { EpochMs } from '@toolfleet/contracts';

/** One API key as stored: never the secret, only its HMAC. */
export interface ApiKeyRecord {
  /** Clear id, part of the key. */
  id: string;
  /** HMAC-SHA-256 of the key by the pepper, base64url. */
  secretHash: string;
  tenantId: string;
  userId: string;
  /** Who holds the key; at most `MAX_LIVE_KEYS` live keys per tenant and client, so that rotation is possible and bounded. */
  client: string;
  roles: string[];
  /** Tool globs. */
  tools: string[];
  /** Rate class of `rate_limits.tiers`. */
  tier?: string;
  /** Budget the usage of this key is counted on. */
  budgetId?: string;
  createdAt: EpochMs;
  createdBy: string;
  expiresAt?: EpochMs;
  revokedAt?: EpochMs;
  /** Kept to about a minute. */
  lastUsedAt?: EpochMs;
}

/** Two live keys per client: the old and the new one while a rotation runs. */
export const MAX_LIVE_KEYS = 2;

/** True while a key may be used. */
export function isLive(key: Pick<ApiKeyRecord, 'revokedAt' | 'expiresAt'>, now: EpochMs): boolean {
  return key.revokedAt === undefined && (key.expiresAt === undefined || key.expiresAt > now);
}

/** Where keys are kept. Two gateways may create for one client at once: the check of `MAX_LIVE_KEYS` and the write are one step. */
export abstract class KeyStore {
  /** Stores a new key. `too_many`: the client has `MAX_LIVE_KEYS` live ones at `now`; nothing was stored. */
  abstract create(key: ApiKeyRecord, now: EpochMs): Promise<'created' | 'too_many' | 'id_taken'>;
  /** The key of this id, live or not. */
  abstract find(id: string): Promise<ApiKeyRecord | null>;
  /** Keys of a tenant, or of all, oldest first. */
  abstract list(tenantId?: string): Promise<ApiKeyRecord[]>;
  /** Marks a key revoked; false when there is none of this id. Repeating keeps the first instant. */
  abstract revoke(id: string, at: EpochMs): Promise<boolean>;
  /** Notes a use; an older instant than the stored one changes nothing. */
  abstract touch(id: string, at: EpochMs): Promise<void>;
}
