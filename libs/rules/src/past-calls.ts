import { setImmediate } from 'node:timers/promises';
import type { EpochMs, Json } from '@toolfleet/contracts';
import type { CallFact, RecordsFacts } from '@toolfleet/contracts/records';
import type { CallRecords } from '@toolfleet/records';
import type { Clock } from '@toolfleet/resilience';

/** A test ends after this time with the calls read so far. */
const MAX_TEST_MS = 60_000;
/** Work between two turns of the event loop, for calls meanwhile. */
const TURN_MS = 5;
/** Positions of calls are microseconds. */
const PER_MS = 1_000;

/** The types of facts; unrecorded facts are null. */
interface FactTypes {
  tenant_id: string;
  user_id: string;
  key_id: string | null;
  agent_id: string | null;
  via: string | null;
  roles: string[] | null;
  tool: string;
  source: string | null;
  toolset: string | null;
  origin: string;
  entry_point: string;
  has_parent: boolean;
  parent_call_id: string | null;
  status: string;
  code: string | null;
  transport: string;
  ended_at: EpochMs;
  duration_ms: number;
  admit_ms: number;
  wait_ms: number;
  micro_usd: number;
  tokens: number;
}

/** Facts of a recorded call, or of `calls` calls for which they are the same; `call_id` is one of them. */
export type PastFacts<F extends CallFact> = { [K in F]: FactTypes[K] } & { calls: number; call_id: string };

/** Which calls of the past a rule is tested with. */
export type PastQuery = Omit<RecordsFacts, 'facts' | 'each' | 'before' | 'from'> & { from: EpochMs };

/** One reading of recorded calls, the newest first. */
export class PastReading {
  #from: EpochMs;
  #turnFrom: number;
  #isPartial = false;
  readonly #until: number;

  constructor(
    private readonly records: Pick<CallRecords, 'facts'>,
    private readonly query: PastQuery,
    private readonly clock: Clock,
  ) {
    this.#from = query.from;
    this.#turnFrom = clock.monotonic();
    this.#until = this.#turnFrom + MAX_TEST_MS;
  }

  /** Calls that ended since then were read. */
  get from(): EpochMs {
    return this.#from;
  }

  /** Whether older calls that match were not read. */
  get isPartial(): boolean {
    return this.#isPartial;
  }

  /**
   * Facts of the calls that match. Other work of the process gets its turn between them.
   * @param maxRows rows after which older calls are not read
   */
  async *rows<const F extends CallFact>(
    facts: readonly F[],
    { each = false, maxRows = Number.POSITIVE_INFINITY }: { each?: boolean; maxRows?: number } = {},
  ): AsyncGenerator<PastFacts<F>> {
    let read = 0;
    for (let before: string | undefined; ;) {
      const { rows, next } = await this.records.facts({ ...this.query, facts: [...facts], each, before });
      for (const row of rows) {
        if (this.clock.monotonic() - this.#turnFrom > TURN_MS) await this.#pause();
        yield toFacts(facts, row);
      }
      read += rows.length;
      if (next === undefined) return;
      before = next;
      if (read < maxRows && this.clock.monotonic() < this.#until) continue;
      this.#isPartial = true;
      this.#from = Math.ceil(Number(next) / PER_MS);
      return;
    }
  }

  async #pause(): Promise<void> {
    await setImmediate();
    this.#turnFrom = this.clock.monotonic();
  }
}

function toFacts<F extends CallFact>(facts: readonly F[], row: readonly Json[]): PastFacts<F> {
  const named: Record<string, Json> = { calls: row[facts.length] as number, call_id: row[facts.length + 1] as string };
  for (let index = 0; index < facts.length; index += 1) named[facts[index] as string] = row[index] as Json;
  return named as unknown as PastFacts<F>;
}
