import type { EpochMs } from '@toolfleet/contracts';
import { DAY_MS } from '@toolfleet/database';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Deletes rows a day after they ended: once after the start, then every hour. */
export class EndedRows {
  readonly name = 'ended sessions';
  #cancelTimer: CancelTimer | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(
    private readonly stores: readonly { forgetEnded(before: EpochMs): Promise<void> }[],
    private readonly clock: Clock,
    private readonly logger: Pick<Logger, 'warn'>,
  ) {}

  async start(): Promise<void> {
    this.#schedule(FIRST_MS);
  }

  async stop(): Promise<void> {
    this.#cancelTimer?.();
    await this.#running;
  }

  #schedule(delayMs: number): void {
    this.#cancelTimer = this.clock.after(delayMs, () => {
      this.#schedule(EVERY_MS);
      const before = this.clock.now() - DAY_MS;
      this.#running = Promise.all(this.stores.map((store) => store.forgetEnded(before)))
        .then(() => undefined)
        .catch((error: unknown) => this.logger.warn({ error }, 'ended sessions cannot be deleted; they stay'));
    });
  }
}
