import { sql } from 'kysely';

/**
 * The duration of a call with two significant digits, at least 0.1 ms: as SQL, so that a search returns few rows for any number of calls,
 * and the rows of its stretches can be added. Portable, because SQLite has logarithms only on request.
 */
export const ROUNDED_MS = sql<number>`case
  when duration_ms < 10 then round(duration_ms * 10) / 10.0
  when duration_ms < 100 then round(duration_ms)
  when duration_ms < 1000 then round(duration_ms / 10) * 10
  when duration_ms < 10000 then round(duration_ms / 100) * 100
  when duration_ms < 100000 then round(duration_ms / 1000) * 1000
  when duration_ms < 1000000 then round(duration_ms / 10000) * 10000
  else round(duration_ms / 100000) * 100000 end`;

/** Numbers of calls by their rounded duration. */
export class Durations {
  readonly #calls = new Map<number, number>();

  add(ms: number, calls: number): void {
    this.#calls.set(ms, (this.#calls.get(ms) ?? 0) + calls);
  }

  addAll(other: Durations): void {
    for (const [ms, calls] of other.#calls) this.add(ms, calls);
  }

  /** The durations that these shares of the calls do not exceed, such as 0.5 for the median, with two significant digits. */
  percentiles(shares: readonly number[]): number[] {
    const sorted = [...this.#calls].toSorted(([one], [other]) => one - other);
    const all = sorted.reduce((sum, [, calls]) => sum + calls, 0);
    return shares.map((share) => {
      let seen = 0;
      return sorted.find(([, calls]) => (seen += calls) >= share * all)?.[0] ?? 0;
    });
  }
}
