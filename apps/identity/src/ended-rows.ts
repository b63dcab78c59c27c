import type { EpochMs } from '@toolfleet/contracts';
import { DAY_MS } from '@toolfleet/database';
import { HOURLY, Rounds, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';

/** Deletes rows a day after they ended: once after the start, then every hour. */
export function endedRows(
  stores: readonly { forgetEnded(before: EpochMs): Promise<void> }[],
  clock: Clock,
  logger: Pick<Logger, 'warn'>,
): Rounds {
  return new Rounds({
    name: 'ended sessions',
    clock,
    ...HOURLY,
    work: () => Promise.all(stores.map((store) => store.forgetEnded(clock.now() - DAY_MS))),
    onFailure: (error) => logger.warn({ error }, 'ended sessions cannot be deleted; they stay'),
  });
}
