import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { Registrar } from '../registrar.js';
import { pythonDefinition, PYTHON_SOURCE } from './python-tool.js';

const LOOK_MS: Milliseconds = 3_000;
/** A sandbox that is there counts as there until the look after the next one. */
const LONGER_MS: Milliseconds = 2 * LOOK_MS;

/**
 * Declares `execute_python` for the sandbox, which speaks to Redis only, and repeats it as an announcement while workers
 * of its queue write their slots there. Without one the tool stays listed, marked unavailable; a call waits in the queue for one.
 */
export class PythonSource {
  private cancelTimer: CancelTimer | undefined;
  private stopped = false;
  private isAway = false;

  constructor(
    /** How long sandboxes still count as alive; 0 without any. */
    private readonly sandboxesAliveMs: () => Promise<Milliseconds>,
    private readonly registrar: Registrar,
    private readonly host: { clock: Clock; logger: Logger },
  ) {}

  async start(): Promise<void> {
    // Listed from the first moment on; without a sandbox for a moment only as available.
    await this.declare((await this.aliveMs()) || 1);
    this.schedule();
  }

  stop(): void {
    this.stopped = true;
    this.cancelTimer?.();
  }

  private async look(): Promise<void> {
    try {
      const aliveMs = await this.aliveMs();
      if (aliveMs > 0) await this.declare(aliveMs);
      this.isAway = false;
    } catch (error) {
      if (!this.isAway) this.host.logger.warn({ error }, 'presence of sandboxes cannot be checked');
      this.isAway = true;
    }
    this.schedule();
  }

  private async aliveMs(): Promise<Milliseconds> {
    const aliveMs = await this.sandboxesAliveMs();
    return aliveMs > 0 ? aliveMs + LONGER_MS : 0;
  }

  private async declare(ttlMs: Milliseconds): Promise<void> {
    // Programs read clocks and random numbers, and runs of a session build on each other: no result stands for another.
    const definition = { ...pythonDefinition(), cache_ttl_seconds: 0 };
    await this.registrar.register({ source: PYTHON_SOURCE, definitions: [definition], replace: true, ttl_ms: ttlMs });
  }

  private schedule(): void {
    if (!this.stopped) this.cancelTimer = this.host.clock.after(LOOK_MS, () => void this.look());
  }
}
