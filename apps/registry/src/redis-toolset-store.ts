import { readFileSync } from 'node:fs';
import type { EpochMs, JsonObject } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import type { ToolsetOrigin, ToolsetSpec } from '@toolfleet/contracts/toolset';
import { defineScript, type Script } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';

const PUT = readFileSync(new URL('../lua/put-toolset.lua', import.meta.url), 'utf8');

const TAG = '{registry}';
const TOOLSETS = `${TAG}:toolsets`;
const versionsKey = (id: string): string => `${TAG}:toolset:${id}`;
const pinsKey = (id: string): string => `${TAG}:toolset-pins:${id}`;

/** Versions kept per toolset. */
export const MAX_VERSIONS = 50;

/** One version of a toolset as stored. */
export interface StoredVersion {
  version: number;
  spec: ToolsetSpec;
  origin: ToolsetOrigin;
  createdAt: EpochMs;
  by: string;
  /** The version that this one restored. */
  restores?: number;
}

/** The parts of the definition that an override was written for. */
export interface OverridePin {
  revision: string;
  fields: JsonObject;
  at: EpochMs;
  by?: string;
}

/** Toolsets in Redis, by id: `name`, or `name@tenant`. Infrastructure failures reject. */
export class RedisToolsetStore {
  private readonly putScript: Script;

  /** @param maxBytes of the versions of one toolset; beyond it the oldest go */
  constructor(
    private readonly redis: Redis,
    private readonly maxBytes: number = DEFAULT_QUOTAS.toolset_bytes,
  ) {
    this.putScript = defineScript(redis, 'registryPutToolset', 2, PUT);
  }

  /** The latest version of every toolset. */
  async heads(): Promise<Map<string, StoredVersion>> {
    const all = await this.redis.hgetall(TOOLSETS);
    return new Map(Object.entries(all).map(([id, text]) => [id, JSON.parse(text) as StoredVersion]));
  }

  /** The latest version; undefined when there is no such toolset. */
  async head(id: string): Promise<StoredVersion | undefined> {
    return parse(await this.redis.hget(TOOLSETS, id));
  }

  /** A version of a toolset that exists; undefined when it was never made or is no longer kept. */
  async version(id: string, version: number): Promise<StoredVersion | undefined> {
    return parse(await this.redis.hget(versionsKey(id), String(version)));
  }

  /** All kept versions, newest first. */
  async versions(id: string): Promise<StoredVersion[]> {
    const { latest: _latest, ...kept } = await this.redis.hgetall(versionsKey(id));
    return Object.values(kept)
      .map((text) => JSON.parse(text) as StoredVersion)
      .toSorted((a, b) => b.version - a.version);
  }

  /** The number of the latest version, even of a removed toolset; 0 if there never was one. */
  async latest(id: string): Promise<number> {
    return Number((await this.redis.hget(versionsKey(id), 'latest')) ?? 0);
  }

  /** Stores a version. @returns false when it does not follow the latest one; nothing is stored then */
  async put(id: string, version: StoredVersion): Promise<boolean> {
    const values = [id, version.version, JSON.stringify(version), MAX_VERSIONS, this.maxBytes];
    return (await this.putScript(TOOLSETS, versionsKey(id), ...values)) === 1;
  }

  /** Removes a toolset with its versions and pins; only the number of its latest version remains. */
  async remove(id: string): Promise<boolean> {
    const latest = await this.latest(id);
    const [removed] = await Promise.all([
      this.redis.hdel(TOOLSETS, id),
      this.redis.del(versionsKey(id)),
      this.redis.del(pinsKey(id)),
    ]);
    if (latest > 0) await this.redis.hset(versionsKey(id), 'latest', latest);
    return removed === 1;
  }

  /** Removes all data of a toolset. */
  async erase(id: string): Promise<void> {
    await this.remove(id);
    await this.redis.del(versionsKey(id));
  }

  /** Pins of overrides by tool and content (`toPinKey`). */
  async pins(id: string): Promise<Map<string, OverridePin>> {
    const all = await this.redis.hgetall(pinsKey(id));
    return new Map(Object.entries(all).map(([key, text]) => [key, JSON.parse(text) as OverridePin]));
  }

  /** @param isFirst an existing pin stays */
  async keepPin(id: string, key: string, pin: OverridePin, isFirst: boolean): Promise<void> {
    if (isFirst) await this.redis.hsetnx(pinsKey(id), key, JSON.stringify(pin));
    else await this.redis.hset(pinsKey(id), key, JSON.stringify(pin));
  }

  /** Removes the pins of a toolset by the start of their keys. */
  async erasePins(id: string, start: string): Promise<void> {
    const keys = (await this.redis.hkeys(pinsKey(id))).filter((key) => key.startsWith(start));
    if (keys.length > 0) await this.redis.hdel(pinsKey(id), ...keys);
  }
}

const parse = (text: string | null): StoredVersion | undefined =>
  text === null ? undefined : (JSON.parse(text) as StoredVersion);
