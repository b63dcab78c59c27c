import { ToolError, type CallResult, type Milliseconds } from '@toolfleet/contracts';
import { LatencyMedian, RecentMap } from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';

/** Pairs of tenant and tool that are remembered: a few hundred bytes each. A forgotten pair is measured again. */
const MAX_MEDIANS = 20_000;
/** Time for the hops to the executor and back. */
const HOP_RESERVE_MS = 10;
/** One of this many hopeless calls runs anyway: without it the engine would not notice that a tool became faster. */
const PROBE_EVERY = 10;

interface Typical {
  readonly median: LatencyMedian;
  /** Hopeless calls since the start; every tenth of them runs. */
  hopeless: number;
}

/**
 * Median time that each tenant's calls of a tool need, from its successful live calls. Tenants are separate, because what one of
 * them sends must not refuse the calls of another. Of queued tools (Python, agents), because their time depends on the program in the
 * arguments, only the time in the queue counts: how long other programs ran says nothing about the next one.
 */
export class ToolLatencies {
  readonly #typical = new RecentMap<string, Typical>({ max: MAX_MEDIANS });

  /** Undefined until enough calls of the tool by this tenant were measured. */
  medianMs(call: Call): Milliseconds | undefined {
    return this.#typical.get(latencyKey(call))?.median.medianMs;
  }

  record(call: Call, { ok, provenance, timing }: CallResult): void {
    if (!ok || provenance !== 'live' || call.active.answer) return;
    const key = latencyKey(call);
    let typical = this.#typical.get(key);
    if (!typical) this.#typical.set(key, (typical = { median: new LatencyMedian(), hopeless: 0 }));
    typical.median.add(call.plan.bounded ? timing.execute_ms + timing.queue_ms : timing.queue_ms);
  }

  /** Counts a call that has less time than usual. @returns true when it has to run, to measure the tool again */
  isProbe(call: Call): boolean {
    const typical = this.#typical.get(latencyKey(call));
    return !typical || (typical.hopeless += 1) % PROBE_EVERY === 0;
  }
}

function latencyKey({ tool, request }: Call): string {
  return `${tool.name} ${request.principal.tenantId}`;
}

/**
 * Refuses calls that have less time left than this tenant's calls of the tool usually take. They would fail at the deadline anyway,
 * after using the executor's time; a refusal now lets the caller react earlier. Also measures the latencies.
 * @throws ToolError DEADLINE_EXCEEDED
 */
export function loadShedding(latencies: ToolLatencies): Step {
  return step('load shedding', (next) => async (call) => {
    const medianMs = latencies.medianMs(call);
    const isHopeless = medianMs !== undefined && call.deadline.remainingMs() < medianMs + HOP_RESERVE_MS;
    if (isHopeless && !call.active.answer && !latencies.isProbe(call)) {
      const what = call.plan.bounded ? 'takes' : 'waits in its queue for';
      throw new ToolError('DEADLINE_EXCEEDED', {
        message: `'${call.tool.name}' usually ${what} ${Math.round(medianMs)}ms, which is more than the time left`,
        details: { typical_ms: Math.round(medianMs) },
      });
    }
    const result = await next(call);
    latencies.record(call, result);
    return result;
  });
}
