import { planJobs, type LoadPlan } from './load-plan.js';
import type { LocalRun } from './local-run.js';
import { disagreement, figuresOf, type RunFigures, type RunRecord } from './run-record.js';
import type { ScalingRule } from './scaling-rule.js';
import { simulate } from './simulate.js';

/** What both runs had in common. */
export interface RunInputs {
  plan: LoadPlan;
  rule: ScalingRule;
  slots: number;
  endMs: number;
}

/** A recorded run and its simulation: inputs, measurements, and both curves. */
export interface AgreementRecord extends RunInputs {
  measured: { startMs: number[]; serviceMs: number[] };
  figures: { real: RunFigures; simulated: RunFigures };
  disagreement: ReturnType<typeof disagreement>;
  curves: { sampleMs: number; real: Curve; simulated: Curve };
}

/** Columns of the samples, one value per `sampleMs`. */
export interface Curve {
  ageMs: number[];
  pods: number[];
}

/** Runs the simulator with the service and start times of a real run and compares both. */
export function recordOf(inputs: RunInputs, real: LocalRun): AgreementRecord {
  const measured = { startMs: real.startMs.map(Math.round), serviceMs: real.serviceMs };
  const simulated = simulateMeasured(inputs, measured);
  const figures = { real: figuresOf(real), simulated: figuresOf(simulated) };
  const sampleMs = (real.samples[1]?.atMs ?? 0) - (real.samples[0]?.atMs ?? 0);
  return {
    ...inputs,
    measured,
    figures,
    disagreement: disagreement(figures.simulated, figures.real),
    curves: { sampleMs, real: curveOf(real), simulated: curveOf(simulated) },
  };
}

/** The simulation that belongs to a real run. */
export function simulateMeasured(
  { plan, rule, slots, endMs }: RunInputs,
  { startMs, serviceMs }: AgreementRecord['measured'],
): RunRecord {
  const jobs = planJobs(plan).map(({ atMs }, index) => ({ atMs, serviceMs: serviceMs[index] ?? 0 }));
  return simulate(jobs, { rule, slots, startMs, endMs });
}

/** The columns of a run. */
export function curveOf({ samples }: RunRecord): Curve {
  return { ageMs: samples.map(({ ageMs }) => Math.round(ageMs)), pods: samples.map(({ pods }) => pods) };
}
