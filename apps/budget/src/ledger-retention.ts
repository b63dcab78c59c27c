import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { DAY_MS } from '@toolfleet/database';
import type { Logger } from '@toolfleet/telemetry';
import type { UsageLedger } from './usage-ledger.js';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Replaces ledger rows of days older than the retention by sums of each day: once after the start, then every hour. */
export class LedgerRetention {
  readonly name = 'ledger retention';
  private cancelTimer: CancelTimer | undefined;
  private running: Promise<void> = Promise.resolve();

  constructor(
    private readonly ledger: Pick<UsageLedger, 'rollUpBefore'>,
    private readonly keptDays: number,
    private readonly host: { clock: Clock; logger: Logger },
  ) {}

  async start(): Promise<void> {
    this.schedule(FIRST_MS);
  }

  async stop(): Promise<void> {
    this.cancelTimer?.();
    await this.running;
  }

  private schedule(delayMs: number): void {
    this.cancelTimer = this.host.clock.after(delayMs, () => {
      this.schedule(EVERY_MS);
      this.running = this.run();
    });
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
