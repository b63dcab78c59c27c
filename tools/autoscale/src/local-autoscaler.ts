import { PodCount, type QueueLook, type ScalingRule } from './scaling-rule.js';

/** A worker process. */
export interface Worker {
  /** Resolves when it takes jobs, rejects when it ends before. */
  ready(): Promise<void>;
  /** Asks it to finish its work and end (SIGTERM); resolves with its exit code. */
  end(): Promise<number | null>;
}

/** Dependencies of a local autoscaler. */
export interface LocalAutoscalerOptions {
  rule: ScalingRule;
  look(): Promise<QueueLook>;
  start(): Worker;
  /** Receives each change and each problem; default: none. */
  say?(line: string): void;
}

/** Starts and ends real processes by the rule that Kubernetes would apply to pods. */
export class LocalAutoscaler {
  /** Time from start to ready of each worker, in the order of starting. */
  readonly startMs: number[] = [];
  /** Exit codes of the workers that were asked to end. */
  readonly exitCodes: (number | null)[] = [];
  /** Time of all workers from start to end, so far. */
  podMs = 0;
  readonly #workers: { worker: Worker; born: number }[] = [];
  readonly #ending: Promise<void>[] = [];
  readonly #count: PodCount;
  #timer: NodeJS.Timeout | undefined;
  #syncs = 0;
  #began = 0;

  constructor(private readonly options: LocalAutoscalerOptions) {
    this.#count = new PodCount(options.rule);
  }

  /** Workers wanted; one that starts is among them, one that ends is not. */
  get pods(): number {
    return this.#workers.length;
  }

  /** Starts the least number of workers and waits until they take jobs. */
  async prepare(): Promise<void> {
    while (this.pods < this.options.rule.min) this.#start();
    await Promise.all(this.#workers.map(({ worker }) => worker.ready()));
    this.startMs.length = 0;
  }

  /** Begins to look at the queue. */
  begin(): void {
    this.#began = performance.now();
    for (const one of this.#workers) one.born = this.#began;
    this.#waitForSync();
  }

  /** Ends every worker, each with its jobs finished. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    for (const { worker, born } of this.#workers.splice(0)) this.#end(worker, born);
    await Promise.all(this.#ending);
  }

  #waitForSync(): void {
    this.#syncs += 1;
    const dueIn = this.#began + this.#syncs * this.options.rule.syncMs - performance.now();
    this.#timer = setTimeout(() => void this.#sync(), Math.max(0, dueIn));
  }

  async #sync(): Promise<void> {
    try {
      const look = await this.options.look();
      const wanted = this.#count.next(performance.now() - this.#began, this.pods, look);
      if (wanted !== this.pods) {
        this.options.say?.(`${look.waiting} waiting, ${look.running} running: ${this.pods} → ${wanted} workers`);
      }
      while (this.pods < wanted) this.#start();
      for (const { worker, born } of this.#workers.splice(wanted)) this.#end(worker, born);
    } catch (error) {
      this.options.say?.(`the queue could not be read: ${String(error)}`);
    }
    this.#waitForSync();
  }

  #start(): void {
    const worker = this.options.start();
    const born = performance.now();
    const place = this.startMs.push(Number.NaN) - 1;
    this.#workers.push({ worker, born });
    worker.ready().then(
      () => {
        if (place < this.startMs.length) this.startMs[place] = performance.now() - born;
      },
      (error: unknown) => this.options.say?.(`a worker did not start: ${String(error)}`),
    );
  }

  #end(worker: Worker, born: number): void {
    const ended = worker.end().then((code) => {
      this.exitCodes.push(code);
      this.podMs += performance.now() - born;
    });
    this.#ending.push(ended);
  }
}
