/**
 * `npm run autoscale`: the effect of a burst on a queue class. `simulate` answers at once, `table` compares policies, `run` sends
 * the burst to real workers on this machine and says how well the simulation would have foretold it.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Worker } from './local-autoscaler.js';
import { burst, planJobs, type LoadPlan } from './load-plan.js';
import { runLocally } from './local-run.js';
import { LOADS, medianOf, policyTable } from './policies.js';
import { recordOf } from './agreement.js';
import { figuresOf, type RunFigures } from './run-record.js';
import { PRODUCTION_RULE, type ScalingRule } from './scaling-rule.js';
import { simulate } from './simulate.js';

/** The machine's part in a real run. */
export interface Machine {
  /** A Redis for this run alone. */
  startRedis(): Promise<string>;
  startWorker(redisUrl: string, slots: number, warmUpMs: number): Worker;
  say(line: string): void;
}

const OPTIONS = {
  quiet: { type: 'string', default: '2' },
  peak: { type: 'string', default: '40' },
  lead: { type: 'string', default: '60' },
  for: { type: 'string', default: '300' },
  until: { type: 'string' },
  service: { type: 'string', default: '1.2' },
  sigma: { type: 'string', default: '0.5' },
  start: { type: 'string', default: '8' },
  slots: { type: 'string', default: '2' },
  target: { type: 'string' },
  min: { type: 'string' },
  max: { type: 'string' },
  sync: { type: 'string' },
  lag: { type: 'string', default: '0' },
  pace: { type: 'string', default: '1' },
  'warm-up': { type: 'string', default: '5' },
  seeds: { type: 'string', default: '1,2,3' },
  out: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;

export const USAGE = `usage: npm run autoscale -- <simulate|table|run> [options]      times in seconds
  load       --quiet 2 --peak 40 (calls/s)  --lead 60 --for 300 --until 3600  --seeds 1,2,3
  jobs       --service 1.2 --sigma 0.5 (lognormal)
  pods       --slots 2 --start 8 (simulated)  --warm-up 5 (real: longest warm-up of the interpreter)
  autoscaler --target 1.6 --min 2 --max 40 --sync 15 --lag 0  --pace 1 (10: all its periods ten times shorter)
  run        takes the first seed, keep --max small;  --out file.json keeps inputs and both curves`;

/** @returns exit code */
export async function autoscale(argv: string[], machine: Machine): Promise<number> {
  const { positionals, values } = parseArgs({ args: argv, options: OPTIONS, allowPositionals: true });
  const command = positionals[0];
  if (values.help || command === undefined) {
    machine.say(USAGE);
    return values.help ? 0 : 2;
  }
  const inputs = inputsOf(values);
  if (command === 'table') return printTable(inputs, machine);
  if (command === 'simulate') return printSimulation(inputs, machine);
  if (command === 'run') return realRun(inputs, machine, values.out);
  machine.say(USAGE);
  return 2;
}

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];
type Inputs = ReturnType<typeof inputsOf>;

function inputsOf(values: Values) {
  const seconds = (text: string): number => number(text) * 1_000;
  const pace = number(values.pace);
  const lead = seconds(values.lead);
  const burstMs = seconds(values.for);
  const endMs = values.until === undefined ? lead + burstMs + 600_000 / pace : seconds(values.until);
  return {
    rate: burst(number(values.quiet), number(values.peak), lead, burstMs, endMs),
    service: { meanMs: seconds(values.service), sigma: number(values.sigma) },
    seeds: values.seeds.split(',').map(number),
    slots: number(values.slots),
    startMs: seconds(values.start),
    warmUpMs: seconds(values['warm-up']),
    lagMs: seconds(values.lag),
    endMs,
    rule: {
      ...paced(PRODUCTION_RULE, pace),
      ...(values.target === undefined ? {} : { target: number(values.target) }),
      ...(values.min === undefined ? {} : { min: number(values.min) }),
      ...(values.max === undefined ? {} : { max: number(values.max) }),
      ...(values.sync === undefined ? {} : { syncMs: seconds(values.sync) }),
    },
  };
}

/** The same rule with all periods shorter, so that a real run need not take an hour. */
export function paced(rule: ScalingRule, pace: number): ScalingRule {
  return {
    ...rule,
    ...(rule.targetAgeMs === undefined ? {} : { targetAgeMs: rule.targetAgeMs / pace }),
    upPeriodMs: rule.upPeriodMs / pace,
    steadyMs: rule.steadyMs / pace,
    downPeriodMs: rule.downPeriodMs / pace,
    syncMs: rule.syncMs / pace,
  };
}

function printSimulation({ rate, service, seeds, ...world }: Inputs, { say }: Machine): number {
  const runs = seeds.map((seed) => figuresOf(simulate(planJobs({ seed, rate, service }), world)));
  say(`median of ${seeds.length} seeds: ${describe(medianOf(runs))}`);
  return 0;
}

function printTable({ service, startMs, slots, seeds }: Inputs, { say }: Machine): number {
  say(`| Policy | ${Object.keys(LOADS).join(' | ')} |`);
  say(
    `| --- | ${Object.keys(LOADS)
      .map(() => '---')
      .join(' | ')} |`,
  );
  for (const { policy, figures } of policyTable({ service, startMs, slots, seeds })) {
    const cells = figures.map(
      (one) => `${inSeconds(one.waitP95Ms)} / ${inSeconds(one.maxAgeMs)} / ${one.podHours.toFixed(1)}`,
    );
    say(`| ${policy} | ${cells.join(' | ')} |`);
  }
  return 0;
}

async function realRun(inputs: Inputs, machine: Machine, out: string | undefined): Promise<number> {
  const { rate, service, seeds, rule, slots, warmUpMs, endMs } = inputs;
  const plan: LoadPlan = { seed: seeds[0] ?? 1, rate, service };
  const jobs = planJobs(plan);
  const redisUrl = await machine.startRedis();
  machine.say(`${jobs.length} runs in ${inSeconds(endMs)} s, ${rule.min} to ${rule.max} workers of ${slots} slots`);
  const startWorker = () => machine.startWorker(redisUrl, slots, warmUpMs);
  const real = await runLocally({ jobs, rule, redisUrl, endMs, startWorker, say: machine.say });
  const record = recordOf({ plan, rule, slots, endMs }, real);
  machine.say(`workers took ${real.startMs.map(inSeconds).join(', ')} s to start; ${real.failed} runs failed`);
  machine.say(`real:      ${describe(record.figures.real)}`);
  machine.say(`simulated: ${describe(record.figures.simulated)}`);
  const apart = Object.entries(record.disagreement).map(([what, share]) => `${what} ${percent(share)}`);
  machine.say(`simulation against reality: ${apart.join(', ')}`);
  if (out) {
    writeFileSync(out, `${JSON.stringify(record)}\n`);
    machine.say(`written to ${out}`);
  }
  return real.failed === 0 ? 0 : 1;
}

function describe(figures: RunFigures): string {
  return [
    `wait p95 ${inSeconds(figures.waitP95Ms)} s`,
    `oldest job at most ${inSeconds(figures.maxAgeMs)} s, on average ${inSeconds(figures.meanAgeMs)} s`,
    `at most ${figures.mostPods} pods`,
    `${figures.podHours.toFixed(2)} pod-hours`,
  ].join(', ');
}

const inSeconds = (ms: number): string => (ms / 1_000).toFixed(1);
const percent = (share: number): string => `${share >= 0 ? '+' : ''}${(share * 100).toFixed(0)} %`;

function number(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`not a number: ${text}`);
  return value;
}
