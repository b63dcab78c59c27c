import { ToolError, type CallResult, type Milliseconds } from '@toolfleet/contracts';
import { LatencyMedian } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Interceptor } from '../call.js';

const MAX_TOOLS = 5_000;
/** Time for the hops to the executor and back. */
const HOP_RESERVE_MS = 10;
/** One of this many hopeless calls runs anyway: without it the engine would not notice that a tool became faster. */
const PROBE_EVERY = 10;

/** Median latency of each tool, from its successful live calls; time in a queue included. */
export class ToolLatencies {
  readonly #medians = new LRUCache<string, LatencyMedian>({ max: MAX_TOOLS });

  /** Undefined until enough calls of the tool were measured. */
  medianMs(tool: string): Milliseconds | undefined {
    return this.#medians.get(tool)?.medianMs;
  }

  record(tool: string, { ok, provenance, timing }: CallResult): void {
    if (!ok || provenance !== 'live') return;
    let median = this.#medians.get(tool);
    if (!median) this.#medians.set(tool, (median = new LatencyMedian()));
    median.add(timing.execute_ms + timing.queue_ms);
  }
}

/**
 * Refuses calls that have less time left than their tool usually takes. They would fail at the deadline anyway, after using the
 * executor's time; a refusal now lets the caller react earlier. Also measures the latencies.
 * @throws ToolError DEADLINE_EXCEEDED
 */
export function loadShedding(latencies: ToolLatencies): Interceptor {
  const refusals = new LRUCache<string, number>({ max: MAX_TOOLS });
  return async (call, next) => {
    const { name } = call.tool;
    const medianMs = latencies.medianMs(name);
    if (medianMs !== undefined && call.deadline.remainingMs() < medianMs + HOP_RESERVE_MS) {
      const refused = (refusals.get(name) ?? 0) + 1;
      refusals.set(name, refused);
      if (refused % PROBE_EVERY !== 0) {
        throw new ToolError('DEADLINE_EXCEEDED', {
          message: `'${name}' usually takes ${Math.round(medianMs)}ms, which is more than the time left`,
          details: { typical_ms: Math.round(medianMs) },
        });
      }
    }
    const result = await next(call);
    latencies.record(name, result);
    return result;
  };
}
