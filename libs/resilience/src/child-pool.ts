import { fork, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ToolError, type ErrorCode, type Json, type Milliseconds } from '@toolfleet/contracts';
import { parseExact } from '@toolfleet/contracts/json-text';
import type { CancelTimer, Clock } from '@toolfleet/base';
import { FairQueue } from './fair-queue.js';

/** Lets a child load TypeScript source with imports that end in `.js`. */
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
   * may take up to five times as long; outside Linux time on the clock counts. Absent: only the signal ends the job.
   */
  timeoutMs?: Milliseconds;
  signal: AbortSignal;
  /** Tenants take turns. */
  tenant: string;
  /** Answers questions of the job to its parent; a refusal is the error of the question. */
  answer?: (name: string, args: unknown[]) => unknown;
}

interface WaitingJob {
  job: object;
  bounds: JobBounds;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

interface Child {
  process: ChildProcess;
  ready: boolean;
  /** The tenant of its jobs, or of its last one. */
  tenant?: string;
  /** The jobs that run, or that wait for the child to start or load code, by id. */
  jobs: Map<number, RunningJob>;
  stopIdleTimer?: CancelTimer;
}

interface RunningJob {
  waiting: WaitingJob;
  stopTimer: CancelTimer;
  hasBegun?: true;
  /** Its caller is gone. */
  isAborted?: true;
}

/** A message from a child. */
interface ChildAnswer {
  ready?: true;
  id?: number;
  /** The code of the job is loaded and its time runs. */
  begun?: true;
  value?: string;
  error?: string;
  /** A question of the job, by a number of its own. */
  ask?: number;
  name?: string;
  args?: unknown[];
}

/** How many times its limit a job may take when it has no core for all of that time. */
const MAX_STRETCH = 5;
/** Shortest time after which a job that has not had its time is looked at again. */
const LOOK_MS = 20;
/** Linux counts the time of threads in hundredths of a second. */
const TICK_MS = 10;
/** An idle child (about 50 MB) exits after this time. */
const IDLE_MS = 60_000;

/** The children of a pool. */
interface ChildPoolOptions {
  /** The program of a child: it calls `serveJobs` (see `childProgram`). */
  program: URL;
  /** Most concurrent children. */
  size: number;
  /** Most waiting jobs of a tenant. */
  maxWaiting: number;
  /** Heap of a child. */
  heapMb: number;
  /** Jobs of one tenant that a child does at the same time; default 1. For jobs that wait more than they compute. */
  jobsPerChild?: number;
  /** How long a job that is aborted may take to end before its child is killed, by the same measure as `timeoutMs`; default 0. */
  graceMs?: Milliseconds;
  /**
   * For programs that the pool does not know: a tenant with children that end by themselves or are killed waits before its next one starts,
   * each time twice as long.
   */
  restartPause?: { fromMs: Milliseconds; toMs: Milliseconds };
  /** Code of the error of a job with an ended child; default TOOL_ERROR. */
  endedCode?: ErrorCode;
  /** Environment of a child; default empty. */
  environment?: () => NodeJS.ProcessEnv;
  /** Where the output of a child goes; default nowhere. */
  output?: 'inherit' | 'ignore';
}

/** The answer to a job: by its `kind`, where answers are named by kinds. */
type AnswerTo<Job, Answers> = Job extends { kind: infer Kind extends keyof Answers } ? Answers[Kind] : Answers;

/**
 * Runs jobs of unpredictable cost (patterns, queries, diffs and schemas of callers, plugins) in child processes, and kills a child that
 * exceeds its time or memory. A timer or worker thread would not be enough: a backtracking pattern blocks the event loop,
 * and a thread that runs out of memory may abort the whole process. Children start on demand and stay for a while. Tenants take turns, and
 * the jobs of a tenant wait in order of arrival. A child does jobs of one tenant at a time, and one tenant uses at most all children but
 * one, so that a job of another tenant waits for no slow one. A tenant keeps the child that it had, so that it does not wait for the
 * start of one that a job of another tenant has ended. A pool of one child has only the turns: a job then waits for at most one job of
 * each other tenant.
 */
export class ChildPool<Job extends object, Answers = Json> {
  private readonly children = new Set<Child>();
  private readonly queue = new FairQueue<WaitingJob>();
  /** Tenants for whom no child starts for now, with the length of their pause. */
  private readonly pauses = new Map<string, { until: Milliseconds; ms: Milliseconds }>();
  private nextId = 1;
  private closed = false;

  constructor(
    private readonly clock: Clock,
    private readonly options: ChildPoolOptions,
  ) {}

  /**
   * Runs a job and returns the value of its JSON.
   * @throws ToolError TOOL_ERROR if the job fails or takes too long, MEMORY_EXCEEDED, or QUEUE_FULL if too many jobs of the
   * tenant are waiting; the signal's reason if it is aborted
   */
  run<J extends Job>(job: J, bounds: JobBounds): Promise<AnswerTo<J, Answers>> {
    const { signal, tenant } = bounds;
    if (signal.aborted) return Promise.reject(signal.reason);
    const { maxWaiting } = this.options;
    if (this.queue.waiting(tenant) >= maxWaiting) return Promise.reject(tooManyWaiting(maxWaiting));
    let leave = () => {};
    const outcome = new Promise<unknown>((resolve, reject) => {
      const waiting: WaitingJob = { job, bounds, resolve, reject };
      leave = () => this.abandon(waiting);
      signal.addEventListener('abort', leave, { once: true });
      this.queue.push(tenant, waiting);
      this.dispatch();
    });
    return outcome.finally(() => signal.removeEventListener('abort', leave)) as Promise<AnswerTo<J, Answers>>;
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
      const waiting = this.queue.shift((tenant) => this.childFor(tenant) !== undefined);
      if (!waiting) return;
      const { tenant } = waiting.bounds;
      const found = this.childFor(tenant);
      const child = found === 'new' || !found ? this.start() : found;
      child.tenant = tenant;
      child.stopIdleTimer?.();
      const id = this.nextId++;
      child.jobs.set(id, { waiting, stopTimer: () => {} });
      if (child.ready) child.process.send({ id, job: waiting.job });
    }
  }

  /**
   * The child of a tenant's next job: one that works for it and may do more at a time, else the one that it had, else a new one while there
   * is room, else the idle one of another tenant. A tenant with killed jobs starts its children itself and leaves others' alone.
   */
  private childFor(tenant: string): Child | 'new' | undefined {
    const children = [...this.children];
    const idle = children.filter(({ jobs }) => jobs.size === 0);
    const busy = children.filter((child) => child.tenant === tenant && child.jobs.size > 0);
    const { size, jobsPerChild = 1 } = this.options;
    const hasRoom = ({ jobs }: Child): boolean =>
      jobs.size < jobsPerChild && ![...jobs.values()].some(({ isAborted }) => isAborted);
    const shared = busy.find(hasRoom);
    if (shared) return shared;
    if (busy.length < Math.max(1, size - 1)) {
      const own = idle.find((child) => child.tenant === tenant);
      if (own) return own;
      if ((this.pauses.get(tenant)?.until ?? 0) <= this.clock.monotonic()) {
        if (children.length < size) return 'new';
        const other = idle.find(({ ready }) => ready) ?? idle[0];
        if (other) return other;
      }
    }
    return undefined;
  }

  /** Calls `end` once a child has had its time. */
  private limit({ process: { pid } }: Child, timeoutMs: Milliseconds, end: () => void): CancelTimer {
    const latest = this.clock.monotonic() + MAX_STRETCH * timeoutMs;
    const fromMs = mainThreadMs(pid);
    const look = (): void => {
      const leftMs = Math.min(timeoutMs - (mainThreadMs(pid) - fromMs), latest - this.clock.monotonic());
      // Also where the system does not tell.
      if (!(leftMs > 0)) return end();
      cancel = this.clock.after(Math.max(LOOK_MS, leftMs), look);
    };
    let cancel = this.clock.after(timeoutMs, look);
    return () => cancel();
  }

  private start(): Child {
    const { program, heapMb, environment, output = 'ignore' } = this.options;
    const process = fork(fileURLToPath(program), [], {
      execArgv: [`--max-old-space-size=${heapMb}`, ...programFlags(program)],
      env: environment?.() ?? {},
      // Documents have megabytes; JSON would escape them again.
      serialization: 'advanced',
      stdio: ['ignore', output, output, 'ipc'],
    });
    process.unref();
    process.channel?.unref();
    const child: Child = { process, ready: false, jobs: new Map() };
    this.children.add(child);
    process.on('message', (answer: ChildAnswer) => this.receive(child, answer));
    const ended = (reason: ToolError): void => {
      this.pause(child);
      this.kill(child, reason);
    };
    process.on('error', (error) => ended(this.endedAbnormally(error)));
    process.on('exit', (_code, signal) =>
      ended(signal === 'SIGABRT' ? outOfMemory(heapMb) : this.endedAbnormally(signal)),
    );
    return child;
  }

  private receive(child: Child, answer: ChildAnswer): void {
    if (answer.ready) {
      child.ready = true;
      for (const [id, { waiting }] of child.jobs) child.process.send({ id, job: waiting.job });
      return;
    }
    const { id = 0 } = answer;
    const running = child.jobs.get(id);
    if (!running) return;
    const { bounds, resolve, reject } = running.waiting;
    const { timeoutMs } = bounds;
    if (answer.begun) {
      running.hasBegun = true;
      // Loading its code does not count, because that may take seconds on a busy machine.
      if (timeoutMs !== undefined)
        running.stopTimer = this.limit(child, timeoutMs, () => this.kill(child, tooSlow(timeoutMs)));
    } else if (answer.ask === undefined) {
      running.stopTimer();
      child.jobs.delete(id);
      this.pauses.delete(bounds.tenant);
      if (answer.value === undefined) reject(new ToolError('TOOL_ERROR', { message: answer.error ?? 'Failed' }));
      else resolve(parseExact(answer.value).value);
      this.rest(child);
    } else {
      const { ask, name = '', args = [] } = answer;
      void Promise.resolve(bounds.answer?.(name, args)).then((value) => {
        if (child.process.connected) child.process.send({ id, ask, value });
      });
    }
  }

  /** Serves what waits; a child without a job exits in time. */
  private rest(child: Child): void {
    if (child.jobs.size === 0) child.stopIdleTimer = this.clock.after(IDLE_MS, () => this.kill(child, undefined));
    this.dispatch();
  }

  private abandon(waiting: WaitingJob): void {
    const reason: unknown = waiting.bounds.signal.reason;
    if (this.queue.remove(waiting.bounds.tenant, waiting)) return waiting.reject(reason);
    const { graceMs = 0 } = this.options;
    for (const child of this.children)
      for (const [id, running] of child.jobs) {
        if (running.waiting !== waiting) continue;
        waiting.reject(reason);
        if (graceMs === 0) return this.kill(child, reason);
        if (!child.ready) {
          child.jobs.delete(id);
          return this.rest(child);
        }
        running.isAborted = true;
        child.process.send({ id, abort: true });
        running.stopTimer();
        running.stopTimer = this.limit(child, graceMs, () => {
          this.pause(child);
          this.kill(child, this.endedAbnormally(reason));
        });
        return;
      }
  }

  private pause({ tenant }: Child): void {
    const { restartPause } = this.options;
    if (!restartPause || tenant === undefined) return;
    const last = this.pauses.get(tenant)?.ms;
    const ms = last === undefined ? restartPause.fromMs : Math.min(restartPause.toMs, 2 * last);
    const pause = { until: this.clock.monotonic() + ms, ms };
    this.pauses.set(tenant, pause);
    this.clock.after(ms, () => this.dispatch());
    // A tenant that has been quiet for as long as the longest pause begins again.
    this.clock.after(ms + restartPause.toMs, () => {
      if (this.pauses.get(tenant) === pause) this.pauses.delete(tenant);
    });
  }

  private endedAbnormally(cause: unknown): ToolError {
    return new ToolError(this.options.endedCode ?? 'TOOL_ERROR', {
      message: 'The computation ended unexpectedly',
      cause,
    });
  }

  private kill(child: Child, reason: unknown): void {
    if (!this.children.delete(child)) return;
    child.stopIdleTimer?.();
    const jobs = [...child.jobs.values()];
    const isFault = !this.closed && jobs.some(({ hasBegun }) => hasBegun);
    for (const { stopTimer, waiting, hasBegun, isAborted } of jobs) {
      stopTimer();
      // One that has not begun does not end with the one that has: it begins elsewhere.
      if (isFault && !hasBegun && !isAborted) this.queue.push(waiting.bounds.tenant, waiting);
      else waiting.reject(reason);
    }
    child.jobs.clear();
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

function tooSlow(timeoutMs: Milliseconds): ToolError {
  const message = `Took longer than ${timeoutMs} ms: simplify the pattern or query`;
  return new ToolError('TOOL_ERROR', { message, details: { limit_ms: timeoutMs }, facts: { reason: 'too_slow' } });
}

function outOfMemory(heapMb: number): ToolError {
  return new ToolError('MEMORY_EXCEEDED', { message: `Needs more than ${heapMb} MB: use smaller input` });
}
