import { getPriority, setPriority } from 'node:os';
import { Worker } from 'node:worker_threads';

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
 * Lets other threads of this machine run before the calling one. For threads that work on what a caller sent: on a machine without a
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

/**
 * Serves the jobs of a `ChildPool` in its child process, one at a time. Does nothing in a process that was not forked.
 * @param load the function that does a job, once its code is loaded; the time limit of the job starts then
 * @param maxResult largest result, in UTF-16 units of its JSON
 */
export function serveJobs<Job>(load: (job: Job) => Promise<() => unknown>, maxResult: number): void {
  if (!process.send) return;
  yieldCpu();
  new Worker(WATCHDOG, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 8 }, execArgv: [] }).unref();
  process.on('message', ({ id, job }: { id: number; job: Job }) => {
    const begin = () => new Promise((resolve) => process.send?.({ id, begun: true }, resolve));
    void answer(job, load, begin, maxResult).then((outcome) => process.send?.({ id, ...outcome }));
  });
  process.on('disconnect', () => process.exit(0));
  process.send({ ready: true });
}

async function answer<Job>(
  job: Job,
  load: (job: Job) => Promise<() => unknown>,
  begin: () => Promise<unknown>,
  maxResult: number,
): Promise<{ value: string } | { error: string }> {
  try {
    const work = await load(job);
    await begin();
    const value = JSON.stringify((await work()) ?? null);
    if (value.length <= maxResult) return { value };
    return { error: `Result is larger than ${maxResult} characters: narrow the request` };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
