/**
 * A BullMQ worker that asks for a further job only if one may wait. BullMQ's scripts leave a marker for it with each job that they give
 * away, without looking: after each job that came alone, a worker asked twice for nothing, or woke another worker to ask. Here the same
 * scripts say that a job was the last one (`lua/forget-marker.lua`), and the worker waits for the next marker at once.
 */
import { readFileSync } from 'node:fs';
import { Worker, type IRedisClient, type Job, type Processor, type WorkerOptions } from 'bullmq';

const FORGET_MARKER = readFileSync(new URL('../lua/forget-marker.lua', import.meta.url), 'utf8');
/** BullMQ's scripts that give a job to a worker, with the number of their keys. */
const GIVING = { moveToActive: 11, moveToFinished: 14 };
/** Seconds after a job is due at which a worker without a slot for it looks. */
const LATER_S = 0.05;

/** The part of ioredis that keeps the defined scripts. */
interface WithScripts {
  scriptsSet: Record<string, { lua: string } | undefined>;
}

export class TakingWorker<D, R> extends Worker<D, R> {
  /** Id of the latest job that was the last one when this worker got it. */
  #lastId: string | undefined;

  /** @param hasPutBack whether it has no slot for jobs that it took before */
  constructor(
    name: string,
    processor: Processor<D, R>,
    options: WorkerOptions,
    private readonly hasPutBack: () => boolean,
  ) {
    super(name, processor, options);
    const backend = this.getBackend();
    const run = backend.execCommand.bind(backend);
    backend.execCommand = async (client, command, args) => {
      if (command !== 'moveToActive' && command !== 'moveToFinished') return run(client, command, args);
      const script = `${command}ForgettingMarker`;
      define(client as IRedisClient, { script, command, keys: GIVING[command] });
      const taken: unknown = await (client as IRedisClient).runCommand(script, args);
      if (Array.isArray(taken) && taken[4] === 1) this.#lastId = String(taken[1]);
      return taken;
    };
  }

  /** @returns seconds; the worker looks for jobs when they are over */
  protected override getBlockTimeout(dueAt: number): number {
    const timeout = super.getBlockTimeout(dueAt);
    return dueAt && this.hasPutBack() ? Math.max(0, timeout) + LATER_S : timeout;
  }

  /** BullMQ waits for a marker when it has seen the queue empty. */
  protected override async nextJobFromJobData(
    ...[data, jobId, token]: Parameters<Worker<D, R>['nextJobFromJobData']>
  ): Promise<Job<D, R>> {
    const job = await super.nextJobFromJobData(data, jobId, token);
    if (job && jobId === this.#lastId) Object.assign(this, { drained: true });
    return job;
  }
}

/** Defines a script once per connection, after BullMQ has defined its own. */
function define(
  redis: IRedisClient,
  { script, command, keys }: { script: string; command: string; keys: number },
): void {
  const { scriptsSet } = redis as unknown as WithScripts;
  if (scriptsSet[script]) return;
  // Its name has the version of BullMQ.
  const [, bullmqScript] = Object.entries(scriptsSet).find(([name]) => name.startsWith(`${command}:`)) ?? [];
  if (!bullmqScript) throw new Error(`BullMQ defines no script ${command}; its version is not supported`);
  const lua = `local taken = (function()\n${bullmqScript.lua}\nend)()\n${FORGET_MARKER}`;
  redis.defineCommand(script, { numberOfKeys: keys, lua });
}
