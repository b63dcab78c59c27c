/**
 * The child process in which guests run. An engine bug, a native out-of-memory error or a thread that cannot be terminated
 * affects only this process, and the service starts another one.
 *
 * sandbox-process.ts starts it without environment or network, with the right to read its own code and the interpreter and
 * no other files. It talks only to its parent and exits with it.
 */
import { SystemClock, type Milliseconds, type CancelTimer } from '@toolfleet/base';
import { BARE_RUN, encodeRequest, type RunRequest } from './python/guest-protocol.js';
import type { FromHost, HostSettings, ToHost } from './sandbox-process.js';
import { compilePackages } from './packages/package-programs.js';
import { packageTree, type PackageWheel } from './packages/python-package.js';
import { CapturedOutput } from './wasi/captured-output.js';
import { contentOf } from './wasi/file-tree.js';
import { PAGES_PER_MB } from './wasi/guest-memory.js';
import { loadInterpreter } from './wasi/interpreter.js';
import { restore, type Guest } from './wasi/restore.js';
import { takeSnapshot } from './wasi/snapshot.js';
import { ThreadPool } from './wasi/thread-pool.js';
import { warmUp as warmUpInterpreter } from './wasi/warm-up.js';

/** Heap reserved at boot, in addition to 4 MiB in small blocks: a typical run then does not grow its memory, so it can be reused. */
const HEAP_BYTES = 3 * 1024 * 1024;
const HEALTH_EVERY_RUNS = 100;
/** A warm-up program blocks the deadline timers for some milliseconds; this pause lets them run. */
const BACKGROUND_PAUSE_MS = 20;
/** The reply of most runs arrives before their parent needs to know that they started; a message would wake it for nothing. */
const NOTICE_AFTER_MS = 20;
const CANARY = 'import sys\nsys.version.split()[0]';

const clock = new SystemClock();
let pool: ThreadPool | undefined;
let runs = 0;

function send(message: FromHost): void {
  if (process.connected) process.send!(message);
}

interface Booted {
  /** Runs code until it is fast, with a pause after each program. */
  warmUp: (pauseMs: Milliseconds) => Promise<Milliseconds>;
  packages: PackageWheel[];
  pool: ThreadPool;
}

/** Boots the interpreter. A separate function, so that no reference keeps the memory of the boot alive afterwards. */
function boot(settings: HostSettings): Booted {
  const { boot: bootModule, code, minPages, preopens } = loadInterpreter(settings.interpreter);
  const maxPages = settings.memoryLimitMb * PAGES_PER_MB;
  const snapshot = takeSnapshot(bootModule, minPages, {
    clock,
    preopens,
    maxPages,
    heapBytes: HEAP_BYTES,
  });
  const warmUp = (pauseMs: Milliseconds) => {
    const output = new CapturedOutput(settings.outputCap);
    let guest: Guest | null = null;
    return warmUpInterpreter(clock, { maxMs: settings.warmUpMs, pauseMs }, (program) => {
      output.reset();
      guest = restore(code, snapshot, { clock, output, preopens, maxPages, reuse: guest });
      guest.run(encodeRequest(requestFor(program, settings)));
    });
  };
  const packages = compilePackages(settings.packages ?? [], (program, tree) => {
    const output = new CapturedOutput(settings.outputCap);
    const guest = restore(code, snapshot, { clock, output, preopens, maxPages });
    guest.run(encodeRequest(requestFor(program, settings)), undefined, { packages: tree });
    send({ type: 'compiled' });
    return guest.writtenFiles().map(([path, file]) => [path, contentOf(file)]);
  });
  const trees = Object.fromEntries(packages.map((one) => [one.name, packageTree(one)]));
  return { warmUp, packages, pool: newPool(settings, { code, snapshot, preopens, packages: trees }) };
}

function newPool(
  settings: HostSettings,
  booted: Pick<ConstructorParameters<typeof ThreadPool>[0], 'code' | 'snapshot' | 'preopens' | 'packages'>,
): ThreadPool {
  return new ThreadPool({
    ...booted,
    clock,
    threadScript: settings.threadScript,
    threads: settings.threads,
    programs: settings.programs,
    outputCap: settings.outputCap,
    defaultMemoryMb: settings.memoryLimitMb,
    memoryBudgetMb: settings.memoryBudgetMb,
    onKilled: (reason, killMs) => send({ type: 'killed', reason, killMs }),
    // The parent logs the stderr of this process.
    onDied: (message) => void process.stderr.write(`an idle sandbox thread died: ${message}\n`),
  });
}

async function start(settings: HostSettings): Promise<void> {
  const booted = boot(settings);
  pool = booted.pool;
  if (settings.warmUpFirst) await booted.warmUp(0);
  // Release the memories of boot and warm-up, about 60 MB, before requests arrive.
  globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  await pool.start();
  // The service is ready only after a real execution.
  const reply = await pool.run('canary', requestFor(CANARY, settings));
  const version = reply.value;
  if (typeof version !== 'string')
    throw new Error(`the canary run ended with ${reply.status}: ${reply.error?.type}: ${reply.error?.message}`);
  send({ type: 'ready', version, packages: booted.packages });
  if (settings.warmUpFirst) return;
  await booted.warmUp(BACKGROUND_PAUSE_MS);
  globalThis.gc?.(); // releases the memory of the warm-up
}

function requestFor(code: string, settings: HostSettings): RunRequest {
  return {
    ...BARE_RUN,
    code,
    timeoutMs: 20_000,
    memoryLimitMb: settings.memoryLimitMb,
  };
}

async function run(id: string, request: RunRequest): Promise<void> {
  let cancelNotice: CancelTimer = () => undefined;
  const reply = await pool!.run(id, request, {
    onStart: () => (cancelNotice = clock.after(NOTICE_AFTER_MS, () => send({ type: 'started', id }))),
    onProgress: (lines) => send({ type: 'progress', id, lines }),
    onAsk: (line) => send({ type: 'ask', id, line }),
    onBlocked: (answered) => send({ type: 'blocked', id, answered }),
  });
  cancelNotice();
  send({ type: 'reply', id, reply });
  runs += 1;
  if (runs % HEALTH_EVERY_RUNS === 0) send({ type: 'health', rssMb: process.memoryUsage.rss() / 1_048_576, runs });
}

process.on('message', (message: ToHost) => {
  if (message.type === 'run') void run(message.id, message.request);
  else if (message.type === 'cancel') void pool?.cancel(message.id);
  else if (message.type === 'answer') pool?.answer(message.id, message.line);
  else {
    start(message.settings).catch((error: unknown) => {
      send({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
      process.exitCode = 1;
      process.disconnect();
    });
  }
});
process.on('disconnect', () => process.exit());
