import { Rounds, type Clock } from '@toolfleet/resilience';
import { DAY_MS } from '@toolfleet/database';
import type { Logger } from '@toolfleet/telemetry';
import type { UsageLedger } from './usage-ledger.js';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Replaces ledger rows of days older than the retention by sums of each day: once after the start, then every hour. */
export class LedgerRetention {
  readonly name = 'ledger retention';
  readonly #rounds: Rounds;

  constructor(
    private readonly ledger: Pick<UsageLedger, 'rollUpBefore'>,
    private readonly keptDays: number,
    private readonly host: { clock: Clock; logger: Logger },
  ) {
    this.#rounds = new Rounds({ clock: host.clock, everyMs: EVERY_MS, firstMs: FIRST_MS, work: () => this.run() });
  }

  async start(): Promise<void> {
    this.#rounds.start();
  }

  stop(): Promise<void> {
    return this.#rounds.stop();
  }

  /** One round; a failure is logged and the next round repeats it. */
  async run(): Promise<void> {
    const { clock, logger } = this.host;
    try {
      const rows = await this.ledger.rollUpBefore(clock.now() - this.keptDays * DAY_MS);
      if (rows > 0) logger.info({ rows, kept_days: this.keptDays }, 'old usage was replaced by sums of each day');
    } catch (error) {
      logger.warn({ error }, 'old usage cannot be replaced by sums; it stays in the ledger');
    }
  }
}
