import { DAY_MS } from '@toolfleet/database';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { SessionStore } from './session-store.js';

const FIRST_MS = 60_000;
const EVERY_MS = 3_600_000;

/** Deletes sessions a day after they ended: once after the start, then every hour. */
export class EndedRows {
  readonly name = 'ended sessions';
  #cancelTimer: CancelTimer | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(
    private readonly sessions: Pick<SessionStore, 'forgetEnded'>,
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
      this.#running = this.sessions
        .forgetEnded(this.clock.now() - DAY_MS)
        .catch((error: unknown) => this.logger.warn({ error }, 'ended sessions cannot be deleted; they stay'));
    });
  }
}
