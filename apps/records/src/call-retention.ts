import { DAY_MS } from '@toolfleet/database';
import { HOURLY, Rounds, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { RecordedCallStore } from './call-store.js';

/** Days for which calls are kept: of most tenants, and of some with another number. */
interface KeptDays {
  days: number;
  of: readonly { tenantId: string; days: number }[];
  /** For which ended deliveries are in the log of a webhook. */
  deliveryDays: number;
}

/** Deletes the calls that are older than the retention of their tenant: once after the start, then every hour. */
export function callRetention(
  store: Pick<RecordedCallStore, 'eraseBefore' | 'dropBefore' | 'forgetBatches' | 'forgetEvents'>,
  { days, of, deliveryDays }: KeptDays,
  { clock, logger }: { clock: Clock; logger: Pick<Logger, 'info' | 'warn'> },
): Rounds {
  const before = (keptDays: number) => clock.now() - keptDays * DAY_MS;
  return new Rounds({
    name: 'retention of calls',
    clock,
    ...HOURLY,
    work: async () => {
      let rows = await store.dropBefore(before(Math.max(days, ...of.map((tenant) => tenant.days))));
      for (const { tenantId, days: own } of of) rows += await store.eraseBefore(before(own), { only: tenantId });
      rows += await store.eraseBefore(before(days), { except: of.map(({ tenantId }) => tenantId) });
      await store.forgetBatches(before(1));
      await store.forgetEvents(before(deliveryDays));
      if (rows > 0) logger.info({ rows, kept_days: days }, 'old calls were deleted');
    },
    onFailure: (error) => logger.warn({ error }, 'old calls cannot be deleted; they stay in the store'),
  });
}
