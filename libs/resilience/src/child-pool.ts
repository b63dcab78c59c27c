import { fork, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ToolError, type Json } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from './clock.js';
import { FairQueue } from './fair-queue.js';

/** Lets a child load TypeScript source whose imports end in `.js`. */
const SOURCE_HOOK = `import { registerHooks } from 'node:module';
registerHooks({ resolve(name, context, next) {
  try { return next(name, context); } catch (error) {
    if (!name.endsWith('.js')) throw error;
    return next(name.slice(0, -3) + '.ts', context);
  }
} });`;

/**
 * The program `<name>.js` next to a module, or its source where the module is source, as in specs.
 * @param module `import.meta.url` of the module
 */
export function childProgram(module: string, name: string): URL {
  return new URL(`./${name}${module.endsWith('.ts') ? '.ts' : '.js'}`, module);
}

/** Node flags that a child process or thread needs to load its program; none for the build. */
export function programFlags(program: URL): string[] {
  if (!program.pathname.endsWith('.ts')) return [];
  const hook = `data:text/javascript,${encodeURIComponent(SOURCE_HOOK)}`;
  return [
    '--conditions=@toolfleet/source',
    '--experimental-transform-types',
    '--disable-warning=ExperimentalWarning',
    '--import',
    hook,
  ];
}

/** Limits of a job. */
export interface JobBounds {
  /**
   * Longest run in ms of a core, without the start of a child and the loading of its code. On a machine that is busy with other work it
   * may take up to five times as long; outside Linux time on the clock counts.
   */
  timeoutMs: number;
  signal: AbortSignal;
  /** Tenants take turns. */
  tenant: string;
}

interface WaitingJob {
  job: object;
  bounds: JobBounds;
  resolve: (value: Json) => void;
  reject: (error: unknown) => void;
}

interface Child {
  process: ChildProcess;
  ready: boolean;
  /** The tenant of its last job. */
  tenant?: string;
  /** The job that runs, or that waits for the child to start or load code. */
  busy?: { waiting: WaitingJob; id: number; stopTimer: CancelTimer };
  stopIdleTimer?: CancelTimer;
}

/** A message from a child. */
interface Answer {
  ready?: true;
  id?: number;
  /** The code of the job is loaded and its time runs. */
  begun?: true;
  value?: string;
  error?: string;
}

/** How many times its limit a job may take when it has no core for all of that time. */
const MAX_STRETCH = 5;
/** Shortest time after which a job that has not had its time is looked at again. */
const LOOK_MS = 20;
/** Linux counts the time of threads in hundredths of a second. */
const TICK_MS = 10;
/** An idle child, which takes about 50 MB, exits after this time. */
const IDLE_MS = 60_000;

/** The children of a pool. */
interface ChildPoolOptions {
  /** The program of a child, which calls `serveJobs` (see `childProgram`). */
  program: URL;
  /** Most concurrent children. */
  size: number;
  /** Most waiting jobs of a tenant. */
  maxWaiting: number;
  /** Heap of a child. */
  heapMb: number;
}

/**
 * Runs jobs of unpredictable cost (patterns, queries, diffs and schemas of callers) in child processes, and kills a child that
 * exceeds its time or memory. A timer or worker thread would not be enough: a backtracking pattern blocks the event loop,
 * and a thread that runs out of memory may abort the whole process. Children start on demand, without environment, and stay
 * for a while. Tenants take turns, and the jobs of a tenant wait in order of arrival. One tenant uses at most all children but one,
 * so that a job of another tenant waits for no slow one, and a tenant keeps the child that it had, so that it does not wait for the
 * start of one that a job of another tenant has ended. A pool of one child has only the turns: a job then waits for at most one job of
 * each other tenant.
 */
export class ChildPool<Job extends object> {
  private readonly children = new Set<Child>();
  private readonly queue = new FairQueue<WaitingJob>();
  private nextId = 1;
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly options: ChildPoolOptions,
  ) {}

  /**
   * Runs a job and returns its result as JSON.
   * @throws ToolError TOOL_ERROR if the job fails or takes too long, MEMORY_EXCEEDED, or QUEUE_FULL if too many jobs of the
   * tenant are waiting; the signal's reason if it is aborted
   */
  run(job: Job, bounds: JobBounds): Promise<Json> {
    const { signal, tenant } = bounds;
    if (signal.aborted) return Promise.reject(signal.reason);
    const { maxWaiting } = this.options;
    if (this.queue.waiting(tenant) >= maxWaiting) return Promise.reject(tooManyWaiting(maxWaiting));
    let leave = () => {};
    const outcome = new Promise<Json>((resolve, reject) => {
      const waiting: WaitingJob = { job, bounds, resolve, reject };
      leave = () => this.abandon(waiting);
      signal.addEventListener('abort', leave, { once: true });
      this.queue.push(tenant, waiting);
      this.dispatch();
    });
    return outcome.finally(() => signal.removeEventListener('abort', leave));
  }

  /** Kills all children; jobs in progress fail. */
  close(): void {
    this.closed = true;
    const reason = new ToolError('CANCELLED', { message: 'The service is stopping' });
    for (const waiting of this.queue.drain()) waiting.reject(reason);
    for (const child of this.children) this.kill(child, reason);
  }

  private dispatch(): void {
    while (!this.closed) {
      const idle = [...this.children].filter(({ busy }) => !busy);
      if (idle.length === 0 && this.children.size >= this.options.size) return;
      const waiting = this.queue.shift((tenant) => this.mayRun(tenant));
      if (!waiting) return;
      const { tenant } = waiting.bounds;
      const child = this.childFor(tenant, idle);
      child.tenant = tenant;
      child.stopIdleTimer?.();
      child.busy = { waiting, id: this.nextId++, stopTimer: () => {} };
      if (child.ready) this.send(child);
    }
  }

  /**
   * The child of a tenant's next job: the one that it had, else a new one while there is room. A tenant whose jobs are killed starts its
   * children itself and leaves those of others alone.
   */
  private childFor(tenant: string, idle: readonly Child[]): Child {
    const own = idle.find((child) => child.tenant === tenant);
    if (own || this.children.size < this.options.size) return own ?? this.start();
    return idle.find(({ ready }) => ready) ?? idle[0]!;
  }

  private mayRun(tenant: string): boolean {
    const most = Math.max(1, this.options.size - 1);
    let running = 0;
    for (const { busy } of this.children) if (busy?.waiting.bounds.tenant === tenant) running += 1;
    return running < most;
  }

  private send(child: Child): void {
    const { busy } = child;
    if (busy) child.process.send({ id: busy.id, job: busy.waiting.job });
  }

  /** Starts the time limit of a job. Loading its code does not count, because that may take seconds on a busy machine. */
  private limit(child: Child, { timeoutMs }: JobBounds): CancelTimer {
    const { pid } = child.process;
    const latest = this.clock.monotonic() + MAX_STRETCH * timeoutMs;
    const fromMs = mainThreadMs(pid);
    const look = (): void => {
      const leftMs = Math.min(timeoutMs - (mainThreadMs(pid) - fromMs), latest - this.clock.monotonic());
      // Also where the system does not tell.
      if (!(leftMs > 0)) return end();
      cancel = this.clock.after(Math.max(LOOK_MS, leftMs), look);
    };
    const end = (): void => {
      const message = `Took longer than ${timeoutMs} ms: simplify the pattern or query`;
      this.kill(
        child,
        new ToolError('TOOL_ERROR', { message, details: { limit_ms: timeoutMs }, facts: { reason: 'too_slow' } }),
      );
    };
    let cancel = this.clock.after(timeoutMs, look);
    return () => cancel();
  }

  private start(): Child {
    const { program, heapMb } = this.options;
    const process = fork(fileURLToPath(program), [], {
      execArgv: [`--max-old-space-size=${heapMb}`, ...programFlags(program)],
      env: {},
      // Documents have megabytes; JSON would escape them again.
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    process.unref();
    process.channel?.unref();
    const child: Child = { process, ready: false };
    this.children.add(child);
    process.on('message', (answer: Answer) => this.receive(child, answer));
    process.on('error', (error) => this.kill(child, endedAbnormally(error)));
    process.on('exit', (_code, signal) =>
      this.kill(child, signal === 'SIGABRT' ? outOfMemory(heapMb) : endedAbnormally(signal)),
    );
    return child;
  }

  private receive(child: Child, answer: Answer): void {
    if (answer.ready) {
      child.ready = true;
      return this.send(child);
    }
    const { busy } = child;
    if (!busy || busy.id !== answer.id) return;
    if (answer.begun) {
      busy.stopTimer = this.limit(child, busy.waiting.bounds);
      return;
    }
    busy.stopTimer();
    delete child.busy;
    if (answer.value === undefined)
      busy.waiting.reject(new ToolError('TOOL_ERROR', { message: answer.error ?? 'Failed' }));
    else busy.waiting.resolve(JSON.parse(answer.value) as Json);
    child.stopIdleTimer = this.clock.after(IDLE_MS, () => this.kill(child, undefined));
    this.dispatch();
  }

  private abandon(waiting: WaitingJob): void {
    const reason: unknown = waiting.bounds.signal.reason;
    if (this.queue.remove(waiting.bounds.tenant, waiting)) return waiting.reject(reason);
    for (const child of this.children) if (child.busy?.waiting === waiting) this.kill(child, reason);
  }

  private kill(child: Child, reason: unknown): void {
    if (!this.children.delete(child)) return;
    child.stopIdleTimer?.();
    child.busy?.stopTimer();
    child.busy?.waiting.reject(reason);
    delete child.busy;
    child.process.kill('SIGKILL');
    this.dispatch();
  }
}

/** Time that the main thread of a process has had a core, in ms; NaN where the system does not tell. */
function mainThreadMs(pid: number | undefined): number {
  try {
    // Fields 14 and 15; the name of the program before them may have spaces.
    const fields = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return TICK_MS * (Number(fields[11]) + Number(fields[12]));
  } catch {
    return Number.NaN;
  }
}

function tooManyWaiting(most: number): ToolError {
  return new ToolError('QUEUE_FULL', {
    message: `${most} of your calls are already waiting for this kind of work: retry later`,
    retryAfterMs: 1_000,
  });
}

function outOfMemory(heapMb: number): ToolError {
  return new ToolError('MEMORY_EXCEEDED', { message: `Needs more than ${heapMb} MB: use smaller input` });
}

function endedAbnormally(cause: unknown): ToolError {
  return new ToolError('TOOL_ERROR', { message: 'The computation ended unexpectedly', cause });
}
