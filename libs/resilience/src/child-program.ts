import { getPriority, setPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import { toExactJson } from '@toolfleet/contracts/json-text';

/**
 * A killed parent cannot kill its child, and a child in a runaway pattern does not process events. This thread detects that
 * the parent has changed.
 */
const WATCHDOG = `const parent = process.ppid;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
for (;;) {
  Atomics.wait(sleeper, 0, 0, 500);
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
}`;

/** With this niceness work still gets a quarter of a core that it shares with an event loop. */
const NICENESS = 5;
const MAX_NICENESS = 19;

/**
 * Lets other threads of this machine run before the calling one. For threads that work on callers' data: on a machine without a
 * free core, the event loop that answers all callers would get no more time than they do. Does nothing outside Linux, where the
 * priority belongs to the process.
 */
export function yieldCpu(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(Math.min(MAX_NICENESS, getPriority() + NICENESS));
  } catch {
    // A sandbox that forbids the call: the work runs at the usual priority.
  }
}

/** The parent of a job. */
export interface JobContext {
  /** Aborted when the caller of the job is gone. */
  signal: AbortSignal;
  /** Asks the parent; it answers by `JobBounds.answer`. Never rejects. */
  ask: (name: string, args: unknown[]) => Promise<unknown>;
}

/** A message of the parent: a job, its end, or the answer to a question of it. */
interface ParentMessage<Job> {
  id: number;
  job?: Job;
  abort?: true;
  ask?: number;
  value?: unknown;
}

/**
 * Serves the jobs of a `ChildPool` in its child process. Does nothing in a process that was not forked.
 * @param load the function that does a job, once its code is loaded; the time limit of the job starts then
 * @param maxResult largest result, in UTF-16 units of its JSON
 */
export function serveJobs<Job>(
  load: (job: Job, context: JobContext) => Promise<() => unknown>,
  maxResult: number,
): void {
  if (!process.send) return;
  yieldCpu();
  new Worker(WATCHDOG, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 8 }, execArgv: [] }).unref();
  const jobs = new Map<number, AbortController>();
  const asked = new Map<number, (value: unknown) => void>();
  let questions = 0;
  process.on('message', ({ id, job, abort, ask, value }: ParentMessage<Job>) => {
    if (abort) return jobs.get(id)?.abort();
    if (ask !== undefined) {
      asked.get(ask)?.(value);
      asked.delete(ask);
    }
    if (job === undefined) return;
    const controller = new AbortController();
    jobs.set(id, controller);
    const context: JobContext = {
      signal: controller.signal,
      ask: (name, args) =>
        new Promise((resolve) => {
          asked.set((questions += 1), resolve);
          process.send?.({ id, ask: questions, name, args });
        }),
    };
    const begin = () => new Promise((resolve) => process.send?.({ id, begun: true }, resolve));
    void answer(() => load(job, context), begin, maxResult).then((outcome) => {
      jobs.delete(id);
      process.send?.({ id, ...outcome });
    });
  });
  process.on('disconnect', () => process.exit(0));
  process.send({ ready: true });
}

async function answer(
  load: () => Promise<() => unknown>,
  begin: () => Promise<unknown>,
  maxResult: number,
): Promise<{ value: string } | { error: string }> {
  try {
    const work = await load();
    await begin();
    const value = toExactJson((await work()) ?? null);
    if (value.length <= maxResult) return { value };
    return { error: `Result is larger than ${maxResult} characters: narrow the request` };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
