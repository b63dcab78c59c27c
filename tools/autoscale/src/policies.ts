import { burst, planJobs, ramp, type RatePoint, type ServiceTime } from './load-plan.js';
import { figuresOf, quantile, type RunFigures } from './run-record.js';
import { PRODUCTION_RULE, type ScalingRule } from './scaling-rule.js';
import { simulate, type World } from './simulate.js';

const HOUR_MS = 3_600_000;
const { targetAgeMs: _, ...BY_JOBS } = PRODUCTION_RULE;
const PLAIN: ScalingRule = { ...BY_JOBS, min: 1 };

/** Policies compared by docs/operations/scaling.md, and how long their pods take to start. */
export const POLICIES: Record<string, { rule: ScalingRule; startFactor?: number; lagMs?: number }> = {
  'wait list, target 8': { rule: { ...PLAIN, counts: 'waiting', target: 8 } },
  'wait + active, target 2': { rule: { ...PLAIN, target: 2 } },
  'wait + active, target 1.6': { rule: PLAIN },
  'same, min 4, up 300 %/15 s': { rule: { ...PLAIN, min: 4, upShare: 3 } },
  'same, pod start × 3.75': { rule: { ...PLAIN, min: 4, upShare: 3 }, startFactor: 3.75 },
  'as deployed: min 2, oldest job 5 s': { rule: PRODUCTION_RULE },
  'as deployed, seen 15 s late': { rule: PRODUCTION_RULE, lagMs: 14_900 },
};

/** What comes in within an hour. */
export const LOADS: Record<string, RatePoint[]> = {
  'burst 2→40/s for 300 s': burst(2, 40, 60_000, 300_000, HOUR_MS),
  'ramp 2→40/s over 600 s': ramp(2, 40, 600_000, HOUR_MS),
};

/** Pods and jobs of a table. */
export interface TableInputs {
  service: ServiceTime;
  startMs: number;
  slots: number;
  seeds: readonly number[];
}

/** Figures of each policy under each load, in the order of `LOADS`: the median over the seeds. */
export function policyTable(inputs: TableInputs): { policy: string; figures: RunFigures[] }[] {
  const { service, startMs, slots, seeds } = inputs;
  const plans = Object.values(LOADS).map((rate) => seeds.map((seed) => planJobs({ seed, rate, service })));
  return Object.entries(POLICIES).map(([policy, { rule, startFactor = 1, lagMs = 0 }]) => {
    const world: World = { rule, slots, startMs: startMs * startFactor, lagMs, endMs: HOUR_MS, sampleMs: 100 };
    return {
      policy,
      figures: plans.map((ofSeeds) => medianOf(ofSeeds.map((jobs) => figuresOf(simulate(jobs, world))))),
    };
  });
}

/** Each figure's own median. */
export function medianOf(runs: readonly RunFigures[]): RunFigures {
  const median = (figure: keyof RunFigures): number =>
    quantile(
      runs.map((run) => run[figure]),
      0.5,
    );
  return {
    waitP95Ms: median('waitP95Ms'),
    maxAgeMs: median('maxAgeMs'),
    meanAgeMs: median('meanAgeMs'),
    mostPods: median('mostPods'),
    podHours: median('podHours'),
  };
}
