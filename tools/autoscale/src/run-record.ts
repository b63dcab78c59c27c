/** Figures of a run, simulated or real: the same figures of both, so that they can be compared. */

/** One look at the queue and its workers. */
export interface Sample {
  atMs: number;
  /** Age of the oldest waiting job. */
  ageMs: number;
  waiting: number;
  running: number;
  /** Pods wanted; those that start or drain are among them or not, as Kubernetes counts. */
  pods: number;
}

/** A run. */
export interface RunRecord {
  /** In equal steps from the beginning. */
  samples: Sample[];
  /** Time each job waited for a slot, in order of arrival. */
  waitsMs: number[];
  /** Time of all pods from their creation to their end. */
  podMs: number;
}

/** The figures of a run by which policies are compared. */
export interface RunFigures {
  waitP95Ms: number;
  maxAgeMs: number;
  meanAgeMs: number;
  mostPods: number;
  podHours: number;
}

/** Figures of a run; `fromMs` and `toMs` bound the samples that count. */
export function figuresOf({ samples, waitsMs, podMs }: RunRecord): RunFigures {
  const ages = samples.map(({ ageMs }) => ageMs);
  return {
    waitP95Ms: quantile(waitsMs, 0.95),
    maxAgeMs: Math.max(0, ...ages),
    meanAgeMs: ages.reduce((sum, age) => sum + age, 0) / Math.max(1, ages.length),
    mostPods: Math.max(0, ...samples.map(({ pods }) => pods)),
    podHours: podMs / 3_600_000,
  };
}

/** How far a simulated run is from the real one: 0.1 is 10 % too high, by queue age at its worst, on average, and as waited. */
export function disagreement(
  simulated: RunFigures,
  real: RunFigures,
): Record<'maxAge' | 'meanAge' | 'waitP95', number> {
  return {
    maxAge: simulated.maxAgeMs / real.maxAgeMs - 1,
    meanAge: simulated.meanAgeMs / real.meanAgeMs - 1,
    waitP95: simulated.waitP95Ms / real.waitP95Ms - 1,
  };
}

/** The value below which the share `q` of all lies. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0;
}
