import { SeededRandom } from './seeded-random.js';

/** Rate of arrivals at an instant; straight lines between points, a step where two points share an instant. */
export interface RatePoint {
  atMs: number;
  perSecond: number;
}

/** How long a job occupies a slot: lognormal, `sigma` 0 is constant. */
export interface ServiceTime {
  meanMs: number;
  sigma: number;
}

/** A job of a plan. */
export interface PlannedJob {
  atMs: number;
  serviceMs: number;
}

/** What comes in and how long it takes. */
export interface LoadPlan {
  seed: number;
  rate: readonly RatePoint[];
  service: ServiceTime;
}

/** Quiet for `leadMs`, `peak` calls each second for `burstMs`, then quiet again until `endMs`. */
export function burst(quiet: number, peak: number, leadMs: number, burstMs: number, endMs: number): RatePoint[] {
  return [
    { atMs: 0, perSecond: quiet },
    { atMs: leadMs, perSecond: quiet },
    { atMs: leadMs, perSecond: peak },
    { atMs: leadMs + burstMs, perSecond: peak },
    { atMs: leadMs + burstMs, perSecond: quiet },
    { atMs: endMs, perSecond: quiet },
  ];
}

/** From `low` to `high` calls each second over `rampMs`, then `low` again until `endMs`. */
export function ramp(low: number, high: number, rampMs: number, endMs: number): RatePoint[] {
  return [
    { atMs: 0, perSecond: low },
    { atMs: rampMs, perSecond: high },
    { atMs: rampMs, perSecond: low },
    { atMs: endMs, perSecond: low },
  ];
}

/** The jobs of a plan in order of arrival: a Poisson process, thinned to the rate of each instant. */
export function planJobs({ seed, rate, service }: LoadPlan): PlannedJob[] {
  const random = new SeededRandom(seed);
  const most = Math.max(...rate.map(({ perSecond }) => perSecond));
  const endMs = rate.at(-1)?.atMs ?? 0;
  const jobs: PlannedJob[] = [];
  for (let atMs = random.exponential(1_000 / most); atMs < endMs; atMs += random.exponential(1_000 / most)) {
    if (random.uniform() * most >= rateAt(rate, atMs)) continue;
    jobs.push({ atMs, serviceMs: random.lognormal(service.meanMs, service.sigma) });
  }
  return jobs;
}

function rateAt(points: readonly RatePoint[], atMs: number): number {
  const next = points.findIndex((point) => point.atMs > atMs);
  const [from, to] = [points[next - 1], points[next]];
  if (!from || !to) return points.at(-1)?.perSecond ?? 0;
  return from.perSecond + ((to.perSecond - from.perSecond) * (atMs - from.atMs)) / (to.atMs - from.atMs);
}
