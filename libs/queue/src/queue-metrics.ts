import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import type { JobQueue } from './job-queue.js';
import { ALL_STATES } from './queue-shard.js';

/** Shorter than the polling interval of autoscalers (5 s). */
const REFRESH_MS = 2_000;
/** Older values are not shown: autoscalers and alerts would act on a queue that nothing can read. */
const STALE_MS = 30_000;

/**
 * Lifecycle component that updates `toolfleet_queue_jobs` and `toolfleet_queue_oldest_job_age_seconds`. While Redis is unavailable the last
 * values stay for `STALE_MS`; the readiness of the service shows the outage.
 */
export function queueMetrics(
  queues: readonly Pick<JobQueue, 'name' | 'counts' | 'oldestAgeMs'>[],
  metrics: Metrics,
  clock: Clock,
): Rounds {
  /** When each queue was last read, on the monotonic clock. */
  const readTimes = new Map<string, number>();
  metrics.onScrape(() => {
    for (const [queue, readAt] of readTimes) {
      if (clock.monotonic() - readAt <= STALE_MS) continue;
      for (const state of ALL_STATES) metrics.queueJobs.remove({ queue, state });
      metrics.queueOldestAge.remove({ queue });
      readTimes.delete(queue);
    }
  });
  const read = async (queue: (typeof queues)[number]): Promise<void> => {
    const [counts, ageMs] = await Promise.all([queue.counts(), queue.oldestAgeMs()]);
    for (const [state, count] of Object.entries(counts)) metrics.queueJobs.set({ queue: queue.name, state }, count);
    metrics.queueOldestAge.set({ queue: queue.name }, ageMs / 1_000);
    readTimes.set(queue.name, clock.monotonic());
  };
  const work = () => Promise.all(queues.map(read));
  return new Rounds({ name: 'queue metrics', clock, firstMs: 0, everyMs: REFRESH_MS, work });
}
