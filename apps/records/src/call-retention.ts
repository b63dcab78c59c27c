import { DAY_MS } from '@toolfleet/database';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { RecordedCallStore } from './call-store.js';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Days for which calls are kept: of most tenants, and of some with another number. */
interface KeptDays {
  days: number;
  of: readonly { tenantId: string; days: number }[];
  /** For which ended deliveries are in the log of a webhook. */
  deliveryDays: number;
}

/** Deletes the calls that are older than the retention of their tenant: once after the start, then every hour. */
export class CallRetention {
  readonly name = 'retention of calls';
  readonly #rounds: Rounds;

  constructor(
    private readonly store: Pick<RecordedCallStore, 'eraseBefore' | 'dropBefore' | 'forgetBatches' | 'forgetEvents'>,
    private readonly kept: KeptDays,
    private readonly host: { clock: Clock; logger: Pick<Logger, 'info' | 'warn'> },
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
    const { days, of, deliveryDays } = this.kept;
    const before = (keptDays: number) => clock.now() - keptDays * DAY_MS;
    try {
      let rows = await this.store.dropBefore(before(Math.max(days, ...of.map((tenant) => tenant.days))));
      for (const { tenantId, days: own } of of) rows += await this.store.eraseBefore(before(own), { only: tenantId });
      rows += await this.store.eraseBefore(before(days), { except: of.map(({ tenantId }) => tenantId) });
      await this.store.forgetBatches(before(1));
      await this.store.forgetEvents(before(deliveryDays));
      if (rows > 0) logger.info({ rows, kept_days: days }, 'old calls were deleted');
    } catch (error) {
      logger.warn({ error }, 'old calls cannot be deleted; they stay in the store');
    }
  }
}
