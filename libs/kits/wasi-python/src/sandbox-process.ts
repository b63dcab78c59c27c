import { fork, type ChildProcess } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Milliseconds, CancelTimer, Clock } from '@toolfleet/base';
import { failed, replyWithoutOutput, type RunReply, type RunRequest, type RunStatus } from './python/guest-protocol.js';
import type { PackageWheel } from './packages/python-package.js';
import type { InterpreterSource } from './wasi/interpreter.js';
import type { RunListener } from './wasi/thread-pool.js';

/** The settings of a child with an empty environment. */
export interface HostSettings {
  interpreter: InterpreterSource;
  /** Packages that runs can import; the first host compiles them. */
  packages?: readonly PackageWheel[] | undefined;
  /** Path of the compiled sandbox-thread. */
  threadScript: string;
  threads: number;
  /** Most programs that call tools, in addition to `threads` runs. */
  programs: number;
  outputCap: number;
  memoryLimitMb: number;
  memoryBudgetMb: number;
  /** Longest warm-up of the interpreter. */
  warmUpMs: Milliseconds;
  /** If false, the child warms up while it already serves, as the replacement of one that died. */
  warmUpFirst: boolean;
}

/** Messages from the service to the child, over IPC with structured clone. */
export type ToHost =
  | { type: 'start'; settings: HostSettings }
  | { type: 'run'; id: string; request: RunRequest }
  | { type: 'cancel'; id: string }
  | { type: 'answer'; id: string; line: string };

/** The child can run programs. */
interface ReadyHost {
  type: 'ready';
  /** Version of Python. */
  version: string;
  /** The packages with their bytecode. */
  packages: readonly PackageWheel[];
}

/** Messages from the child to the service. `started` is sent for runs that take longer than a moment. */
export type FromHost =
  | ReadyHost
  | { type: 'compiled' }
  | { type: 'failed'; message: string }
  | { type: 'started'; id: string }
  | { type: 'progress'; id: string; lines: string }
  | { type: 'ask'; id: string; line: string }
  | { type: 'blocked'; id: string; answered: number }
  | { type: 'reply'; id: string; reply: RunReply }
  | { type: 'killed'; reason: RunStatus; killMs: Milliseconds }
  | { type: 'health'; rssMb: number; runs: number };

/** The child died during a run, possibly but not necessarily because of it. */
export class HostLost extends Error {}

interface ProcessOptions {
  clock: Clock;
  settings: HostSettings;
  /** Path of the compiled sandbox-host. */
  hostScript: string;
  /** How long a run may exceed its timeout before the child counts as stuck. */
  graceMs: Milliseconds;
  onKilled?: (reason: RunStatus, killMs: Milliseconds) => void;
  onHealth?: (rssMb: number, runs: number) => void;
  /** Output of the child on stderr: warnings of the engine, a fatal error. */
  onStderr?: (text: string) => void;
}

interface RunInFlight {
  request: RunRequest;
  listener: RunListener;
  cancelTimer: CancelTimer;
  resolve: (reply: RunReply) => void;
  reject: (error: Error) => void;
}

/** Longest silence of a host that starts; each package that it has compiled counts anew. */
const START_TIMEOUT_MS = 120_000;
/** Longest wait of a run for a thread; replacements start in a fraction of a second. */
const DISPATCH_TIMEOUT_MS = 15_000;

/**
 * The service's handle on one sandbox-host child. The service process itself holds no interpreter and parses only JSON from
 * the guest. The child's thread pool kills single runs (wasi/thread-pool.ts); if the child does not reply in time despite
 * that, whatever it hangs in, this class kills all of it with SIGKILL.
 */
export class SandboxProcess {
  /** Resolves when the child has exited, for any reason. */
  readonly ended: Promise<void>;
  private readonly child: ChildProcess;
  private readonly inFlight = new Map<string, RunInFlight>();
  /** Resolves when the child has run its canary. Rejects with the reason if it cannot start. */
  readonly ready: Promise<ReadyHost>;
  private hasEnded = false;

  constructor(private readonly options: ProcessOptions) {
    this.child = fork(options.hostScript, [], {
      env: {},
      execArgv: nodeFlags(options),
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => options.onStderr?.(text.slice(0, 4_000)));
    this.ended = new Promise((resolve) => {
      this.child.once('exit', () => {
        this.hasEnded = true;
        for (const run of this.inFlight.values()) {
          run.cancelTimer();
          run.reject(new HostLost('the sandbox host ended'));
        }
        this.inFlight.clear();
        resolve();
      });
    });
    this.ready = this.waitUntilReady();
    this.ready.catch(() => {});
    this.child.on('message', (message: FromHost) => this.receive(message));
    this.child.on('error', () => this.kill());
    this.send({ type: 'start', settings: options.settings });
  }

  /** Process id of the child, for operators and tests. */
  get pid(): number | undefined {
    return this.child.pid;
  }

  get isAlive(): boolean {
    return !this.hasEnded;
  }

  get running(): number {
    return this.inFlight.size;
  }

  /** Runs a program. @throws HostLost if the child dies meanwhile */
  run(id: string, request: RunRequest, listener: RunListener = {}): Promise<RunReply> {
    if (this.hasEnded) return Promise.reject(new HostLost('the sandbox host has ended'));
    return new Promise((resolve, reject) => {
      const cancelTimer = this.options.clock.after(DISPATCH_TIMEOUT_MS, () => this.kill());
      this.inFlight.set(id, { request, listener, cancelTimer, resolve, reject });
      this.send({ type: 'run', id, request });
    });
  }

  /** Stops a run; its promise resolves as cancelled. */
  cancel(id: string): void {
    if (this.inFlight.has(id)) this.send({ type: 'cancel', id });
  }

  /** Gives a program the answer to a request. */
  answer(id: string, line: string): void {
    if (this.inFlight.has(id)) this.send({ type: 'answer', id, line });
  }

  /** Kills the child with SIGKILL. */
  kill(): void {
    this.child.kill('SIGKILL');
  }

  private send(message: ToHost): void {
    if (!this.child.connected) return;
    // The exit event reports a child that dies during the write; the error of the channel adds nothing.
    this.child.send(message, () => {});
  }

  private waitUntilReady(): Promise<ReadyHost> {
    return new Promise((resolve, reject) => {
      const limit = () =>
        this.options.clock.after(START_TIMEOUT_MS, () => {
          reject(new Error('the sandbox host did not start in time'));
          this.kill();
        });
      let cancelTimer = limit();
      this.child.on('message', (message: FromHost) => {
        if (message.type === 'ready') resolve(message);
        else if (message.type === 'failed') reject(new Error(`the sandbox host could not start: ${message.message}`));
        else if (message.type !== 'compiled') return;
        cancelTimer();
        if (message.type === 'compiled') cancelTimer = limit();
      });
      void this.ended.then(() => {
        cancelTimer();
        reject(new Error('the sandbox host ended before it was ready'));
      });
    });
  }

  private receive(message: FromHost): void {
    switch (message.type) {
      case 'started':
        return this.onStarted(message.id);
      case 'progress':
        return this.inFlight.get(message.id)?.listener.onProgress?.(message.lines);
      case 'ask':
        return this.inFlight.get(message.id)?.listener.onAsk?.(message.line);
      case 'blocked':
        return this.inFlight.get(message.id)?.listener.onBlocked?.(message.answered);
      case 'reply': {
        const run = this.inFlight.get(message.id);
        this.inFlight.delete(message.id);
        run?.cancelTimer();
        return run?.resolve(message.reply);
      }
      case 'killed':
        return this.options.onKilled?.(message.reason, message.killMs);
      case 'health':
        return this.options.onHealth?.(message.rssMb, message.runs);
      default:
        return undefined;
    }
  }

  /** From now on the child has to reply within the timeout of the run plus the grace period. */
  private onStarted(id: string): void {
    const run = this.inFlight.get(id);
    if (!run) return;
    run.cancelTimer();
    run.listener.onStart?.();
    const mostMs = run.request.program?.wallMs ?? run.request.timeoutMs;
    run.cancelTimer = this.options.clock.after(mostMs + this.options.graceMs, () => {
      this.inFlight.delete(id);
      const message = `the run took longer than ${mostMs / 1_000} s and had to be stopped with its host`;
      run.resolve(replyWithoutOutput({ ...failed('timeout', 'Timeout', message), limitMs: mostMs }, mostMs));
      this.kill();
    });
  }
}

/**
 * Node flags of the child: the permission model (threads, and reading its own code and the interpreter; no writing,
 * processes or addons), no code from strings, and `gc` to release a memory that grew.
 */
function nodeFlags({ settings, hostScript }: ProcessOptions): string[] {
  const flags = ['--expose-gc', '--disallow-code-generation-from-strings', '--disable-warning=PERM0006'];
  if (!process.allowedNodeEnvironmentFlags.has('--permission')) return flags;
  const { wasmPath, stdlibPath } = settings.interpreter;
  const readable = [...codePaths(hostScript), ...codePaths(settings.threadScript), wasmPath];
  if (stdlibPath) readable.push(stdlibPath);
  return [
    ...flags,
    '--permission',
    '--allow-worker',
    ...[...new Set(readable)].map((path) => `--allow-fs-read=${path}`),
  ];
}

/** Paths that a script reads while it loads: its folder and package, the Python sources, and the one package it imports. */
function codePaths(script: string): string[] {
  const clock = '@toolfleet/base';
  const { resolve } = createRequire(script);
  const installed = (resolve.paths(clock) ?? []).map((folder) => join(folder, clock));
  const real = installed.filter((folder) => existsSync(folder)).map((folder) => realpathSync(folder));
  const folder = dirname(script);
  // The guest's Python sources; a bundle contains them.
  const python = [join(folder, '../python')].filter((path) => existsSync(path));
  return [folder, join(folder, '../package.json'), ...python, ...installed, ...real];
}
