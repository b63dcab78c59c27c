import type { CallGroup, CallGroups, CallSum } from '@toolfleet/contracts/records';
import { DAY_MS } from '@toolfleet/database';
import { sql, type RawBuilder } from 'kysely';
import { Durations, ROUNDED_MS } from './durations.js';

/** Members of a sum, and the columns that they come from. */
const GROUP: Readonly<Record<CallGroup, { name: string; of: RawBuilder<unknown> }>> = {
  tenant: { name: 'tenant_id', of: sql.ref('tenant_id') },
  day: { name: 'day', of: sql`ended_at / 86400000` },
  tool: { name: 'tool', of: sql.ref('tool') },
  source: { name: 'source', of: sql.ref('source') },
  user: { name: 'user_id', of: sql.ref('user_id') },
  key: { name: 'key_id', of: sql.ref('key_id') },
  agent: { name: 'agent_id', of: sql.ref('agent_id') },
  status: { name: 'status', of: sql.ref('status') },
  code: { name: 'code', of: sql.ref('code') },
};

/** A sum to which stretches are added. */
interface OpenSum extends Omit<CallSum, 'mean_ms' | 'p50_ms' | 'p95_ms'> {
  total_ms: number;
  durations: Durations;
}

const ADDED = ['calls', 'failures', 'micro_usd', 'tokens', 'total_ms'] as const;
const emptySum = (): OpenSum => ({
  ...{ calls: 0, failures: 0, micro_usd: 0, tokens: 0, total_ms: 0, max_ms: 0 },
  durations: new Durations(),
});

function addSum(sum: OpenSum, other: OpenSum): void {
  for (const name of ADDED) sum[name] += other[name];
  sum.max_ms = Math.max(sum.max_ms, other.max_ms);
  sum.durations.addAll(other.durations);
}

function toCallSum({ total_ms: total, durations, ...sum }: OpenSum): CallSum {
  const [p50_ms = 0, p95_ms = 0] = durations.percentiles([0.5, 0.95]);
  return { ...sum, mean_ms: sum.calls === 0 ? 0 : Math.round((total / sum.calls) * 10) / 10, p50_ms, p95_ms };
}

const dayText = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** Sums of calls by groups, added up from several queries. */
export class CallSums {
  readonly #sums = new Map<string, OpenSum>();
  /** To group by: a row has the calls of a group with one rounded duration. */
  readonly columns: RawBuilder<unknown>[];
  /** To select. */
  readonly selected;

  constructor(private readonly groups: readonly CallGroup[]) {
    this.columns = [...groups.map((group) => GROUP[group].of), ROUNDED_MS];
    this.selected = [
      ...groups.map((group) => GROUP[group].of.as(GROUP[group].name)),
      sql<number>`count(*)`.as('calls'),
      sql<number>`sum(case when status = 'success' then 0 else 1 end)`.as('failures'),
      sql<number>`sum(micro_usd)`.as('micro_usd'),
      sql<number>`sum(tokens)`.as('tokens'),
      sql<number>`sum(duration_ms)`.as('total_ms'),
      sql<number>`max(duration_ms)`.as('max_ms'),
      ROUNDED_MS.as('rounded_ms'),
    ];
  }

  /** Number of groups. */
  get size(): number {
    return this.#sums.size;
  }

  /** Adds a row of a query. PostgreSQL returns sums as text, because they may be longer than a number. */
  add(row: Record<string, unknown>): void {
    const members = this.groups.map((group) => [GROUP[group].name, row[GROUP[group].name]] as const);
    const key = JSON.stringify(members.map(([, value]) => value));
    let sum = this.#sums.get(key);
    if (!sum) {
      const shown = members
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, name === 'day' ? dayText(Number(value)) : value]);
      this.#sums.set(key, (sum = { ...(Object.fromEntries(shown) as object), ...emptySum() }));
    }
    for (const name of ADDED) sum[name] += Number(row[name]);
    sum.durations.add(Number(row['rounded_ms']), Number(row['calls']));
    sum.max_ms = Math.max(sum.max_ms, Number(row['max_ms']));
  }

  /** The groups, those with the most calls first, and the sum of all. */
  ended(): Pick<CallGroups, 'rows' | 'total'> {
    const total = emptySum();
    for (const sum of this.#sums.values()) addSum(total, sum);
    const rows = [...this.#sums.values()].toSorted((one, other) => other.calls - one.calls).map(toCallSum);
    return { rows, total: toCallSum(total) };
  }
}
