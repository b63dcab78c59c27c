import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import type { Milliseconds, CancelTimer, Clock } from '@toolfleet/base';
import {
  failed,
  replyWithoutOutput,
  type Outcome,
  type RunReply,
  type RunRequest,
  type RunStatus,
} from '../python/guest-protocol.js';
import { CapturedOutput } from './captured-output.js';
import type { Directory } from './file-tree.js';
import { PAGES_PER_MB } from './guest-memory.js';
import { SIGNAL, type ProgramAnswer } from './program-bridge.js';
import type { ThreadData, ThreadMessage } from './sandbox-thread.js';
import type { Snapshot } from './snapshot.js';

interface PoolOptions {
  clock: Clock;
  /** Path or URL of the compiled sandbox-thread. */
  threadScript: string;
  code: WebAssembly.Module;
  snapshot: Snapshot;
  preopens: Record<string, Directory>;
  /** Packages by name. */
  packages: Record<string, Directory>;
  threads: number;
  /** Most programs that call tools, in addition: they wait most of their time. Their threads are started when they are needed. */
  programs: number;
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
  /** A request of a program, one line of JSON, untrusted. Answer it with `answer`. */
  onAsk?: (line: string) => void;
  /** A program waits for an answer, and has got this many. */
  onBlocked?: (answered: number) => void;
}

interface ActiveRun extends WaitingRun {
  id: string;
  startedAt: Milliseconds;
  /** Ends the run when its time is up: stopped while a program waits for a call. */
  cancelTimer: CancelTimer;
  /** When the timer was started, and the time that was left then. */
  timedFrom: Milliseconds;
  leftMs: Milliseconds;
  /** Ends a program that waits too long. */
  cancelWall: CancelTimer;
  /** Number of the run in its thread, known from its first request. */
  number?: number;
  /** Answers sent to the program. */
  answered: number;
  waits: boolean;
}

interface SandboxThread {
  worker: Worker;
  output: CapturedOutput;
  answers: MessagePort;
  signal: Int32Array;
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
 * The threads of one sandbox host: at most `threads` concurrent runs and `programs` programs that call tools, and one spare that
 * takes over while a replacement starts. The pool enforces the timeout outside the guest, counted from the start of the run, and kills a run that is late
 * or cancelled by terminating its thread. That stops any guest: loops in C, sleeps, an interpreter that is shutting down.
 */
export class ThreadPool {
  private readonly idle: SandboxThread[] = [];
  private readonly busy = new Map<string, SandboxThread>();
  private readonly waiting = new Map<string, WaitingRun>();
  private usedMb = 0;
  /** Programs that wait for the answer to a call. */
  private waitingRuns = 0;
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

  /** Gives a program the answer to a request, one line of JSON. Ignored when the run has ended. */
  answer(id: string, line: string): void {
    const thread = this.busy.get(id);
    const run = thread?.running;
    if (!thread || run?.number === undefined) return;
    run.answered += 1;
    thread.answers.postMessage({ run: run.number, line } satisfies ProgramAnswer);
    Atomics.add(thread.signal, SIGNAL.answers, 1);
    Atomics.notify(thread.signal, SIGNAL.answers);
    this.setWaiting(run, false);
  }

  /** Stops or continues the clock of a program. Its own computing is limited, and so is the time from start to end. */
  private setWaiting(run: ActiveRun, waits: boolean): void {
    if (run.waits === waits) return;
    run.waits = waits;
    this.waitingRuns += waits ? 1 : -1;
    const now = this.options.clock.monotonic();
    if (waits) {
      run.cancelTimer();
      run.leftMs -= now - run.timedFrom;
    } else this.startTimer(run);
    if (waits) void this.addThread();
  }

  private startTimer(run: ActiveRun): void {
    const { clock } = this.options;
    run.timedFrom = clock.monotonic();
    run.cancelTimer = clock.after(Math.max(1, run.leftMs), () => this.onTime(run));
  }

  /** Ends a run after its time; brief waits of a program for its calls that did not stop the timer do not count. */
  private onTime(run: ActiveRun): void {
    const signal = this.busy.get(run.id)?.signal;
    run.leftMs = signal === undefined ? 0 : Atomics.exchange(signal, SIGNAL.waitedUs, 0) / 1_000;
    if (run.leftMs >= 1) this.startTimer(run);
    else void this.killLate(run.id, run.request.timeoutMs);
  }

  /** Terminates every thread. Runs in progress end as cancelled. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.busy.keys(), ...this.waiting.keys()].map((id) => this.cancel(id)));
    await Promise.all(this.idle.splice(0).map((thread) => thread.worker.terminate()));
  }

  private startNext(): void {
    for (const [id, { request, listener, settle }] of this.waiting) {
      // Programs are few and small, and are started although the budget is used: one that waits must not keep others from it.
      const fits =
        request.program !== undefined ||
        this.usedMb === 0 ||
        this.usedMb + request.memoryLimitMb <= this.options.memoryBudgetMb;
      if (this.busy.size >= this.options.threads + this.options.programs || !fits) return;
      const thread = this.idle.shift(); // the one idle longest has already restored its interpreter
      if (!thread) {
        if (this.starting === 0) void this.startThread();
        return;
      }
      this.waiting.delete(id);
      if (!request.program) this.usedMb += request.memoryLimitMb;
      this.busy.set(id, thread);
      const { clock } = this.options;
      const never = (): void => undefined;
      const now = clock.monotonic();
      const { program, timeoutMs } = request;
      const run: ActiveRun = {
        id,
        request,
        listener,
        settle,
        startedAt: now,
        timedFrom: now,
        leftMs: timeoutMs,
        cancelTimer: never,
        cancelWall: program ? clock.after(program.wallMs, () => void this.killLate(id, program.wallMs)) : never,
        answered: 0,
        waits: false,
      };
      Atomics.store(thread.signal, SIGNAL.waitedUs, 0);
      this.startTimer(run);
      thread.running = run;
      thread.worker.postMessage(request);
      listener.onStart?.();
      // The next one for it, if programs that wait have the others.
      void this.addThread();
    }
  }

  private killLate(id: string, timeoutMs: Milliseconds): Promise<void> {
    const message = `the run took longer than ${Number((timeoutMs / 1_000).toFixed(1))} s`;
    return this.kill(id, 'timeout', { ...failed('timeout', 'Timeout', message), limitMs: timeoutMs });
  }

  /** Terminates the thread of a run, replies with the guest's output, and starts a replacement. */
  private async kill(id: string, reason: RunStatus, outcome: Outcome): Promise<void> {
    const thread = this.busy.get(id);
    const running = thread?.running;
    if (!thread || !running) return;
    thread.running = undefined;
    running.cancelTimer();
    running.cancelWall();
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
    this.release(running);
    this.kills += 1;
    // A terminated thread leaves little for the collector to notice, but much memory of the process.
    if (this.kills % KILLS_PER_COLLECTION === 0) globalThis.gc?.();
  }

  private release(running: ActiveRun): void {
    this.busy.delete(running.id);
    if (running.waits) this.waitingRuns -= 1;
    if (!running.request.program) this.usedMb -= running.request.memoryLimitMb;
    this.startNext();
    void this.addThread();
  }

  private onReply(thread: SandboxThread, reply: RunReply): void {
    const running = thread.running;
    if (!running) return;
    thread.running = undefined;
    running.cancelTimer();
    running.cancelWall();
    // A program that waited had made room for another thread.
    if (this.idle.length + this.starting > this.options.threads) void thread.worker.terminate();
    else this.idle.push(thread);
    running.settle(reply);
    this.release(running);
  }

  private onAsk({ running }: SandboxThread, number: number, line: string): void {
    if (!running) return;
    running.number = number;
    running.listener.onAsk?.(line);
  }

  /** The message may be older than an answer that is already on its way. */
  private onBlocked(thread: SandboxThread, taken: number): void {
    const { running } = thread;
    if (!running || running.answered !== taken) return;
    this.setWaiting(running, true);
    running.listener.onBlocked?.(taken);
  }

  private onDeath(thread: SandboxThread, message: string): void {
    const id = thread.running?.id;
    if (id !== undefined) void this.kill(id, 'crashed', failed('crashed', 'ThreadDied', message.slice(0, 200)));
    const at = this.idle.indexOf(thread);
    if (at >= 0) {
      this.options.onDied?.(message);
      this.idle.splice(at, 1);
      void this.addThread();
    }
  }

  /**
   * Starts a thread unless enough are idle for what runs. While programs wait, one idle thread is enough: most waits end before another
   * run begins, and starting a thread takes twenty times the CPU time of a short program.
   */
  private async addThread(): Promise<void> {
    const working = this.busy.size - this.waitingRuns;
    const ready = this.idle.length + this.starting;
    if (this.closed || ready + working > this.options.threads) return;
    if (this.waitingRuns > 0 && ready > 0) return;
    await this.startThread();
  }

  private async startThread(): Promise<void> {
    this.starting += 1;
    const { threadScript, code, snapshot, preopens, packages, outputCap, defaultMemoryMb } = this.options;
    const output = new CapturedOutput(outputCap);
    const { port1: answers, port2 } = new MessageChannel();
    const signal = new Int32Array(new SharedArrayBuffer(SIGNAL.length * Int32Array.BYTES_PER_ELEMENT));
    const workerData: ThreadData = {
      code,
      snapshot,
      preopens,
      packages,
      output: output.shared,
      outputCap,
      answers: port2,
      signal: signal.buffer,
      defaultPages: defaultMemoryMb * PAGES_PER_MB,
    };
    const worker = new Worker(threadScript, {
      workerData,
      transferList: [port2],
      resourceLimits: RESOURCE_LIMITS,
      env: {},
      execArgv: [],
    });
    answers.unref();
    const thread: SandboxThread = { worker, output, answers, signal };
    await new Promise<void>((resolve) => {
      worker.on('message', (message: ThreadMessage) => {
        if (message.type === 'ready') {
          this.idle.push(thread);
          resolve();
        } else if (message.type === 'progress') thread.running?.listener.onProgress?.(message.lines);
        else if (message.type === 'ask') this.onAsk(thread, message.run, message.line);
        else if (message.type === 'blocked') this.onBlocked(thread, message.taken);
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
