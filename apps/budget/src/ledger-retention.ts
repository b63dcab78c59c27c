import { HOURLY, Rounds, type Clock } from '@toolfleet/resilience';
import { DAY_MS } from '@toolfleet/database';
import type { Logger } from '@toolfleet/telemetry';
import type { UsageLedger } from './usage-ledger.js';

/** Replaces ledger rows of days older than the retention by sums of each day: once after the start, then every hour. */
export function ledgerRetention(
  ledger: Pick<UsageLedger, 'rollUpBefore'>,
  keptDays: number,
  { clock, logger }: { clock: Clock; logger: Logger },
): Rounds {
  return new Rounds({
    name: 'ledger retention',
    clock,
    ...HOURLY,
    work: async () => {
      const rows = await ledger.rollUpBefore(clock.now() - keptDays * DAY_MS);
      if (rows > 0) logger.info({ rows, kept_days: keptDays }, 'old usage was replaced by sums of each day');
    },
    onFailure: (error) => logger.warn({ error }, 'old usage cannot be replaced by sums; it stays in the ledger'),
  });
}
