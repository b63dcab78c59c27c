import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { curveOf, simulateMeasured, type AgreementRecord } from './agreement.js';
import { burst, planJobs, ramp } from './load-plan.js';
import { policyTable } from './policies.js';
import { disagreement, figuresOf } from './run-record.js';
import { PRODUCTION_RULE, type ScalingRule } from './scaling-rule.js';
import { simulate } from './simulate.js';

const ONE_POD: ScalingRule = { ...PRODUCTION_RULE, min: 1, max: 1 };

describe('a plan', () => {
  it('has the rate it was given, and is the same for the same seed', () => {
    const plan = { seed: 7, rate: burst(2, 40, 60_000, 300_000, 600_000), service: { meanMs: 1_200, sigma: 0.5 } };
    const jobs = planJobs(plan);
    const within = (from: number, to: number) => jobs.filter(({ atMs }) => atMs >= from && atMs < to).length;
    expect(within(60_000, 360_000) / 300).toBeCloseTo(40, -0.5);
    expect(within(360_000, 600_000) / 240).toBeCloseTo(2, -0.5);
    expect(jobs.reduce((sum, { serviceMs }) => sum + serviceMs, 0) / jobs.length / 1_200).toBeCloseTo(1, 1);
    expect(planJobs(plan)).toEqual(jobs);
    expect(planJobs({ ...plan, seed: 8 })).not.toEqual(jobs);
  });

  it('rises in a straight line', () => {
    const jobs = planJobs({ seed: 1, rate: ramp(0, 60, 100_000, 100_000), service: { meanMs: 1, sigma: 0 } });
    const first = jobs.filter(({ atMs }) => atMs < 50_000).length;
    expect(first / jobs.length).toBeCloseTo(0.25, 1);
  });
});

describe('the simulation', () => {
  it('counts as one does by hand', () => {
    const jobs = [0, 100, 200].map((atMs) => ({ atMs, serviceMs: 1_000 }));
    const run = simulate(jobs, { rule: ONE_POD, slots: 1, startMs: 0, endMs: 5_000 });
    expect(run.waitsMs).toEqual([0, 900, 1_800]);
    expect(run.samples.find(({ atMs }) => atMs === 500)).toEqual({
      atMs: 500,
      ageMs: 400,
      waiting: 2,
      running: 1,
      pods: 1,
    });
    expect(run.podMs).toBeCloseTo(5_000, -2);
  });

  it('lets a pod that leaves finish its jobs, and gives it no more', () => {
    const rule: ScalingRule = {
      ...PRODUCTION_RULE,
      min: 1,
      max: 4,
      syncMs: 1_000,
      steadyMs: 1,
      downPeriodMs: 1,
      target: 1,
    };
    const jobs = Array.from({ length: 40 }, (_, index) => ({ atMs: index * 10, serviceMs: 700 + index * 20 }));
    const run = simulate(jobs, { rule, slots: 1, startMs: 500, endMs: 60_000 });
    expect(run.waitsMs.every((waited) => waited >= 0)).toBe(true);
    expect(run.samples.at(-1)).toMatchObject({ waiting: 0, running: 0, pods: 1 });
    // With 4 slots and 40 jobs of 1.1 s on average no schedule can finish sooner.
    expect(Math.max(...run.waitsMs)).toBeGreaterThan(8_000);
  });

  it('shows why running jobs count and why starting fast matters', () => {
    const table = policyTable({ service: { meanMs: 1_200, sigma: 0.5 }, startMs: 8_000, slots: 2, seeds: [1] });
    const of = (name: string) => table.find(({ policy }) => policy === name)!.figures;
    const [burstOfList, rampOfList] = of('wait list, target 8');
    const [burstOfWork, rampOfWork] = of('wait + active, target 1.6');
    expect(burstOfList!.waitP95Ms).toBeGreaterThan(burstOfWork!.waitP95Ms * 1.2);
    expect(rampOfList!.waitP95Ms).toBeGreaterThan(rampOfWork!.waitP95Ms * 5);
    expect(of('same, pod start × 3.75')[0]!.maxAgeMs).toBeGreaterThan(
      of('same, min 4, up 300 %/15 s')[0]!.maxAgeMs * 1.5,
    );
  });
});

describe('the kept real run', () => {
  const file = fileURLToPath(new URL('../../../test/load/results/autoscale-2026-11-21.json', import.meta.url));
  const kept = JSON.parse(readFileSync(file, 'utf8')) as AgreementRecord;
  const again = simulateMeasured(kept, kept.measured);

  it('has the simulation that its inputs give today', () => {
    expect(curveOf(again)).toEqual(kept.curves.simulated);
  });

  it('agrees with it on the age of the queue within 20 %', () => {
    const apart = disagreement(figuresOf(again), kept.figures.real);
    for (const share of Object.values(apart)) expect(Math.abs(share)).toBeLessThan(0.2);
    expect(kept.figures.real.maxAgeMs).toBeGreaterThan(5_000);
    expect(kept.figures.real.mostPods).toBe(4);
  });
});
