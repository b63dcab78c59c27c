/**
 * A worker thread with one interpreter at a time; it restores the next one while idle. The pool enforces the timeout by
 * terminating the thread without cooperation here.
 */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { SystemClock, type Milliseconds, type Clock } from '@toolfleet/base';
import {
  classify,
  encodeRequest,
  failed,
  replyWithoutOutput,
  type RunFile,
  type RunReply,
  type RunRequest,
} from '../python/guest-protocol.js';
import { CapturedOutput } from './captured-output.js';
import { joinedTree } from '../packages/python-package.js';
import { buildTree, contentOf, type Directory } from './file-tree.js';
import { PAGES_PER_MB } from './guest-memory.js';
import { ProgramBridge } from './program-bridge.js';
import { restore, type Guest } from './restore.js';
import type { Snapshot } from './snapshot.js';

const INTERVAL_MS: Milliseconds = 100;
/** The reply of a shorter run arrives before its progress would be useful. */
const FIRST_AFTER_MS: Milliseconds = 300;
const MAX_REPORTS = 200;
const MAX_CHARS = 2_000;

/**
 * Reports lines of stdout as progress of a run. Limited in rate and number, so that a program that prints a million lines
 * does not cause a million events.
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

  /** Adds bytes of stdout. Reports whole lines, at most ten times a second. */
  write(bytes: Uint8Array): void {
    this.pending = (this.pending + this.decoder.decode(bytes.slice(), { stream: true })).slice(-2 * MAX_CHARS);
    if (this.reports >= MAX_REPORTS) return;
    const now = this.clock.monotonic();
    const end = this.pending.lastIndexOf('\n');
    if (end < 0 || now < this.nextAt) return;
    this.report(this.pending.slice(0, end).slice(-MAX_CHARS));
    this.pending = this.pending.slice(end + 1);
    this.reports += 1;
    this.nextAt = now + INTERVAL_MS;
  }

  /** Reports the last lines of a run that reported before. */
  end(): void {
    const last = this.pending.trimEnd();
    if (this.reports > 0 && last !== '') this.report(last.slice(-MAX_CHARS));
  }
}

/** Files of one reply, and their bytes together. */
const MAX_FILES = 20;
const MAX_FILE_BYTES = 2 * 1024 * 1024;

/** The `workerData` of a thread. */
export interface ThreadData {
  code: WebAssembly.Module;
  snapshot: Snapshot;
  preopens: Record<string, Directory>;
  /** By name. */
  packages: Record<string, Directory>;
  /** Memory of `CapturedOutput`, read by the pool after it terminated the thread. */
  output: SharedArrayBuffer;
  outputCap: number;
  /** Receives the answers to the calls of programs (`ProgramAnswer`). */
  answers: MessagePort;
  /** Memory of the counter that wakes a program that waits for an answer, and of the time it waited (`SIGNAL`). */
  signal: SharedArrayBuffer;
  /** Maximum of a guest's memory. Interpreters with it are restored in advance; a run bounds its own further. */
  defaultPages: number;
}

/** Messages from a thread to the pool. */
export type ThreadMessage =
  | { type: 'ready' }
  | { type: 'progress'; lines: string }
  | { type: 'ask'; run: number; line: string }
  | { type: 'blocked'; run: number; taken: number }
  | { type: 'reply'; reply: RunReply };

const data = workerData as ThreadData;
const port = parentPort!;
const clock = new SystemClock();
const output = new CapturedOutput(data.outputCap, data.output);
/** The interpreter for the next run, or the previous one's. */
let guest: Guest | null = null;
let isReady = false;
let restoreMs = 0;
/** Number of this run, to mark late answers to an earlier one. */
let runs = 0;

function prepareGuest(maxPages: number): Guest {
  const { code, snapshot, preopens } = data;
  const began = clock.monotonic();
  guest = restore(code, snapshot, { clock, output, preopens, maxPages, reuse: guest });
  guest.prepare();
  restoreMs = clock.monotonic() - began;
  return guest;
}

function run(request: RunRequest): RunReply {
  const maxPages = request.memoryLimitMb * PAGES_PER_MB;
  const current = isReady && guest?.bound(maxPages) ? guest : prepareGuest(maxPages);
  isReady = false;
  output.reset();
  const reporter = request.reportsProgress
    ? new LineReporter(clock, (lines) => send({ type: 'progress', lines }))
    : undefined;
  if (reporter)
    output.observer = (stream, bytes) => {
      if (stream === 1) reporter.write(bytes);
    };
  const cpuBefore = process.threadCpuUsage();
  const began = clock.monotonic();
  const mounts = { program: bridgeFor(request), packages: packagesOf(request) };
  const { end, frame } = current.run(encodeRequest(request), buildTree(request.files), mounts);
  reporter?.end();
  const written = filesOf(current);
  const outcome = classify(end, frame);
  const cpu = process.threadCpuUsage(cpuBefore);
  return {
    ...outcome,
    ...written,
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

/** One folder for each set of packages: tenants have few different ones. */
const joined = new Map<string, Directory>();

function packagesOf({ packages = [] }: RunRequest): Directory {
  const key = packages.join();
  const tree = joined.get(key) ?? joinedTree(packages.map((name) => data.packages[name]!));
  joined.set(key, tree);
  return tree;
}

/** Files that a run wrote, up to the limits of a reply; and names of the others. */
function filesOf(done: Guest): Pick<RunReply, 'files' | 'filesOmitted'> {
  const files: RunFile[] = [];
  const filesOmitted: string[] = [];
  let total = 0;
  for (const [name, file] of done.writtenFiles()) {
    if (files.length < MAX_FILES && total + file.size <= MAX_FILE_BYTES) {
      files.push({ name, bytes: contentOf(file) });
      total += file.size;
    } else if (filesOmitted.length < MAX_FILES) filesOmitted.push(name);
  }
  return files.length + filesOmitted.length === 0 ? {} : { files, filesOmitted };
}

function bridgeFor({ program }: RunRequest): ProgramBridge | undefined {
  runs += 1;
  if (!program) return undefined;
  const number = runs;
  const channel = {
    port: data.answers,
    signal: new Int32Array(data.signal),
    clock,
    ask: (line: string) => send({ type: 'ask', run: number, line }),
    blocked: (taken: number) => send({ type: 'blocked', run: number, taken }),
  };
  return new ProgramBridge(channel, program, number);
}

function send(message: ThreadMessage): void {
  port.postMessage(message);
}

port.on('message', (request: RunRequest) => {
  let reply: RunReply;
  try {
    reply = run(request);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    reply = replyWithoutOutput(failed('crashed', 'SandboxFault', message.slice(0, 200)));
  }
  send({ type: 'reply', reply });
  // Release a memory that grew, so that the next run does not inherit its size.
  if (guest?.hasGrown) {
    guest = null;
    globalThis.gc?.();
  }
  prepareGuest(data.defaultPages);
  isReady = true;
});

prepareGuest(data.defaultPages);
isReady = true;
// An idle thread does not trigger collections, so it would keep the garbage of its start, some MB per thread.
globalThis.gc?.();
send({ type: 'ready' });
