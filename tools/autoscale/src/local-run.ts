import { LocalAutoscaler, type Worker } from './local-autoscaler.js';
import type { PlannedJob } from './load-plan.js';
import { PYTHON_QUEUE, sleepingJob, type PythonJob } from './python-jobs.js';
import { QueueClient } from './queue-client.js';
import type { RunRecord, Sample } from './run-record.js';
import type { ScalingRule } from './scaling-rule.js';

/** A real run: its record, and the input of its simulation. */
export interface LocalRun extends RunRecord {
  /** Time each worker took from start to ready, in the order of starting. */
  startMs: number[];
  /** Time each job occupied its slot, in order of arrival. */
  serviceMs: number[];
  /** Answers that were an error. */
  failed: number;
}

/** Dependencies of a real run. */
export interface LocalRunOptions {
  jobs: readonly PlannedJob[];
  rule: ScalingRule;
  redisUrl: string;
  startWorker(): Worker;
  endMs: number;
  sampleMs?: number;
  say?(line: string): void;
}

/** Sends the jobs of a plan to real workers of python-sandbox at their planned times, whatever became of those before. */
export async function runLocally(options: LocalRunOptions): Promise<LocalRun> {
  const { jobs, rule, redisUrl, startWorker, endMs, sampleMs = 250, say } = options;
  const client = new QueueClient<PythonJob, { ok: boolean }>(redisUrl, PYTHON_QUEUE);
  await client.open();
  const scaler = new LocalAutoscaler({
    rule,
    look: () => client.look(),
    start: startWorker,
    ...(say ? { say } : {}),
  });
  const run = `run${process.pid}`;
  const samples: Sample[] = [];
  let isOver = false;
  try {
    await scaler.prepare();
    scaler.begin();
    const began = performance.now();
    const until = (atMs: number): Promise<void> =>
      new Promise((resolve) => setTimeout(resolve, Math.max(0, began + atMs - performance.now())));
    const sampling = (async () => {
      for (let atMs = 0; !isOver; atMs += sampleMs) {
        await until(atMs);
        const { oldestAgeMs: ageMs, waiting, running } = await client.look();
        samples.push({ atMs, ageMs, waiting, running, pods: scaler.pods });
      }
    })();
    const answers = await Promise.all(
      jobs.map(async ({ atMs, serviceMs }, index) => {
        await until(atMs);
        const answer = await client.submit(`${run}-${index}`, sleepingJob(`${run}-${index}`, index, serviceMs));
        return answer.ok;
      }),
    );
    await until(endMs);
    isOver = true;
    await sampling;
    const times = await Promise.all(jobs.map((_, index) => client.timesOf(`${run}-${index}`)));
    await scaler.stop();
    return {
      samples,
      waitsMs: times.map(({ waitMs }) => waitMs),
      serviceMs: times.map(({ serviceMs }) => serviceMs),
      podMs: scaler.podMs,
      startMs: scaler.startMs.filter((ms) => !Number.isNaN(ms)),
      failed: answers.filter((ok) => !ok).length,
    };
  } finally {
    isOver = true;
    await scaler.stop();
    await client.close();
  }
}
