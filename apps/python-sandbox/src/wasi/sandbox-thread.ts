/**
 * A worker thread: one interpreter at a time, the next one restored while idle. The pool keeps the deadline and ends
 * this thread from outside; nothing here has to cooperate.
 */
import { parentPort, workerData } from 'node:worker_threads';
import type { Milliseconds } from '@toolfleet/contracts';
import { SystemClock, type Clock } from '@toolfleet/resilience/clock';
import { encodeRequest, failed, verdictOf, type RunReply, type RunRequest } from '../python/guest-protocol.js';
import { CapturedOutput } from './captured-output.js';
import { treeOf, type Directory } from './guest-files.js';
import { PAGES_PER_MB } from './guest-memory.js';
import { restore, type Guest } from './restore.js';
import type { Snapshot } from './snapshot.js';

const INTERVAL_MS: Milliseconds = 100;
/** A run that ends sooner is answered before anybody could read its progress. */
const FIRST_AFTER_MS: Milliseconds = 300;
const MAX_REPORTS = 200;
const MAX_CHARS = 2_000;

/**
 * Lines of stdout as progress of a run that still goes on. Bounded in rate and number: a program that prints a million
 * lines must not become a million events.
 */
class LineReporter {
  private readonly decoder = new TextDecoder();
  private pending = '';
  private reports = 0;
  private nextAt: Milliseconds;

  constructor(
    private readonly clock: Clock,
    private readonly report: (lines: string) => void,
  ) {
    this.nextAt = clock.monotonic() + FIRST_AFTER_MS;
  }

  /** Takes bytes of stdout; whole lines go out, at most ten times a second. */
  write(bytes: Uint8Array): void {
    if (this.reports >= MAX_REPORTS) return;
    this.pending = (this.pending + this.decoder.decode(bytes.slice(), { stream: true })).slice(-2 * MAX_CHARS);
    const now = this.clock.monotonic();
    const end = this.pending.lastIndexOf('\n');
    if (end < 0 || now < this.nextAt) return;
    this.report(this.pending.slice(0, end).slice(-MAX_CHARS));
    this.pending = this.pending.slice(end + 1);
    this.reports += 1;
    this.nextAt = now + INTERVAL_MS;
  }
}

/** What the pool hands to each thread. */
export interface ThreadData {
  code: WebAssembly.Module;
  snapshot: Snapshot;
  preopens: Record<string, Directory>;
  /** Memory of `CapturedOutput`, read by the pool when it had to end the thread. */
  output: SharedArrayBuffer;
  outputCap: number;
  /** The usual maximum of a guest's memory; interpreters for it are made in advance. */
  defaultPages: number;
}

/** From a thread to the pool. */
export type ThreadMessage =
  | { type: 'ready' }
  | { type: 'progress'; lines: string }
  | { type: 'reply'; reply: RunReply };

const data = workerData as ThreadData;
const port = parentPort!;
const clock = new SystemClock();
const output = new CapturedOutput(data.outputCap, data.output);
/** The interpreter for the next run, or the one of the run before. */
let guest: Guest | null = null;
let isReady = false;
let restoreMs = 0;

function make(maxPages: number): Guest {
  const { code, snapshot, preopens } = data;
  const began = clock.monotonic();
  guest = restore(code, snapshot, { clock, output, preopens, maxPages, reuse: guest });
  guest.prepare();
  restoreMs = clock.monotonic() - began;
  return guest;
}

function run(request: RunRequest): RunReply {
  const maxPages = request.memoryLimitMb * PAGES_PER_MB;
  const single = isReady && guest && maxPages === data.defaultPages ? guest : make(maxPages);
  isReady = false;
  output.reset();
  if (request.reportsProgress) {
    const reporter = new LineReporter(clock, (lines) => send({ type: 'progress', lines }));
    output.observer = (stream, bytes) => {
      if (stream === 1) reporter.write(bytes);
    };
  }
  const cpuBefore = process.threadCpuUsage();
  const began = clock.monotonic();
  const { end, frame } = single.run(encodeRequest(request), treeOf(request.files));
  const verdict = verdictOf(end, frame);
  const cpu = process.threadCpuUsage(cpuBefore);
  return {
    ...verdict,
    stdout: output.text(1),
    stderr: output.text(2),
    truncated: { stdout: output.isCut(1), stderr: output.isCut(2) },
    usage: {
      cpuMs: (cpu.user + cpu.system) / 1_000,
      wallMs: clock.monotonic() - began,
      peakMemoryMb: output.pages / PAGES_PER_MB,
    },
    restoreMs,
  };
}

function send(message: ThreadMessage): void {
  port.postMessage(message);
}

function broken(error: unknown): RunReply {
  const message = error instanceof Error ? error.message : String(error);
  return {
    ...failed('crashed', 'SandboxFault', message.slice(0, 200)),
    stdout: '',
    stderr: '',
    truncated: { stdout: false, stderr: false },
    usage: { cpuMs: 0, wallMs: 0, peakMemoryMb: 0 },
  };
}

port.on('message', (request: RunRequest) => {
  let reply: RunReply;
  try {
    reply = run(request);
  } catch (error) {
    reply = broken(error);
  }
  send({ type: 'reply', reply });
  // A memory that grew is given back at once; the next run must not inherit its high-water mark.
  if (guest?.hasGrown) {
    guest = null;
    globalThis.gc?.();
  }
  make(data.defaultPages);
  isReady = true;
});

make(data.defaultPages);
isReady = true;
// An idle thread allocates nothing, so what its start left behind would stay: some MB for each.
globalThis.gc?.();
send({ type: 'ready' });
