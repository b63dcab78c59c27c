import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import type { JobQueue } from './job-queue.js';

/** Shorter than the polling interval of autoscalers (5 s). */
const REFRESH_MS = 2_000;

/** Lifecycle component that updates `toolfleet_queue_jobs` and `toolfleet_queue_oldest_job_age_seconds`. */
export class QueueMetrics {
  readonly name = 'queue metrics';
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly queues: readonly Pick<JobQueue, 'name' | 'counts' | 'oldestAgeMs'>[],
    private readonly metrics: Metrics,
    private readonly clock: Clock,
  ) {}

  async start(): Promise<void> {
    await this.refresh();
    this.#schedule();
  }

  async stop(): Promise<void> {
    this.#cancel?.();
  }

  /** Reads all queues and sets the gauges. */
  async refresh(): Promise<void> {
    await Promise.all(
      this.queues.map(async (queue) => {
        const [counts, ageMs] = await Promise.all([queue.counts(), queue.oldestAgeMs()]);
        for (const [state, count] of Object.entries(counts)) {
          this.metrics.queueJobs.set({ queue: queue.name, state }, count);
        }
        this.metrics.queueOldestAge.set({ queue: queue.name }, ageMs / 1_000);
      }),
    );
  }

  #schedule(): void {
    this.#cancel = this.clock.after(REFRESH_MS, () => {
      // While Redis is unavailable the last values stay; the readiness of the service shows the outage.
      void this.refresh()
        .catch(() => undefined)
        .finally(() => this.#schedule());
    });
  }
}
