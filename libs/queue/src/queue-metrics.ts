import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import type { JobQueue } from './job-queue.js';
import { ALL_STATES } from './queue-shard.js';

/** Shorter than the polling interval of autoscalers (5 s). */
const REFRESH_MS = 2_000;
/** Older values are not shown: autoscalers and alerts would act on a queue that nothing can read. */
const STALE_MS = 30_000;

/** Lifecycle component that updates `toolfleet_queue_jobs` and `toolfleet_queue_oldest_job_age_seconds`. */
export class QueueMetrics {
  readonly name = 'queue metrics';
  // While Redis is unavailable the last values stay for `STALE_MS`; the readiness of the service shows the outage.
  readonly #rounds: Rounds;
  /** When each queue was last read, on the monotonic clock. */
  readonly #readAt = new Map<string, number>();

  constructor(
    private readonly queues: readonly Pick<JobQueue, 'name' | 'counts' | 'oldestAgeMs'>[],
    private readonly metrics: Metrics,
    private readonly clock: Clock,
  ) {
    this.#rounds = new Rounds({ clock, everyMs: REFRESH_MS, work: () => this.refresh() });
    metrics.onScrape(() => this.#dropStale());
  }

  async start(): Promise<void> {
    await this.refresh();
    this.#rounds.start();
  }

  async stop(): Promise<void> {
    void this.#rounds.stop();
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
        this.#readAt.set(queue.name, this.clock.monotonic());
      }),
    );
  }

  #dropStale(): void {
    for (const [queue, readAt] of this.#readAt) {
      if (this.clock.monotonic() - readAt <= STALE_MS) continue;
      for (const state of ALL_STATES) this.metrics.queueJobs.remove({ queue, state });
      this.metrics.queueOldestAge.remove({ queue });
      this.#readAt.delete(queue);
    }
  }
}
