import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ToolError, type Json } from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { BoundedJob } from './bounded-child.js';
import { FairQueue } from './fair-queue.js';

/** Specs run the source, everything else the build: the extension is that of this very file. */
const FROM_SOURCE = import.meta.url.endsWith('.ts');

/** Lets a child load TypeScript whose imports end in `.js`. */
const SOURCE_HOOK = `import { registerHooks } from 'node:module';
registerHooks({ resolve(name, context, next) {
  try { return next(name, context); } catch (error) {
    if (!name.endsWith('.js')) throw error;
    return next(name.slice(0, -3) + '.ts', context);
  }
} });`;

/** The program of a child, beside this file. */
export function childEntry(): URL {
  return new URL(`./bounded-child${FROM_SOURCE ? '.ts' : '.js'}`, import.meta.url);
}

/** Flags of Node a child needs to load its program; none for the build. */
export function childFlags(): string[] {
  if (!FROM_SOURCE) return [];
  const hook = `data:text/javascript,${encodeURIComponent(SOURCE_HOOK)}`;
  return [
    '--conditions=source',
    '--experimental-transform-types',
    '--disable-warning=ExperimentalWarning',
    '--import',
    hook,
  ];
}

/** Bounds of one job. */
export interface JobBounds {
  /** Longest run in ms; the start of a child and the loading of its code are not counted. */
  timeoutMs: number;
  signal: AbortSignal;
  /** For whom: tenants take turns. */
  tenant: string;
}

/** Bounds that come with a call. */
export function boundsOf(run: { signal: AbortSignal; context: ExecContext }): Omit<JobBounds, 'timeoutMs'> {
  return { signal: run.signal, tenant: run.context.tenant_id };
}

interface Waiting {
  job: BoundedJob;
  bounds: JobBounds;
  resolve: (value: Json) => void;
  reject: (error: unknown) => void;
}

interface Child {
  process: ChildProcess;
  ready: boolean;
  /** Set while a job runs or waits for the child's start or code. */
  busy?: { waiting: Waiting; id: number; stopTimer: CancelTimer };
  stopIdleTimer?: CancelTimer;
}

interface Answer {
  ready?: true;
  id?: number;
  /** The code of the job is loaded. */
  begun?: true;
  value?: string;
  fault?: string;
}

/** Heap of one child. An answer is at most 4 MiB; the rest is room for intermediate values. */
const HEAP_MB = 320;
/** Jobs of one tenant that may wait: each holds one of the 256 calls its process serves at once, and others need some. */
const MOST_WAITING = 128;
/** An unused child costs some 50 MB: it ends after this long. */
const IDLE_MS = 60_000;

/**
 * Runs jobs of unknowable cost (patterns, queries, diffs, schemas of the caller's own) in child processes and kills one that
 * exceeds its time or memory. Nothing less holds: a backtracking pattern blocks the event loop, and a worker thread
 * that runs out of memory may abort the whole process with it. Children start when first needed, without
 * environment, and stay for a while. When all are busy, tenants take turns, and the jobs of one wait in order of arrival.
 */
export class BoundedWork {
  private readonly children = new Set<Child>();
  private readonly queue = new FairQueue<Waiting>();
  private nextId = 1;
  private closed = false;

  constructor(
    private readonly clock: Clock,
    /** Most children. */
    private readonly size = 2,
    private readonly mostWaiting = MOST_WAITING,
  ) {}

  /**
   * Result of a job as JSON.
   * @throws ToolError TOOL_ERROR when the job failed or took too long, MEMORY_EXCEEDED, QUEUE_FULL when too many jobs of the
   * tenant wait; the signal's reason when aborted
   */
  run(job: BoundedJob, bounds: JobBounds): Promise<Json> {
    const { signal, tenant } = bounds;
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.queue.waiting(tenant) >= this.mostWaiting) return Promise.reject(tooManyWait(this.mostWaiting));
    const outcome = Promise.withResolvers<Json>();
    const waiting: Waiting = { job, bounds, resolve: outcome.resolve, reject: outcome.reject };
    const leave = () => this.abandon(waiting);
    signal.addEventListener('abort', leave, { once: true });
    this.queue.push(tenant, waiting);
    this.dispatch();
    return outcome.promise.finally(() => signal.removeEventListener('abort', leave));
  }

  /** Ends all children; jobs in flight fail. */
  close(): void {
    this.closed = true;
    const reason = new ToolError('CANCELLED', { message: 'The service is stopping' });
    for (const waiting of this.queue.drain()) waiting.reject(reason);
    for (const child of this.children) this.kill(child, reason);
  }

  private dispatch(): void {
    while (!this.closed) {
      const free = [...this.children].find((child) => !child.busy);
      if (!free && this.children.size >= this.size) return;
      const waiting = this.queue.shift();
      if (!waiting) return;
      const child = free ?? this.start();
      child.stopIdleTimer?.();
      child.busy = { waiting, id: this.nextId++, stopTimer: () => {} };
      if (child.ready) this.send(child);
    }
  }

  private send(child: Child): void {
    const { busy } = child;
    if (busy) child.process.send({ id: busy.id, job: busy.waiting.job });
  }

  /** The time of a job runs from here: a busy machine may take seconds to load the code of a reader. */
  private limit(child: Child, { timeoutMs }: JobBounds): CancelTimer {
    return this.clock.after(timeoutMs, () => {
      const message = `Took longer than ${timeoutMs} ms: simplify the pattern or query`;
      this.kill(child, new ToolError('TOOL_ERROR', { message, details: { limit_ms: timeoutMs } }));
    });
  }

  private start(): Child {
    const process = fork(fileURLToPath(childEntry()), [], {
      execArgv: [`--max-old-space-size=${HEAP_MB}`, ...childFlags()],
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    process.unref();
    process.channel?.unref();
    const child: Child = { process, ready: false };
    this.children.add(child);
    process.on('message', (answer: Answer) => this.receive(child, answer));
    process.on('error', (error) => this.kill(child, endedAbnormally(error)));
    process.on('exit', (_code, signal) =>
      this.kill(child, signal === 'SIGABRT' ? outOfMemory() : endedAbnormally(signal)),
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
      busy.waiting.reject(new ToolError('TOOL_ERROR', { message: answer.fault ?? 'Failed' }));
    else busy.waiting.resolve(JSON.parse(answer.value) as Json);
    child.stopIdleTimer = this.clock.after(IDLE_MS, () => this.kill(child, undefined));
    this.dispatch();
  }

  private abandon(waiting: Waiting): void {
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

function tooManyWait(most: number): ToolError {
  return new ToolError('QUEUE_FULL', {
    message: `${most} calls of yours wait for this kind of work already`,
    retryAfterMs: 1_000,
  });
}

function outOfMemory(): ToolError {
  return new ToolError('MEMORY_EXCEEDED', { message: `Needs more than ${HEAP_MB} MB: use smaller input` });
}

function endedAbnormally(cause: unknown): ToolError {
  return new ToolError('TOOL_ERROR', { message: 'The computation ended abnormally', cause });
}
