import { ToolError, type EpochMs } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';
import { ACKNOWLEDGE } from './scripts.js';
import { budgetKeys, TENANTS_KEY } from './redis-keys.js';
import { UsageOutbox, type ChargedRow, type OutboxEntry } from './reservation-store.js';

type Acknowledge = (outbox: string, scopes: string, ...idsAndRows: (string | number)[]) => Promise<unknown>;

/** The outbox streams in Redis, written by the settle and sweep scripts. */
export class RedisUsageOutbox extends UsageOutbox {
  private readonly remove: Acknowledge;

  constructor(private readonly redis: Redis) {
    super();
    redis.defineCommand('budgetAcknowledge', { numberOfKeys: 2, lua: ACKNOWLEDGE });
    const command = (redis as unknown as Record<string, Acknowledge>)['budgetAcknowledge'];
    if (!command) throw new ToolError('INTERNAL', { message: 'script budgetAcknowledge is not defined' });
    this.remove = command.bind(redis);
  }

  override tenants(): Promise<string[]> {
    return this.redis.smembers(TENANTS_KEY);
  }

  override async read(tenantId: string, maxEntries: number): Promise<OutboxEntry[]> {
    const entries = await this.redis.xrange(budgetKeys(tenantId)[6], '-', '+', 'COUNT', maxEntries);
    return entries.map(([id, fields]) => ({ id, rows: rowsOf(fields) }));
  }

  override async acknowledge(tenantId: string, entries: readonly OutboxEntry[]): Promise<void> {
    if (entries.length === 0) return;
    const keys = budgetKeys(tenantId);
    await this.remove(keys[6], keys[0], ...entries.flatMap((entry) => [entry.id, entry.rows.length]));
  }
}

/** Fields of an entry: `kind microUsd tokens at`, row, and so on. */
function rowsOf(fields: string[]): ChargedRow[] {
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
