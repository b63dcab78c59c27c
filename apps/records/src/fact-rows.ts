import type { Json } from '@toolfleet/contracts';
import type { CallFact } from '@toolfleet/contracts/records';
import { sql, type RawBuilder, type SelectQueryBuilder } from 'kysely';

/** Rows of one answer: about a megabyte as JSON. */
const MAX_ROWS = 5_000;

/** Facts that are not columns of the same name. */
const COMPUTED: Partial<Record<CallFact, RawBuilder<unknown>>> = {
  has_parent: sql`parent_call_id is not null`,
  // PostgreSQL does not compare JSON values.
  roles: sql`cast(roles as text)`,
};

/** Facts of calls as rows: one for each call, or one for all calls with equal facts. */
export class FactRows {
  readonly #rows = new Map<string, Json[]>();
  readonly #columns: readonly RawBuilder<unknown>[];
  #calls = 0;

  constructor(
    private readonly facts: readonly CallFact[],
    private readonly isEach: boolean,
  ) {
    this.#columns = facts.map((fact) => COMPUTED[fact] ?? sql.ref(fact));
  }

  get isFull(): boolean {
    return this.#rows.size >= MAX_ROWS;
  }

  /** The facts in their order, then the number of calls and the id of one of them. */
  get rows(): Json[][] {
    return [...this.#rows.values()];
  }

  /** Adds the calls of a stretch. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tables of the store are its own
  async read(calls: SelectQueryBuilder<any, any, object>): Promise<void> {
    const named = this.#columns.map((column, index) => column.as(`f${index}`));
    const found = this.isEach
      ? calls.select([...named, sql<string>`call_id`.as('call_id')]).orderBy('position', 'desc')
      : calls
          .select([...named, sql<string>`min(call_id)`.as('call_id'), sql<number>`count(*)`.as('calls')])
          .groupBy([...this.#columns]);
    for (const row of (await found.execute()) as Record<string, unknown>[]) this.#add(row);
  }

  #add(row: Record<string, unknown>): void {
    const values = this.facts.map((fact, index) => readFact(fact, row[`f${index}`]));
    this.#calls += 1;
    const key = this.isEach ? String(this.#calls) : JSON.stringify(values);
    const calls = this.isEach ? 1 : (row['calls'] as number);
    const known = this.#rows.get(key);
    if (known) known[values.length] = (known[values.length] as number) + calls;
    else this.#rows.set(key, [...values, calls, row['call_id'] as string]);
  }
}

function readFact(fact: CallFact, value: unknown): Json {
  if (value === undefined) return null;
  if (fact === 'roles') return JSON.parse(value as string) as Json;
  return fact === 'has_parent' ? Boolean(value) : (value as Json);
}
