import type { EpochMs } from '@toolfleet/contracts';
import { defineScript, type Script } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';
import { ACKNOWLEDGE, budgetKeys, TENANTS_KEY } from './redis-scripts.js';
import { type ChargedRow, type OutboxEntry } from './reservation-store.js';

/** The outbox streams in Redis, written by the settle and sweep scripts. */
export class RedisUsageOutbox {
  private readonly remove: Script;

  constructor(private readonly redis: Redis) {
    this.remove = defineScript(redis, 'budgetAcknowledge', 2, ACKNOWLEDGE);
  }

  /** Tenants that may have rows. */
  tenants(): Promise<string[]> {
    return this.redis.smembers(TENANTS_KEY);
  }

  /** Reads the oldest entries without removing them. @param afterId skips entries up to this one */
  async read(tenantId: string, maxEntries: number, afterId?: string): Promise<OutboxEntry[]> {
    const from = afterId === undefined ? '-' : `(${afterId}`;
    const entries = await this.redis.xrange(budgetKeys(tenantId)[6], from, '+', 'COUNT', maxEntries);
    return entries.map(([id, fields]) => ({ id, rows: toRows(fields) }));
  }

  /** Removes entries that are in the ledger. May be repeated. */
  async acknowledge(tenantId: string, entries: readonly OutboxEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const keys = budgetKeys(tenantId);
    await this.remove(keys[6], keys[0], ...entries.flatMap((entry) => [entry.id, entry.rows.length]));
  }

  /** Deletes everything that Redis has about the budget of a tenant, or only looks; returns the number of keys. Drain it first. */
  async eraseTenant(tenantId: string, dryRun: boolean): Promise<number> {
    const keys = budgetKeys(tenantId);
    if (dryRun) return this.redis.exists(...keys);
    const erased = await this.redis.unlink(...keys);
    await this.redis.srem(TENANTS_KEY, tenantId);
    return erased;
  }
}

/** Fields of an entry are pairs of `kind microUsd tokens at` and the row. */
function toRows(fields: string[]): ChargedRow[] {
  const rows: ChargedRow[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [kind, microUsd, tokens, instant] = (fields[at] ?? '').split(' ');
    rows.push({
      kind: kind === 'expired' ? 'expired' : 'settled',
      microUsd: Number(microUsd),
      tokens: Number(tokens),
      at: Number(instant) as EpochMs,
      row: fields[at + 1] ?? '{}',
    });
  }
  return rows;
}

/** The methods of the store, for specs that replace it. */
export type UsageOutbox = Pick<RedisUsageOutbox, keyof RedisUsageOutbox>;
