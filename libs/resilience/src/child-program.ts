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

/**
 * Serves the jobs of a `ChildPool` in its child process, one at a time. Does nothing in a process that was not forked.
 * @param load the function that does a job, once its code is loaded; the time limit of the job starts then
 * @param maxResult largest result, in UTF-16 units of its JSON
 */
export function serveJobs<Job>(load: (job: Job) => Promise<() => unknown>, maxResult: number): void {
  if (!process.send) return;
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
