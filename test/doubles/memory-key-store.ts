import type { EpochMs } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import {
  type ApiKeyRecord,
  type CreateOutcome,
  isLive,
  isPersonal,
  KeyStore,
  MAX_LIVE_KEYS,
} from '../../libs/access/src/api-keys.js';
import { OPERATOR_KEY_ID } from '../../libs/access/src/roles.js';

/** Keys of one process: for specs and for a gateway without Redis. */
export class MemoryKeyStore extends KeyStore {
  override readonly most = DEFAULT_QUOTAS.keys;
  private readonly keys = new Map<string, ApiKeyRecord>();

  override async create(key: ApiKeyRecord, now: EpochMs): Promise<CreateOutcome> {
    if (this.keys.has(key.id)) return 'id_taken';
    const parent = key.parentId === undefined ? undefined : this.keys.get(key.parentId);
    if (key.parentId !== undefined && key.parentId !== OPERATOR_KEY_ID && !(parent && isLive(parent, now)))
      return 'parent_ended';
    const clientOf = (k: ApiKeyRecord) => JSON.stringify([k.tenantId, isPersonal(k) && k.userId, k.client]);
    const ofClient = [...this.keys.values()].filter((k) => clientOf(k) === clientOf(key));
    if (ofClient.filter((k) => isLive(k, now)).length >= MAX_LIVE_KEYS) return 'too_many';
    if (this.isFull(key.tenantId, now)) return 'tenant_full';
    this.keys.set(key.id, structuredClone(key));
    return 'created';
  }

  /** Forgets ended keys that have made none, when there are too many. */
  private isFull(tenantId: string, now: EpochMs): boolean {
    const all = [...this.keys.values()].filter((key) => key.tenantId === tenantId);
    if (all.length < this.most) return false;
    const parents = new Set(all.map(({ parentId }) => parentId));
    const ended = all.filter((key) => !isLive(key, now) && !parents.has(key.id));
    for (const { id } of ended) this.keys.delete(id);
    return all.length - ended.length >= this.most;
  }

  override async find(id: string): Promise<ApiKeyRecord | null> {
    const key = this.keys.get(id);
    return key ? structuredClone(key) : null;
  }

  override async list(tenantId?: string): Promise<ApiKeyRecord[]> {
    return [...this.keys.values()]
      .filter((key) => tenantId === undefined || key.tenantId === tenantId)
      .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
      .map((key) => structuredClone(key));
  }

  override async change(key: ApiKeyRecord): Promise<boolean> {
    const known = this.keys.get(key.id);
    if (!known) return false;
    const { revokedAt, lastUsedAt } = known;
    this.keys.set(key.id, structuredClone({ ...key, revokedAt, lastUsedAt }));
    return true;
  }

  override async revoke(id: string, at: EpochMs): Promise<boolean> {
    const key = this.keys.get(id);
    if (!key) return false;
    key.revokedAt ??= at;
    return true;
  }

  override async erase(id: string): Promise<boolean> {
    return this.keys.delete(id);
  }

  override async touch(id: string, at: EpochMs): Promise<void> {
    const key = this.keys.get(id);
    if (key) key.lastUsedAt = Math.max(key.lastUsedAt ?? 0, at);
  }
}
