import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { Registrar } from './registrar.js';

/** Executors are asked to announce when the registry starts; before they had time to, nobody counts as gone. */
const FIRST_LOOK_MS = 2_000;

/** Notices executors that stopped announcing: their tools stay listed, marked unavailable. */
export class Presence {
  readonly name = 'presence';
  private cancelTimer: CancelTimer | undefined;
  private stopped = false;
  private isAway = false;

  constructor(
    private readonly registrar: Registrar,
    private readonly everyMs: Milliseconds,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  async start(): Promise<void> {
    this.schedule(FIRST_LOOK_MS);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
  }

  private schedule(delayMs = this.everyMs): void {
    if (this.stopped) return;
    this.cancelTimer = this.clock.after(delayMs, () => void this.look());
  }

  private async look(): Promise<void> {
    try {
      for (const owner of await this.registrar.expire()) {
        this.logger.warn({ source: owner }, 'a source stopped announcing; its tools are unavailable');
      }
      this.isAway = false;
    } catch (error) {
      if (!this.isAway) this.logger.warn({ error }, 'presence of executors cannot be checked');
      this.isAway = true;
    }
    this.schedule();
  }
}
