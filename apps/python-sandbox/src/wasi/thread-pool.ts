import { Worker } from 'node:worker_threads';
import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience/clock';
import {
  failed,
  replyWithoutOutput,
  type Outcome,
  type RunReply,
  type RunRequest,
  type RunStatus,
} from '../python/guest-protocol.js';
import { CapturedOutput } from './captured-output.js';
import type { Directory } from './guest-files.js';
import { PAGES_PER_MB } from './guest-memory.js';
import type { ThreadData, ThreadMessage } from './sandbox-thread.js';
import type { Snapshot } from './snapshot.js';

interface PoolOptions {
  clock: Clock;
  /** Path or URL of the compiled sandbox-thread. */
  threadScript: string;
  code: WebAssembly.Module;
  snapshot: Snapshot;
  preopens: Record<string, Directory>;
  threads: number;
  /** Bytes kept of stdout and of stderr each. */
  outputCap: number;
  defaultMemoryMb: number;
  /** Most MiB that the memory limits of running guests may add up to. */
  memoryBudgetMb: number;
  /** Called for every run that was killed, with the time it took. */
  onKilled?: (reason: RunStatus, killMs: Milliseconds) => void;
  /** Called when an idle thread dies. */
  onDied?: (message: string) => void;
}

/** Callbacks of a run before its reply. */
export interface RunListener {
  onStart?: () => void;
  onProgress?: (lines: string) => void;
}

interface ActiveRun extends WaitingRun {
  startedAt: Milliseconds;
  cancelTimer: CancelTimer;
}

interface SandboxThread {
  worker: Worker;
  output: CapturedOutput;
  running?: ActiveRun;
}

interface WaitingRun {
  request: RunRequest;
  listener: RunListener;
  settle: (reply: RunReply) => void;
}

/** Kills after which the garbage of terminated threads is collected. */
const KILLS_PER_COLLECTION = 8;
/** JS heap of a thread; the default young generation would take 8 MB more. The guest's memory is outside of it. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4, stackSizeMb: 4 };

/**
 * The threads of one sandbox host: at most `threads` concurrent runs, and one spare that takes over while a replacement
 * starts. The pool enforces the timeout outside the guest, counted from the start of the run, and kills a run that is late
 * or cancelled by terminating its thread. That stops any guest: loops in C, sleeps, an interpreter that is shutting down.
 */
export class ThreadPool {
  private readonly idle: SandboxThread[] = [];
  private readonly busy = new Map<string, SandboxThread>();
  private readonly waiting = new Map<string, WaitingRun>();
  private usedMb = 0;
  private starting = 0;
  private closed = false;
  private kills = 0;

  constructor(private readonly options: PoolOptions) {}

  /** Starts all threads and the spare. Rejects if one does not start. */
  async start(): Promise<void> {
    await Promise.all(Array.from({ length: this.options.threads + 1 }, () => this.addThread()));
    if (this.idle.length <= this.options.threads) throw new Error('the sandbox threads did not start');
  }

  /** Runs a program. Never rejects; every run ends with a status. `id` must not be in use. */
  run(id: string, request: RunRequest, listener: RunListener = {}): Promise<RunReply> {
    return new Promise((settle) => {
      this.waiting.set(id, { request, listener, settle });
      this.startNext();
    });
  }

  /** Kills a run, or removes it from the queue if it is still waiting. */
  async cancel(id: string): Promise<void> {
    const waiting = this.waiting.get(id);
    if (waiting) {
      this.waiting.delete(id);
      waiting.settle(replyWithoutOutput(failed('cancelled', 'Cancelled', 'the run was cancelled before it started')));
    } else if (this.busy.has(id)) {
      await this.kill(id, 'cancelled', failed('cancelled', 'Cancelled', 'the run was cancelled'));
    }
  }

  /** Terminates every thread. Runs in progress end as cancelled. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.busy.keys(), ...this.waiting.keys()].map((id) => this.cancel(id)));
    await Promise.all(this.idle.splice(0).map((thread) => thread.worker.terminate()));
  }

  private startNext(): void {
    for (const [id, { request, listener, settle }] of this.waiting) {
      const fits = this.usedMb === 0 || this.usedMb + request.memoryLimitMb <= this.options.memoryBudgetMb;
      if (this.busy.size >= this.options.threads || !fits) return;
      const thread = this.idle.shift(); // the one idle longest has already restored its interpreter
      if (!thread) return;
      this.waiting.delete(id);
      this.usedMb += request.memoryLimitMb;
      this.busy.set(id, thread);
      const { clock } = this.options;
      const cancelTimer = clock.after(request.timeoutMs, () => void this.killLate(id, request.timeoutMs));
      thread.running = { request, listener, startedAt: clock.monotonic(), cancelTimer, settle };
      thread.worker.postMessage(request);
      listener.onStart?.();
    }
  }

  private killLate(id: string, timeoutMs: Milliseconds): Promise<void> {
    const message = `the run took longer than ${Number((timeoutMs / 1_000).toFixed(1))} s`;
    return this.kill(id, 'timeout', failed('timeout', 'Timeout', message));
  }

  /** Terminates the thread of a run, replies with what the guest had printed, and starts a replacement. */
  private async kill(id: string, reason: RunStatus, outcome: Outcome): Promise<void> {
    const thread = this.busy.get(id);
    const running = thread?.running;
    if (!thread || !running) return;
    thread.running = undefined;
    running.cancelTimer();
    const { clock } = this.options;
    const began = clock.monotonic();
    await thread.worker.terminate();
    this.options.onKilled?.(reason, clock.monotonic() - began);
    const wallMs = clock.monotonic() - running.startedAt;
    running.settle({
      ...outcome,
      stdout: thread.output.text(1),
      stderr: thread.output.text(2),
      truncated: { stdout: thread.output.isCut(1), stderr: thread.output.isCut(2) },
      // A terminated thread does not report CPU time; the wall time is its upper bound.
      usage: { cpuMs: wallMs, wallMs, peakMemoryMb: thread.output.pages / PAGES_PER_MB },
    });
    this.release(id, running);
    void this.addThread();
    this.kills += 1;
    // A terminated thread leaves little for the collector to notice, but much memory of the process.
    if (this.kills % KILLS_PER_COLLECTION === 0) globalThis.gc?.();
  }

  private release(id: string, running: ActiveRun): void {
    this.busy.delete(id);
    this.usedMb -= running.request.memoryLimitMb;
    this.startNext();
  }

  private onReply(thread: SandboxThread, reply: RunReply): void {
    const running = thread.running;
    if (!running) return;
    const id = this.findId(thread)!;
    thread.running = undefined;
    running.cancelTimer();
    this.idle.push(thread);
    running.settle(reply);
    this.release(id, running);
  }

  private onDeath(thread: SandboxThread, message: string): void {
    const id = this.findId(thread);
    if (id) void this.kill(id, 'crashed', failed('crashed', 'ThreadDied', message.slice(0, 200)));
    const at = this.idle.indexOf(thread);
    if (at >= 0) {
      this.options.onDied?.(message);
      this.idle.splice(at, 1);
      void this.addThread();
    }
  }

  private findId(thread: SandboxThread): string | undefined {
    for (const [id, candidate] of this.busy) if (candidate === thread) return id;
    return undefined;
  }

  private async addThread(): Promise<void> {
    if (this.closed || this.idle.length + this.busy.size + this.starting > this.options.threads) return;
    this.starting += 1;
    const { threadScript, code, snapshot, preopens, outputCap, defaultMemoryMb } = this.options;
    const output = new CapturedOutput(outputCap);
    const workerData: ThreadData = {
      code,
      snapshot,
      preopens,
      output: output.shared,
      outputCap,
      defaultPages: defaultMemoryMb * PAGES_PER_MB,
    };
    const worker = new Worker(threadScript, { workerData, resourceLimits: RESOURCE_LIMITS, env: {}, execArgv: [] });
    const thread: SandboxThread = { worker, output };
    await new Promise<void>((resolve) => {
      worker.on('message', (message: ThreadMessage) => {
        if (message.type === 'ready') {
          this.idle.push(thread);
          resolve();
        } else if (message.type === 'progress') thread.running?.listener.onProgress?.(message.lines);
        else this.onReply(thread, message.reply);
      });
      worker.on('error', (error) => this.onDeath(thread, String(error)));
      worker.on('exit', () => {
        this.onDeath(thread, 'the thread ended');
        resolve();
      });
    });
    this.starting -= 1;
    if (this.closed) await worker.terminate();
    else this.startNext();
  }
}
