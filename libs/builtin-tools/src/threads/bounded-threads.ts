import { Worker } from 'node:worker_threads';
import { ToolError, type Json } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { ThreadJob } from './bounded-thread.js';

/** Bounds of one job. */
export interface ThreadBounds {
  /** Longest run in ms, start of the thread not counted. */
  timeoutMs: number;
  signal: AbortSignal;
}

interface Waiting {
  job: ThreadJob;
  bounds: ThreadBounds;
  resolve: (value: Json) => void;
  reject: (error: unknown) => void;
  /** Called when the caller gave up before a thread was free. */
  leave: () => void;
}

interface Thread {
  worker: Worker;
  /** Set while a job runs. */
  busy?: { waiting: Waiting; stopTimer: CancelTimer; id: number };
  ready: boolean;
}

/** Heap of one thread. An answer is at most 4 MiB; the rest is room for intermediate values. */
const HEAP_MB = 192;

/**
 * Runs jobs of unknowable cost on worker threads and kills a thread that exceeds its time or memory: the only bound that
 * holds for regular expressions and recursive queries alike, and the event loop stays free. Threads start when first
 * needed and stay; a killed one is replaced by the next job. Jobs wait in order of arrival when all threads are busy.
 */
export class BoundedThreads {
  private readonly threads = new Set<Thread>();
  private readonly queue: Waiting[] = [];
  private nextId = 1;

  constructor(
    private readonly clock: Clock,
    private readonly size = 2,
  ) {}

  /**
   * Result of a job as JSON.
   * @throws ToolError TOOL_ERROR when the job failed, took too long or too much memory; the signal's reason when aborted
   */
  run(job: ThreadJob, bounds: ThreadBounds): Promise<Json> {
    return new Promise<Json>((resolve, reject) => {
      const { signal } = bounds;
      if (signal.aborted) return reject(signal.reason);
      const waiting: Waiting = {
        job,
        bounds,
        resolve: settle(resolve),
        reject: settle(reject),
        leave: () => this.abandon(waiting),
      };
      function settle<T>(finish: (value: T) => void): (value: T) => void {
        return (value) => {
          signal.removeEventListener('abort', waiting.leave);
          finish(value);
        };
      }
      signal.addEventListener('abort', waiting.leave, { once: true });
      this.queue.push(waiting);
      this.dispatch();
    });
  }

  /** Ends all threads; jobs in flight fail. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.threads].map((thread) =>
        this.kill(thread, new ToolError('CANCELLED', { message: 'The service is stopping' })),
      ),
    );
  }

  private dispatch(): void {
    if (this.queue.length === 0) return;
    const idle =
      [...this.threads].find((thread) => !thread.busy) ?? (this.threads.size < this.size ? this.start() : undefined);
    const waiting = idle && this.queue.shift();
    if (!idle || !waiting) return;
    const id = this.nextId++;
    idle.busy = { waiting, id, stopTimer: () => {} };
    if (idle.ready) this.send(idle);
    this.dispatch();
  }

  private send(thread: Thread): void {
    const busy = thread.busy;
    if (!busy) return;
    const { timeoutMs } = busy.waiting.bounds;
    busy.stopTimer = this.clock.after(timeoutMs, () => {
      void this.kill(
        thread,
        new ToolError('TOOL_ERROR', {
          message: `Took longer than ${timeoutMs} ms: simplify the pattern or query`,
          details: { limit_ms: timeoutMs },
        }),
      );
    });
    thread.worker.postMessage({ id: busy.id, job: busy.waiting.job });
  }

  private start(): Thread {
    // Specs run the source, everything else the build: the extension is that of this very file.
    const entry = new URL(`./bounded-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
    const worker = new Worker(entry, { resourceLimits: { maxOldGenerationSizeMb: HEAP_MB }, env: {}, execArgv: [] });
    worker.unref();
    const thread: Thread = { worker, ready: false };
    this.threads.add(thread);
    worker.on('online', () => {
      thread.ready = true;
      this.send(thread);
    });
    worker.on('message', (answer: { id: number; value?: string; fault?: string }) => this.finish(thread, answer));
    worker.on('error', (error) => void this.kill(thread, threadFault(error)));
    worker.on('exit', () => void this.kill(thread, threadFault(undefined)));
    return thread;
  }

  private finish(thread: Thread, answer: { id: number; value?: string; fault?: string }): void {
    const busy = thread.busy;
    if (!busy || busy.id !== answer.id) return;
    busy.stopTimer();
    delete thread.busy;
    if (answer.value === undefined)
      busy.waiting.reject(new ToolError('TOOL_ERROR', { message: answer.fault ?? 'Failed' }));
    else busy.waiting.resolve(JSON.parse(answer.value) as Json);
    this.dispatch();
  }

  private abandon(waiting: Waiting): void {
    const reason: unknown = waiting.bounds.signal.reason;
    const position = this.queue.indexOf(waiting);
    if (position >= 0) {
      this.queue.splice(position, 1);
      return waiting.reject(reason);
    }
    for (const thread of this.threads) if (thread.busy?.waiting === waiting) void this.kill(thread, reason);
  }

  private async kill(thread: Thread, reason: unknown): Promise<void> {
    if (!this.threads.delete(thread)) return;
    thread.busy?.stopTimer();
    thread.busy?.waiting.reject(reason);
    delete thread.busy;
    await thread.worker.terminate();
    this.dispatch();
  }
}

function threadFault(error: unknown): ToolError {
  const code = (error as { code?: unknown } | undefined)?.code;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY')
    return new ToolError('MEMORY_EXCEEDED', { message: `Needs more than ${HEAP_MB} MB: use smaller input` });
  return new ToolError('TOOL_ERROR', { message: 'The computation ended abnormally', cause: error });
}
