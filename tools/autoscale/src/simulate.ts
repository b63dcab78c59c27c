import { EventQueue } from './event-queue.js';
import type { PlannedJob } from './load-plan.js';
import type { RunRecord, Sample } from './run-record.js';
import { PodCount, type QueueLook, type ScalingRule } from './scaling-rule.js';

/** Where the jobs of a plan meet pods. */
export interface World {
  rule: ScalingRule;
  /** Jobs a pod works on at once. */
  slots: number;
  /** From the wish for a pod to its first job: one time for all, or one for each pod in the order of starting. */
  startMs: number | readonly number[];
  /** Age of the autoscaler's figures: scraping and polling. Less than a sync. */
  lagMs?: number;
  /** Step of the samples. Default 250. */
  sampleMs?: number;
  /** The run ends then, or with its last job if that is later. */
  endMs: number;
}

interface Pod {
  born: number;
  isReady: boolean;
  /** Takes no more jobs and ends with those it has. */
  isLeaving: boolean;
  busy: number;
}

/** Runs a plan through a model of queue, pods and autoscaler. The same plan gives the same run. */
export function simulate(jobs: readonly PlannedJob[], world: World): RunRecord {
  return new Simulation(jobs, world).run();
}

class Simulation {
  readonly #events = new EventQueue();
  readonly #waiting: number[] = [];
  readonly #pods: Pod[] = [];
  readonly #samples: Sample[] = [];
  readonly #waitsMs: number[];
  readonly #count: PodCount;
  #now = 0;
  #left: number;
  #started = 0;
  #podMs = 0;
  #seen: QueueLook = { waiting: 0, running: 0, oldestAgeMs: 0 };

  constructor(
    private readonly jobs: readonly PlannedJob[],
    private readonly world: World,
  ) {
    this.#count = new PodCount(world.rule);
    this.#left = jobs.length;
    this.#waitsMs = Array.from({ length: jobs.length }, () => 0);
  }

  run(): RunRecord {
    const { rule, lagMs = 0, sampleMs = 250, endMs } = this.world;
    for (let pod = 0; pod < rule.min; pod += 1) this.#pods.push({ born: 0, isReady: true, isLeaving: false, busy: 0 });
    for (const [index, { atMs }] of this.jobs.entries()) this.#events.add(atMs, () => this.#arrive(index));
    this.#every(sampleMs, 0, () => this.#sample());
    this.#every(rule.syncMs, rule.syncMs - lagMs, () => (this.#seen = this.#look()));
    this.#every(rule.syncMs, rule.syncMs, () => this.#scale());
    for (let event = this.#events.take(); event; event = this.#events.take()) {
      if (this.#left === 0 && event.at > endMs) break;
      this.#now = event.at;
      event.happen();
    }
    for (const pod of this.#pods) this.#podMs += this.#now - pod.born;
    return { samples: this.#samples, waitsMs: this.#waitsMs, podMs: this.#podMs };
  }

  #every(stepMs: number, firstMs: number, happen: () => void): void {
    const again = (at: number): void =>
      this.#events.add(at, () => {
        happen();
        again(at + stepMs);
      });
    again(firstMs);
  }

  #arrive(index: number): void {
    this.#waiting.push(index);
    this.#hand();
  }

  /** Gives waiting jobs to free slots, the oldest first. */
  #hand(): void {
    while (this.#waiting.length > 0) {
      const pod = this.#pods.find((one) => one.isReady && !one.isLeaving && one.busy < this.world.slots);
      if (!pod) return;
      const index = this.#waiting.shift() as number;
      const { atMs, serviceMs } = this.jobs[index] as PlannedJob;
      this.#waitsMs[index] = this.#now - atMs;
      pod.busy += 1;
      this.#events.add(this.#now + serviceMs, () => {
        pod.busy -= 1;
        this.#left -= 1;
        this.#endIfEmpty(pod);
        this.#hand();
      });
    }
  }

  #scale(): void {
    const staying = this.#pods.filter(({ isLeaving }) => !isLeaving);
    const wanted = this.#count.next(this.#now, staying.length, this.#seen);
    for (let more = staying.length; more < wanted; more += 1) this.#start();
    // The youngest leave first: those that never became ready, then those that hold the least.
    for (const pod of staying.slice(wanted)) {
      pod.isLeaving = true;
      this.#endIfEmpty(pod);
    }
  }

  #start(): void {
    const { startMs } = this.world;
    const pod: Pod = { born: this.#now, isReady: false, isLeaving: false, busy: 0 };
    const takes = typeof startMs === 'number' ? startMs : (startMs[this.#started] ?? startMs.at(-1) ?? 0);
    this.#started += 1;
    this.#pods.push(pod);
    this.#events.add(this.#now + takes, () => {
      pod.isReady = true;
      this.#hand();
    });
  }

  #endIfEmpty(pod: Pod): void {
    if (!pod.isLeaving || pod.busy > 0) return;
    this.#pods.splice(this.#pods.indexOf(pod), 1);
    this.#podMs += this.#now - pod.born;
  }

  #look(): QueueLook {
    const oldest = this.#waiting[0];
    return {
      waiting: this.#waiting.length,
      running: this.#pods.reduce((sum, { busy }) => sum + busy, 0),
      oldestAgeMs: oldest === undefined ? 0 : this.#now - (this.jobs[oldest] as PlannedJob).atMs,
    };
  }

  #sample(): void {
    const { waiting, running, oldestAgeMs } = this.#look();
    const pods = this.#pods.filter(({ isLeaving }) => !isLeaving).length;
    this.#samples.push({ atMs: this.#now, ageMs: oldestAgeMs, waiting, running, pods });
  }
}
