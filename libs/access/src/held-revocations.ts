import { type EpochMs, isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { ApiKeyRecord, CreateOutcome } from './api-keys.js';
import { RedisKeyStore } from './redis-key-store.js';

/** Interval in which held revocations are written and announced again; a gateway that starts learns of them within it. */
const REPEAT_MS = 2_000;
const MAX_HELD = 10_000;
const ID_PATTERN = /^[A-Za-z0-9]{1,64}$/;

/** The part of the NATS client by which gateways exchange held revocations. */
interface Announcements {
  publish(subject: string, body: JsonObject): void;
  subscribe(subject: string, received: (message: { body?: unknown }) => void): unknown;
}

/**
 * Keys that can be revoked while Redis refuses writes (no replica, full disk). Such a revocation is held in the memory of
 * every gateway. They learn of it by `key.revoked`. Each of them writes it as soon as the store takes it, and announces it until
 * then. Only a restart of all gateways at once loses it.
 */
export class HeldRevocations extends RedisKeyStore {
  readonly #held = new Map<string, EpochMs>();
  #cancelTimer: CancelTimer | undefined;
  #isStopped = false;

  constructor(
    redis: ConstructorParameters<typeof RedisKeyStore>[0],
    private readonly nats: Announcements,
    private readonly clock: Clock,
    private readonly logger: Pick<Logger, 'error' | 'info'>,
    most?: number,
  ) {
    super(redis, most);
  }

  /** Listens to the other gateways; it starts after the connection to NATS. */
  asComponent(): { name: string; start(): Promise<void>; stop(): Promise<void> } {
    return {
      name: 'held revocations',
      start: async () => {
        this.nats.subscribe(SUBJECTS.keyRevoked, ({ body }) => {
          if (!isJsonObject(body) || !isJsonObject(body['revoked'])) return;
          for (const [id, at] of Object.entries(body['revoked']))
            if (ID_PATTERN.test(id) && typeof at === 'number') this.#hold(id, at);
        });
      },
      stop: async () => {
        this.#isStopped = true;
        this.#cancelTimer?.();
      },
    };
  }

  override async revoke(id: string, at: EpochMs): Promise<boolean> {
    try {
      return await super.revoke(id, at);
    } catch (error) {
      if (!(await super.find(id))) return false;
      if (!this.#hold(id, at)) throw error;
      this.logger.error({ key_id: id, error }, 'a revocation cannot be stored; the gateways hold it until it can');
      this.#announce();
      return true;
    }
  }

  override async create(key: ApiKeyRecord, now: EpochMs): Promise<CreateOutcome> {
    return this.#held.has(key.parentId ?? '') ? 'parent_ended' : super.create(key, now);
  }

  override async find(id: string): Promise<ApiKeyRecord | null> {
    const key = await super.find(id);
    return key && this.#withRevocation(key);
  }

  override async list(tenantId?: string): Promise<ApiKeyRecord[]> {
    return (await super.list(tenantId)).map((key) => this.#withRevocation(key));
  }

  #withRevocation(key: ApiKeyRecord): ApiKeyRecord {
    return this.#held.size === 0 ? key : { ...key, revokedAt: key.revokedAt ?? this.#held.get(key.id) };
  }

  /** @returns false if too many are held */
  #hold(id: string, at: EpochMs): boolean {
    if (this.#held.has(id)) return true;
    if (this.#held.size >= MAX_HELD) return false;
    this.#held.set(id, at);
    this.#schedule();
    return true;
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#cancelTimer ??= this.clock.after(REPEAT_MS, () => {
      void this.#write().finally(() => {
        this.#cancelTimer = undefined;
        if (this.#held.size === 0) return;
        this.#announce();
        this.#schedule();
      });
    });
  }

  /** Writes revocations that the store takes. A key that is gone needs no revocation. */
  async #write(): Promise<void> {
    try {
      for (const [id, at] of this.#held) {
        await super.revoke(id, at);
        this.#held.delete(id);
        this.logger.info({ key_id: id }, 'a held revocation is stored');
      }
    } catch {
      // The store still refuses writes.
    }
  }

  #announce(): void {
    try {
      this.nats.publish(SUBJECTS.keyRevoked, { revoked: Object.fromEntries(this.#held) });
    } catch {
      // Not connected: the next round announces again.
    }
  }
}
