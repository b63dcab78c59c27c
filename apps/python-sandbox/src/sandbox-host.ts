/**
 * The child process in which guests run: the wall around the threads. A fault of the engine, a native out-of-memory or
 * a thread that cannot be ended takes this process and nothing else; the service starts another one.
 *
 * It has no environment, no network and no file rights but to read its own code and the interpreter (sandbox-process.ts
 * starts it so); it speaks to its parent only and ends with it.
 */
import type { Milliseconds } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience/clock';
import { encodeRequest, type RunRequest } from './python/guest-protocol.js';
import { LEVELS, PRELOADED_MODULES } from './python/strictness.js';
import type { FromHost, HostSettings, ToHost } from './sandbox-process.js';
import { CapturedOutput } from './wasi/captured-output.js';
import { PAGES_PER_MB } from './wasi/guest-memory.js';
import { loadInterpreter } from './wasi/interpreter.js';
import { restore, type Guest } from './wasi/restore.js';
import { takeSnapshot } from './wasi/snapshot.js';
import { ThreadPool } from './wasi/thread-pool.js';
import { warmUp as warmUpInterpreter } from './wasi/warm-up.js';

/** Beside 4 MiB in small pieces; a usual run then needs no `memory.grow`, and its memory can be reused. */
const HEAP_BYTES = 3 * 1024 * 1024;
const HEALTH_EVERY_RUNS = 100;
/** A warm-up program blocks the deadline timers for some milliseconds; the pause lets them run. */
const BACKGROUND_PAUSE_MS = 20;
const CANARY = 'import sys\nsys.version.split()[0]';

const clock = new SystemClock();
let pool: ThreadPool | undefined;
let runs = 0;

function send(message: FromHost): void {
  if (process.connected) process.send!(message);
}

interface Booted {
  bootMs: Milliseconds;
  /** Runs code until it is fast, with so long a pause after each program. */
  warmUp: (pauseMs: Milliseconds) => Promise<Milliseconds>;
  pool: ThreadPool;
}

/** Boots the interpreter; on its own, so that nothing keeps the memory of the boot when it has returned. */
function boot(settings: HostSettings): Booted {
  const began = clock.monotonic();
  const { boot: bootModule, code, shape, preopens } = loadInterpreter(settings.interpreter);
  const maxPages = settings.memoryLimitMb * PAGES_PER_MB;
  const snapshot = takeSnapshot(bootModule, shape.memory.min, {
    clock,
    preopens,
    maxPages,
    preload: PRELOADED_MODULES,
    levels: LEVELS,
    heapBytes: HEAP_BYTES,
  });
  const bootMs = clock.monotonic() - began;
  const warmUp = (pauseMs: Milliseconds) => {
    const output = new CapturedOutput(settings.outputCap);
    let guest: Guest | null = null;
    return warmUpInterpreter(clock, { maxMs: settings.warmUpMs, pauseMs }, (program) => {
      output.reset();
      guest = restore(code, snapshot, { clock, output, preopens, maxPages, reuse: guest });
      guest.run(encodeRequest(plain(program, settings)));
    });
  };
  const threads = new ThreadPool({
    clock,
    code,
    snapshot,
    preopens,
    threadScript: settings.threadScript,
    threads: settings.threads,
    outputCap: settings.outputCap,
    defaultMemoryMb: settings.memoryLimitMb,
    memoryBudgetMb: settings.memoryBudgetMb,
    onKilled: (reason, killMs) => send({ type: 'killed', reason, killMs }),
    // Its stderr is what an operator reads of this process.
    onFault: (message) => void process.stderr.write(`a sandbox thread ended by itself: ${message}\n`),
  });
  return { bootMs, warmUp, pool: threads };
}

async function start(settings: HostSettings): Promise<void> {
  const booted = boot(settings);
  pool = booted.pool;
  const warmUpMs = settings.warmUpFirst ? await booted.warmUp(0) : 0;
  // The memories of boot and warm-up: some 60 MB, and no request waits yet.
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  await pool.start();
  // The last step of being ready is a real execution.
  const reply = await pool.run('canary', plain(CANARY, settings));
  const version = reply.value;
  if (typeof version !== 'string')
    throw new Error(`the canary run ended with ${reply.status}: ${reply.error?.type}: ${reply.error?.message}`);
  send({ type: 'ready', version, bootMs: booted.bootMs, warmUpMs });
  if (settings.warmUpFirst) return;
  await booted.warmUp(BACKGROUND_PAUSE_MS);
  globalThis.gc?.(); // the memory of the warm-up
}

function plain(code: string, settings: HostSettings): RunRequest {
  return {
    code,
    args: null,
    stdin: '',
    files: {},
    strictness: 'lenient',
    extraModules: [],
    session: null,
    keepSession: false,
    timeoutMs: 20_000,
    memoryLimitMb: settings.memoryLimitMb,
    reportsProgress: false,
  };
}

async function run(id: string, request: RunRequest): Promise<void> {
  const reply = await pool!.run(id, request, {
    onStart: () => send({ type: 'started', id }),
    onProgress: (lines) => send({ type: 'progress', id, lines }),
  });
  send({ type: 'reply', id, reply });
  runs += 1;
  if (runs % HEALTH_EVERY_RUNS === 0) send({ type: 'health', rssMb: process.memoryUsage.rss() / 1_048_576, runs });
}

process.on('message', (message: ToHost) => {
  if (message.type === 'run') void run(message.id, message.request);
  else if (message.type === 'cancel') void pool?.cancel(message.id);
  else {
    start(message.settings).catch((error: unknown) => {
      send({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
      process.exitCode = 1;
      process.disconnect();
    });
  }
});
process.on('disconnect', () => process.exit());
