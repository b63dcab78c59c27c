import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { DefinitionService } from './definition-service.js';

/** At its start the registry asks executors to announce their tools; none is marked unavailable before they had time to answer. */
const FIRST_SWEEP_MS = 2_000;

/** Periodically marks executors that stopped announcing. Their tools stay listed as unavailable. */
export class LivenessSweeper {
  readonly name = 'presence';
  private cancelTimer: CancelTimer | undefined;
  private stopped = false;
  private hasFailed = false;

  constructor(
    private readonly definitions: DefinitionService,
    private readonly intervalMs: Milliseconds,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  async start(): Promise<void> {
    this.schedule(FIRST_SWEEP_MS);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
  }

  private schedule(delayMs = this.intervalMs): void {
    if (this.stopped) return;
    this.cancelTimer = this.clock.after(delayMs, () => void this.sweep());
  }

  private async sweep(): Promise<void> {
    try {
      for (const owner of await this.definitions.expire()) {
        this.logger.warn({ source: owner }, 'a source stopped announcing; its tools are unavailable');
      }
      this.hasFailed = false;
    } catch (error) {
      // Logged once per outage.
      if (!this.hasFailed) this.logger.warn({ error }, 'the liveness of executors cannot be checked');
      this.hasFailed = true;
    }
    this.schedule();
  }
}
