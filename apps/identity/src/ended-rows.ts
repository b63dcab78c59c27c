import type { EpochMs } from '@toolfleet/contracts';
import { DAY_MS } from '@toolfleet/database';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Deletes rows a day after they ended: once after the start, then every hour. */
export function endedRows(
  stores: readonly { forgetEnded(before: EpochMs): Promise<void> }[],
  clock: Clock,
  logger: Pick<Logger, 'warn'>,
): LifecycleComponent {
  const rounds = new Rounds({
    clock,
    everyMs: EVERY_MS,
    firstMs: FIRST_MS,
    work: () => Promise.all(stores.map((store) => store.forgetEnded(clock.now() - DAY_MS))),
    onFailure: (error) => logger.warn({ error }, 'ended sessions cannot be deleted; they stay'),
  });
  return { name: 'ended sessions', start: async () => rounds.start(), stop: () => rounds.stop() };
}
