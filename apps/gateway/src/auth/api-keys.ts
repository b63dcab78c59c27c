import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  type EpochMs,
  LOCAL_TENANT,
  OPERATOR_ROLE,
  OPERATOR_TENANT,
  type Principal,
  ToolError,
} from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { narrowGlobs } from '@toolfleet/engine';
import { generateKey, parseKey } from './api-key-format.js';
import { rolesOf, administers, isOperator } from './roles.js';
import { unauthenticated } from './credential.js';

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

/** What an administrator says about a new key. */
export interface KeySpec {
  tenantId: string;
  client: string;
  /** Default: the client. */
  userId?: string;
  roles?: string[];
  /** Tool globs; default every tool. */
  tools?: string[];
  tier?: string;
  budgetId?: string;
  expiresAt?: EpochMs;
}

/** A key as shown to administrators: no secret, no hash. */
export type KeyView = Omit<ApiKeyRecord, 'secretHash'>;

/** A verified key: who it stands for, and the instant from which it must not be used any more. */
export interface VerifiedKey {
  principal: Principal;
  expiresAt?: EpochMs;
}

export interface ApiKeysSettings {
  /** HMAC key; changing it makes every key invalid. */
  pepper: string;
  /** Names the environment inside new keys. */
  environment: string;
  /** Local mode: the reserved tenant `local` may have keys. */
  localTenant?: boolean;
}

/** One token of a NATS subject and of a Redis key: nothing in a name can widen a permission. */
const NAME_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
const GLOB_PATTERN = /^[A-Za-z0-9_*-]{1,64}$/;
const MAX_LIST = 100;
/** `lastUsedAt` is for people: once a minute and key is enough. */
const TOUCH_EVERY_MS = 60_000;
/** Compared against when the id is unknown, so that this costs what a wrong secret costs. Nothing hashes to all zeros. */
const NO_HASH = Buffer.alloc(32);

/**
 * Issues, verifies and revokes API keys. 256 random bits need no slow hash: one HMAC with the pepper, compared in constant
 * time. Unknown id, wrong secret, revoked and expired key give one answer, and each costs one lookup and one HMAC.
 */
export class ApiKeys {
  private readonly touchedAt = new Map<string, EpochMs>();

  constructor(
    private readonly store: KeyStore,
    private readonly settings: ApiKeysSettings,
    private readonly clock: Clock,
  ) {
    if (settings.pepper.length < 16) throw new RangeError('API_KEY_PEPPER needs at least 16 characters');
  }

  /**
   * Makes a key; its token is returned here once and never again.
   * @throws ToolError REQUEST_INVALID for a bad field, or when the client has two live keys.
   */
  async issue(spec: KeySpec, createdBy: string): Promise<{ token: string; key: KeyView }> {
    const now = this.clock.now();
    checkSpec(spec, now, this.settings.localTenant ?? false);
    for (;;) {
      const { id, signed, token } = generateKey(this.settings.environment);
      const record: ApiKeyRecord = {
        id,
        secretHash: this.hash(signed).toString('base64url'),
        tenantId: spec.tenantId,
        userId: spec.userId ?? spec.client,
        client: spec.client,
        roles: spec.roles ?? [],
        tools: spec.tools ?? ['*'],
        ...(spec.tier === undefined ? {} : { tier: spec.tier }),
        ...(spec.budgetId === undefined ? {} : { budgetId: spec.budgetId }),
        createdAt: now,
        createdBy,
        ...(spec.expiresAt === undefined ? {} : { expiresAt: spec.expiresAt }),
      };
      const outcome = await this.store.create(record, now);
      if (outcome === 'created') return { token, key: viewOf(record) };
      if (outcome === 'too_many') {
        throw new ToolError('REQUEST_INVALID', {
          message: `Client ${spec.client} already has ${MAX_LIVE_KEYS} live keys; revoke one first.`,
          details: { fields: ['client'] },
        });
      }
      // id_taken: 62^8 ids, so one more draw settles it
    }
  }

  /**
   * Who a key stands for.
   * @throws ToolError UNAUTHENTICATED, the same for every reason; SERVICE_UNAVAILABLE when the store cannot be asked.
   */
  async verify(token: string): Promise<VerifiedKey> {
    const parsed = parseKey(token);
    if (!parsed) throw unauthenticated();
    const record = await this.find(parsed.id);
    const stored = record ? Buffer.from(record.secretHash, 'base64url') : NO_HASH;
    const matches = stored.length === NO_HASH.length && timingSafeEqual(this.hash(parsed.signed), stored);
    const now = this.clock.now();
    if (!record || !matches || !isLive(record, now)) throw unauthenticated();
    this.noteUse(record.id, now);
    return {
      principal: {
        tenantId: record.tenantId,
        userId: record.userId,
        roles: rolesOf(record.tenantId, record.roles),
        tools: record.tools,
        via: 'api_key',
        keyId: record.id,
        ...(record.tier === undefined ? {} : { tier: record.tier }),
        ...(record.expiresAt === undefined ? {} : { expiresAt: record.expiresAt }),
      },
      ...(record.expiresAt === undefined ? {} : { expiresAt: record.expiresAt }),
    };
  }

  /**
   * Whether the key of this id may still be used, for work that was accepted from it.
   * @throws ToolError SERVICE_UNAVAILABLE when the store cannot be asked
   */
  async isLive(id: string, tenantId: string): Promise<boolean> {
    const record = await this.find(id);
    return record?.tenantId === tenantId && isLive(record, this.clock.now());
  }

  /** Keys of a tenant, or of all, without secrets. */
  async list(tenantId?: string): Promise<KeyView[]> {
    return (await this.store.list(tenantId)).map(viewOf);
  }

  /** Revokes; false when there is no key of this id (in this tenant, when one is given). */
  async revoke(id: string, tenantId?: string): Promise<boolean> {
    if (tenantId !== undefined && (await this.store.find(id))?.tenantId !== tenantId) return false;
    return this.store.revoke(id, this.clock.now());
  }

  private find(id: string): Promise<ApiKeyRecord | null> {
    return this.store.find(id).catch((cause: unknown) => {
      throw new ToolError('SERVICE_UNAVAILABLE', { message: 'Keys cannot be checked at the moment.', cause });
    });
  }

  private hash(signed: string): Buffer {
    return createHmac('sha256', this.settings.pepper).update(signed).digest();
  }

  /** In the background: knowing the last use never delays or fails a call. */
  private noteUse(id: string, now: EpochMs): void {
    if (now - (this.touchedAt.get(id) ?? 0) < TOUCH_EVERY_MS) return;
    if (this.touchedAt.size >= 10_000) this.touchedAt.clear();
    this.touchedAt.set(id, now);
    this.store.touch(id, now).catch(() => this.touchedAt.delete(id));
  }
}

function viewOf(key: ApiKeyRecord): KeyView {
  const { secretHash: _hash, ...view } = key;
  return view;
}

/** Lists travel in delegation tokens, so they are bounded. */
function isListOf(items: readonly string[], pattern: RegExp, least: number): boolean {
  return items.length >= least && items.length <= MAX_LIST && items.every((item) => pattern.test(item));
}

const NAME = 'needs 1 to 64 letters, digits, "_" and "-"';

function checkSpec(spec: KeySpec, now: EpochMs, localTenant: boolean): void {
  const faults = new Map<string, string>();
  if (!NAME_PATTERN.test(spec.tenantId)) faults.set('tenant_id', NAME);
  else if (spec.tenantId === LOCAL_TENANT && !localTenant)
    faults.set('tenant_id', 'must not be "local", which is reserved');
  if (spec.roles?.includes(OPERATOR_ROLE) && spec.tenantId !== OPERATOR_TENANT)
    faults.set('roles', `may hold "${OPERATOR_ROLE}" for the tenant "${OPERATOR_TENANT}" only`);
  if (!NAME_PATTERN.test(spec.client)) faults.set('client', NAME);
  if (spec.userId !== undefined && !/^[\x21-\x7e]{1,128}$/.test(spec.userId))
    faults.set('user_id', 'needs 1 to 128 visible ASCII characters');
  if (spec.roles && !isListOf(spec.roles, NAME_PATTERN, 0))
    faults.set('roles', `needs at most ${MAX_LIST} names; each ${NAME}`);
  if (spec.tools && !isListOf(spec.tools, GLOB_PATTERN, 1))
    faults.set('tools', `needs 1 to ${MAX_LIST} tool names, in which "*" stands for any characters`);
  if (spec.tier !== undefined && !NAME_PATTERN.test(spec.tier)) faults.set('tier', NAME);
  if (spec.budgetId !== undefined && !NAME_PATTERN.test(spec.budgetId)) faults.set('budget_id', NAME);
  if (spec.expiresAt !== undefined && !(spec.expiresAt > now)) faults.set('expires_at', 'has to be in the future');
  if (faults.size === 0) return;
  throw new ToolError('REQUEST_INVALID', {
    message: [...faults].map(([field, wanted]) => `${field} ${wanted}`).join('; '),
    details: { fields: [...faults.keys()] },
  });
}

/** A new key as asked for: what is absent comes from the one who asks. */
export type KeyRequest = Omit<KeySpec, 'tenantId'> & { tenantId?: string | undefined };

/**
 * The key a caller may make. Nobody gives away more than they hold: an administrator makes keys of its own tenant and its own
 * rate class, nobody but an operator makes operators, and no key may call tools that its maker's may not.
 * @throws ToolError PERMISSION_DENIED naming the field
 */
export function grantOf(caller: Principal, request: KeyRequest): KeySpec {
  const { tenantId = caller.tenantId, roles = [], tools = [...caller.tools], tier } = request;
  if (!administers(caller, tenantId)) deny('tenant_id', 'Keys of another tenant need the role operator.');
  if (!isOperator(caller)) {
    if (roles.includes(OPERATOR_ROLE)) deny('roles', 'Operators are made by operators.');
    if (tier !== undefined && tier !== caller.tier)
      deny('tier', 'Another rate class than your own needs the role operator.');
  }
  const covered = new Set(narrowGlobs(caller.tools, tools));
  const beyond = tools.filter((glob) => !covered.has(glob));
  if (beyond.length > 0) deny('tools', `Your key may not call ${beyond.join(', ')}.`);
  return { ...request, tenantId, roles, tools, tier: isOperator(caller) ? tier : caller.tier };
}

function deny(field: string, message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message, details: { fields: [field] } });
}
