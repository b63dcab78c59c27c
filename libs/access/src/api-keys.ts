import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  invalidRequest,
  type EpochMs,
  isReservedUser,
  LOCAL_TENANT,
  type McpMode,
  OPERATOR_ROLE,
  OPERATOR_TENANT,
  type Person,
  type Principal,
  serviceUserId,
  TENANT_ID_PATTERN,
  ToolError,
} from '@toolfleet/contracts';
import { quotaExceeded } from '@toolfleet/contracts/account';
import { parseToolsetRef, type ToolsetRef } from '@toolfleet/contracts/toolset';
import type { Clock } from '@toolfleet/resilience';
import { toolAllowed } from '@toolfleet/engine/access';
import { generateKey, parseKey } from './api-key-format.js';
import { narrowedBy } from './key-chain.js';
import type { PeopleRoles } from './redis-people-roles.js';
import { effectiveRoles, type OwnRoles, withOwnRights } from './roles.js';
import { unauthenticated } from './credential.js';

/** One API key as stored: never the secret, only its HMAC. */
export interface ApiKeyRecord {
  /** Public id, part of the key. */
  id: string;
  /** HMAC-SHA-256 of the key by the pepper, base64url. */
  secretHash: string;
  tenantId: string;
  userId: string;
  /**
   * The client that holds the key. It has at most `MAX_LIVE_KEYS` live keys in its tenant: enough to rotate one. Users name the clients of
   * their own keys as they like, apart from others'.
   */
  client: string;
  roles: string[];
  /** Tool globs. */
  tools: string[];
  /** Projects it may use (`Principal.projects`). */
  projects?: string[];
  /** The toolset that it is bound to: `name`, or `name@version`. */
  toolset?: string;
  /** Name of a tier of `rate_limits.tiers`. */
  tier?: string;
  /** The tools that its MCP requests see (`Principal.mcpMode`). */
  mcpMode?: McpMode;
  /** What it is for, in the words of those who manage it. */
  note?: string;
  /** Id of the key that made it; absent if none did. It has no right that its parent lacks, then and now (key-rights.ts). */
  parentId?: string;
  /** The person at the beginning of its chain of makers. */
  root: Person;
  createdAt: EpochMs;
  /** User that made it. */
  createdBy: string;
  expiresAt?: EpochMs;
  revokedAt?: EpochMs;
  /** Accurate to about a minute. */
  lastUsedAt?: EpochMs;
}

/** Whether the user of a key made it for itself. */
export const isPersonal = ({ tenantId, userId, root }: Pick<ApiKeyRecord, 'tenantId' | 'userId' | 'root'>): boolean =>
  root.kind === 'creator' && root.tenantId === tenantId && root.userId === userId;

/** Live keys per client: the old and the new one during a rotation. */
export const MAX_LIVE_KEYS = 2;
/** Live keys that a user without the right to the keys of its tenant can have. */
export const MAX_OWN_KEYS = 20;

/** Whether a key is neither revoked nor expired. */
export function isLive(key: Pick<ApiKeyRecord, 'revokedAt' | 'expiresAt'>, now: EpochMs): boolean {
  return key.revokedAt === undefined && (key.expiresAt === undefined || key.expiresAt > now);
}

/** The end of `KeyStore.create`. */
export type CreateOutcome = 'created' | 'too_many' | 'tenant_full' | 'id_taken' | 'parent_ended';

/** Where keys are stored. Two gateways may create keys for one client at once, so `create` checks and writes in one step. */
export abstract class KeyStore {
  /** Keys of a tenant, ended ones included as long as there is room. */
  abstract readonly most: number;
  /**
   * Stores a new key. Otherwise nothing is stored: `too_many` if the client has `MAX_LIVE_KEYS` live ones at `now`, `tenant_full`
   * if the tenant has as many as its quota that are live or have made others, `parent_ended` if the parent is not live.
   */
  abstract create(key: ApiKeyRecord, now: EpochMs): Promise<CreateOutcome>;
  /** The key of this id, live or not. */
  abstract find(id: string): Promise<ApiKeyRecord | null>;
  /** Keys of a tenant, or of all, oldest first. */
  abstract list(tenantId?: string): Promise<ApiKeyRecord[]>;
  /** Replaces the rights of a key; false when there is none of this id. Revocation and last use are untouched. */
  abstract change(key: ApiKeyRecord): Promise<boolean>;
  /** Marks a key revoked; false when there is none of this id. Repeating keeps the first instant. */
  abstract revoke(id: string, at: EpochMs): Promise<boolean>;
  /** Deletes a key with everything known of it; false when there is none of this id. */
  abstract erase(id: string): Promise<boolean>;
  /** Notes a use; an older instant than the stored one changes nothing. */
  abstract touch(id: string, at: EpochMs): Promise<void>;
}

/**
 * A new key as an administrator specifies it. Defaults: the client as user, no roles, every tool, the tenant's default project, its creator's
 * toolset, and as root the user of the key, for whom an operator vouches.
 */
export type KeySpec = Pick<ApiKeyRecord, 'tenantId' | 'client'> &
  Partial<Omit<ApiKeyRecord, 'id' | 'secretHash' | 'createdAt' | 'createdBy' | 'revokedAt' | 'lastUsedAt'>>;

/** A key as shown to administrators: no secret, no hash. */
export type KeyView = Omit<ApiKeyRecord, 'secretHash'>;

/** The principal of a verified key, and the instant at which the key expires. */
interface VerifiedKey {
  principal: Principal;
  expiresAt?: EpochMs;
}

interface ApiKeysSettings {
  /** HMAC key; changing it makes every key invalid. */
  pepper: string;
  /** Names the environment inside new keys. */
  environment: string;
  /** Local mode: the reserved tenant `local` may have keys. */
  localTenant?: boolean;
  /** Roles of the configuration file. */
  roles?: OwnRoles;
  /** Of people who sign in; absent: the fleet has no sign-in. */
  people?: Pick<PeopleRoles, 'boundBy'> | undefined;
}

/** Names are parts of Redis keys; none may contain a wildcard or separator. */
const NAME_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
/** Names of tools, `prompt:<name>`, `skill:<name>` and `resource:<server>`. */
const GLOB_PATTERN = /^(?:prompt:|skill:|resource:)?[A-Za-z0-9_*-]{1,64}$/;
/** Visible ASCII without the comma, as ids appear in headers and in lists of `fleetctl`. */
const PROJECT_PATTERN = /^[\x21-\x2b\x2d-\x7e]{1,255}$/;
const MAX_LIST = 100;
/** The tool through which MCP clients in code mode call all others. */
const PROGRAM_TOOL = 'run_program';
/** `lastUsedAt` is written at most once a minute per key. */
const TOUCH_EVERY_MS = 60_000;
/** Compared with if the id is unknown, so that the check takes as long as for a wrong secret. No secret hashes to zeros. */
const NO_HASH = Buffer.alloc(32);

/**
 * Issues, verifies and revokes API keys. A secret of 256 random bits needs no slow hash: the store has its HMAC, keyed by the
 * pepper, compared in constant time. An unknown id and a wrong secret get the same answer after the same work: one
 * lookup and one HMAC. Only the holder of its secret learns that a key was revoked or has expired.
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

  /** @throws ToolError REQUEST_INVALID that names every fault, as `issue` does */
  check(spec: KeySpec): void {
    checkSpec(spec, this.clock.now(), this.settings.localTenant ?? false);
  }

  /**
   * Creates a key. Its token is returned here and cannot be read again.
   * @throws ToolError REQUEST_INVALID for a bad field, or when the client has two live keys; QUOTA_EXCEEDED;
   *   UNAUTHENTICATED when the parent was revoked or has expired
   */
  async issue(spec: KeySpec, createdBy: string): Promise<{ token: string; key: KeyView }> {
    this.check(spec);
    const { userId = spec.client } = spec;
    const { root = { tenantId: spec.tenantId, userId, kind: 'operator' } } = spec;
    const given = { ...spec, roles: spec.roles ?? [], tools: spec.tools ?? ['*'] };
    const now = this.clock.now();
    for (;;) {
      const { id, signed, token } = generateKey(this.settings.environment);
      const secretHash = this.hash(signed).toString('base64url');
      const record: ApiKeyRecord = { ...given, id, secretHash, userId, root, createdAt: now, createdBy };
      const outcome = await this.store.create(record, now);
      if (outcome === 'created') return { token, key: toKeyView(record) };
      if (outcome === 'too_many') {
        throw invalidRequest(
          `Client ${spec.client} already has ${MAX_LIVE_KEYS} live keys; revoke one first.`,
          'client',
        );
      }
      if (outcome === 'tenant_full') throw quotaExceeded('keys', this.store.most);
      if (outcome === 'parent_ended') throw unauthenticated();
      // id_taken: there are 62^8 ids, so the next one will be free.
    }
  }

  /**
   * Verifies a key.
   * @throws ToolError UNAUTHENTICATED; SERVICE_UNAVAILABLE when the store is unavailable
   */
  async verify(token: string): Promise<VerifiedKey> {
    const parsed = parseKey(token);
    if (!parsed) throw unauthenticated('malformed');
    const record = await this.find(parsed.id);
    const stored = record ? Buffer.from(record.secretHash, 'base64url') : NO_HASH;
    const matches = stored.length === NO_HASH.length && timingSafeEqual(this.hash(parsed.signed), stored);
    const now = this.clock.now();
    if (!record || !matches) throw unauthenticated();
    if (!isLive(record, now)) throw unauthenticated(record.revokedAt === undefined ? 'expired' : 'revoked');
    this.noteUse(record.id, now);
    return { principal: await this.#principalOf(record), expiresAt: record.expiresAt };
  }

  /**
   * The holder of a key with the rights that the keys before it in its chain have now as well. One of them that has ended counts with its
   * last rights: administrators rotate their keys, and revoke those made with them where they mean it.
   */
  async #principalOf(record: ApiKeyRecord): Promise<Principal> {
    const { root } = record;
    const principal: Principal = {
      tenantId: record.tenantId,
      userId: record.userId,
      roles: await this.#rolesOf(record),
      tools: record.tools,
      projects: record.projects,
      toolset: record.toolset === undefined ? undefined : boundToolset(record.toolset),
      via: 'api_key',
      keyId: record.id,
      root,
      tier: record.tier,
      mcpMode: record.mcpMode,
      expiresAt: record.expiresAt,
    };
    // Operators pass on rights that they do not hold.
    const isNarrowed = root.kind === 'creator' && record.parentId !== undefined;
    const parent = isNarrowed ? await this.find(record.parentId!) : null;
    if (!parent) return principal;
    return narrowedBy(withOwnRights(await this.#principalOf(parent), this.settings.roles ?? {}), principal);
  }

  /**
   * Whether a key is still live, for work that was accepted from it earlier.
   * @throws ToolError SERVICE_UNAVAILABLE when the store is unavailable
   */
  async isLive(id: string, tenantId: string): Promise<boolean> {
    const record = await this.find(id);
    return record?.tenantId === tenantId && isLive(record, this.clock.now());
  }

  /**
   * A key with the person that it counts as; undefined if there is no such key of the tenant.
   * @throws ToolError SERVICE_UNAVAILABLE when the store is unavailable
   */
  async show(id: string, tenantId: string): Promise<KeyView | undefined> {
    const record = await this.find(id);
    if (record?.tenantId !== tenantId) return undefined;
    return toKeyView(record);
  }

  /**
   * The roles of a key today: of one that a signed-in user made, directly or with other keys, those that the user still has. Chains that begin
   * with a key of an operator depend on no sign-in.
   */
  async #rolesOf(record: ApiKeyRecord): Promise<readonly string[]> {
    const { people } = this.settings;
    const roles = effectiveRoles(record.tenantId, record.roles);
    if (!people || record.root.kind !== 'creator' || (await this.#isOfOperator(record))) return roles;
    return orUnverified(people.boundBy(record.root, roles));
  }

  async #isOfOperator(record: ApiKeyRecord): Promise<boolean> {
    if (record.root.kind === 'operator') return true;
    const parent = record.parentId === undefined ? null : await this.find(record.parentId);
    return parent !== null && this.#isOfOperator(parent);
  }

  /** Keys of a tenant, or of all tenants, without secrets. */
  async list(tenantId?: string): Promise<KeyView[]> {
    return (await this.store.list(tenantId)).map(toKeyView);
  }

  /**
   * Replaces the rights of a key that lives, and its note where one is given; its secret stays.
   * @param specify the rights that the caller grants; may throw ToolError PERMISSION_DENIED
   * @returns undefined if there is no such key, or not in the given tenant
   * @throws ToolError REQUEST_INVALID that names every fault
   */
  async change(
    id: string,
    tenantId: string | undefined,
    specify: (key: KeyView) => KeySpec,
  ): Promise<KeyView | undefined> {
    const record = await this.store.find(id);
    if (!record || !isLive(record, this.clock.now()) || (tenantId ?? record.tenantId) !== record.tenantId)
      return undefined;
    const spec = specify(toKeyView(record));
    this.check(spec);
    const { roles = [], tools = ['*'], projects, toolset, tier, mcpMode, note = record.note } = spec;
    const changed: ApiKeyRecord = { ...record, roles, tools, projects, toolset, tier, mcpMode, note };
    return (await this.store.change(changed)) ? toKeyView(changed) : undefined;
  }

  /** Revokes a key. @returns false if there is no key of this id, or not in the given tenant */
  async revoke(id: string, tenantId?: string): Promise<boolean> {
    if (tenantId !== undefined && (await this.store.find(id))?.tenantId !== tenantId) return false;
    return this.store.revoke(id, this.clock.now());
  }

  /**
   * Revokes a key and all keys made with it, directly or through others.
   * @returns ids of the keys that this call revoked, the key itself first; undefined as `revoke` returns false
   */
  async revokeWithChildren(id: string, tenantId?: string): Promise<string[] | undefined> {
    if (!(await this.revoke(id, tenantId))) return undefined;
    const family = [id];
    // A revoked key makes no others, so each round reaches one generation more, and a round without children is the last.
    for (let size = 0; size < family.length;) {
      size = family.length;
      const parents = new Set(family);
      const children = (await this.store.list(tenantId)).filter(
        (key) => parents.has(key.parentId ?? '') && !parents.has(key.id),
      );
      await Promise.all(children.map((child) => this.store.revoke(child.id, this.clock.now())));
      family.push(...children.map((child) => child.id));
    }
    return family;
  }

  /**
   * Revokes all keys of a person: those that it made or that name it, and all made with these. Of keys in other tenants it reaches those
   * that a person of the operators' tenant made, and not others of users it vouches for.
   * @returns the keys that were valid
   */
  async revokeOf(tenantId: string, userId: string): Promise<KeyView[]> {
    const revoked: ApiKeyRecord[] = [];
    // A key that is made meanwhile is found by the next round.
    for (let found: ApiKeyRecord[] = [], first = true; first || found.length > 0; first = false) {
      const now = this.clock.now();
      const keys = await this.store.list(tenantId === OPERATOR_TENANT ? undefined : tenantId);
      const ended = new Set(revoked.map(({ id }) => id));
      for (const key of keys)
        if ([key, key.root].some((of) => of.tenantId === tenantId && of.userId === userId)) ended.add(key.id);
      for (let size = 0; size < ended.size;) {
        size = ended.size;
        for (const key of keys) if (ended.has(key.parentId ?? '')) ended.add(key.id);
      }
      found = keys.filter((key) => ended.has(key.id) && isLive(key, now));
      await Promise.all(found.map(({ id }) => this.store.revoke(id, now)));
      revoked.push(...found);
    }
    return revoked.map(toKeyView);
  }

  /** Deletes keys and their data; they stop working as revoked keys do. Returns how many there were. */
  async erase(ids: readonly string[]): Promise<number> {
    const erased = await Promise.all(ids.map((id) => this.store.erase(id)));
    return erased.filter(Boolean).length;
  }

  private find(id: string): Promise<ApiKeyRecord | null> {
    return orUnverified(this.store.find(id));
  }

  private hash(signed: string): Buffer {
    return createHmac('sha256', this.settings.pepper).update(signed).digest();
  }

  /** Notes the last use in the background; it never delays or fails a call. */
  private noteUse(id: string, now: EpochMs): void {
    if (now - (this.touchedAt.get(id) ?? 0) < TOUCH_EVERY_MS) return;
    if (this.touchedAt.size >= 10_000) this.touchedAt.clear();
    this.touchedAt.set(id, now);
    this.store.touch(id, now).catch(() => this.touchedAt.delete(id));
  }
}

function orUnverified<T>(looking: Promise<T>): Promise<T> {
  return looking.catch((cause: unknown) => {
    const message = 'API keys cannot be verified at the moment; retry later.';
    throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
  });
}

/** A stored toolset was checked when the key was made; an unreadable one must not lift the restriction. */
function boundToolset(text: string): ToolsetRef {
  const ref = parseToolsetRef(text) ?? { name: text };
  return { ...ref, bound: ref.version === undefined ? 'to_latest' : 'to_version' };
}

function toKeyView(key: ApiKeyRecord): KeyView {
  const { secretHash: _hash, ...view } = key;
  return view;
}

/** Lists are bounded, because delegation tokens carry them. */
function isValidList(items: readonly string[], pattern: RegExp, least: number): boolean {
  return items.length >= least && items.length <= MAX_LIST && items.every((item) => pattern.test(item));
}

const NAME = 'needs 1 to 64 letters, digits, "_" and "-"';

const isServiceUser = (userId: string): boolean =>
  NAME_PATTERN.test(userId.slice(serviceUserId('').length)) && userId.startsWith(serviceUserId(''));

function checkSpec(spec: KeySpec, now: EpochMs, localTenant: boolean): void {
  const faults = new Map<string, string>();
  if (!TENANT_ID_PATTERN.test(spec.tenantId)) faults.set('tenant_id', NAME);
  else if (spec.tenantId === LOCAL_TENANT && !localTenant)
    faults.set('tenant_id', 'must not be "local", which is reserved');
  if (spec.roles?.includes(OPERATOR_ROLE) && spec.tenantId !== OPERATOR_TENANT)
    faults.set('roles', `may hold "${OPERATOR_ROLE}" for the tenant "${OPERATOR_TENANT}" only`);
  if (!NAME_PATTERN.test(spec.client)) faults.set('client', NAME);
  if (spec.userId !== undefined && !/^[\x21-\x29\x2b-\x7e]{1,128}$/.test(spec.userId))
    faults.set('user_id', 'needs 1 to 128 visible ASCII characters without "*"');
  else if (spec.userId !== undefined && isReservedUser(spec.userId) && !isServiceUser(spec.userId))
    faults.set('user_id', `must not begin with "nats:", and the name of a service account ${NAME}`);
  if (spec.roles && !isValidList(spec.roles, NAME_PATTERN, 0))
    faults.set('roles', `needs at most ${MAX_LIST} names; each ${NAME}`);
  if (spec.tools && !isValidList(spec.tools, GLOB_PATTERN, 1))
    faults.set('tools', `needs 1 to ${MAX_LIST} tool names, in which "*" stands for any characters`);
  if (spec.mcpMode === 'code' && spec.tools && !toolAllowed(spec.tools, PROGRAM_TOOL))
    faults.set('tools', `must include ${PROGRAM_TOOL} for mcp_mode "code"`);
  if (spec.projects && !isValidList(spec.projects, PROJECT_PATTERN, 1))
    faults.set(
      'projects',
      `needs 1 to ${MAX_LIST} project ids of visible ASCII characters without commas, in which "*" stands for any characters`,
    );
  if (spec.toolset !== undefined && !parseToolsetRef(spec.toolset))
    faults.set('toolset', `${NAME}, with @<version> for one version`);
  if (spec.tier !== undefined && !NAME_PATTERN.test(spec.tier)) faults.set('tier', NAME);
  if (spec.expiresAt !== undefined && !(spec.expiresAt > now)) faults.set('expires_at', 'must be in the future');
  if (faults.size === 0) return;
  throw invalidRequest([...faults].map(([field, wanted]) => `${field} ${wanted}`).join('; '), ...faults.keys());
}
