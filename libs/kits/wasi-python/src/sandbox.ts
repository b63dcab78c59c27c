import { randomUUID } from 'node:crypto';
import type { Milliseconds, Clock } from '@toolfleet/base';
import { failed, replyWithoutOutput, type RunReply, type RunRequest, type RunStatus } from './python/guest-protocol.js';
import { HostLost, SandboxProcess, type HostSettings } from './sandbox-process.js';
import type { PackageWheel } from './packages/python-package.js';
import type { RunListener } from './wasi/thread-pool.js';

/** Callbacks of {@link Sandbox.run} during a run. `onAsk` gets the means to answer. */
interface SandboxListener extends Omit<RunListener, 'onAsk'> {
  /** The run begins, or begins again because its host died. */
  onBegin?: () => void;
  onAsk?: (line: string, answer: (line: string) => void) => void;
}

interface SandboxOptions {
  clock: Clock;
  settings: Omit<HostSettings, 'warmUpFirst'>;
  hostScript: string;
  graceMs: Milliseconds;
  /** Runs after which the host is replaced. */
  recycleRuns: number;
  /** Resident memory in MiB, measured between runs, beyond which the host is replaced. */
  recycleRssMb: number;
  onKilled?: (reason: RunStatus, killMs: Milliseconds) => void;
  /** Called for every host that becomes ready, with the duration of its start. */
  onReady?: (bootMs: Milliseconds) => void;
  /** Called with the time each restore of an interpreter took. */
  onRestored?: (restoreMs: Milliseconds) => void;
  /** Called for events that operators should see: deaths, restarts, the child's stderr. */
  onEvent?: (event: string, facts: Record<string, string | number>) => void;
}

const RESTART_DELAYS_MS = [0, 250, 1_000, 5_000];

/**
 * Keeps one sandbox host running and gives every run exactly one reply. When the host dies, its runs are repeated once, one
 * after the other, so that a harmless run is not killed a second time by its neighbor. A run that loses its host twice is
 * reported as crashed and not repeated again. Repeating is safe: a run has no effects besides its reply, and a program that
 * calls tools asks again for the same numbered calls. The caller answers them without making them again.
 */
export class Sandbox {
  private current: Promise<SandboxProcess> | undefined;
  private live: SandboxProcess | undefined;
  private readonly retired = new Set<SandboxProcess>();
  /** All hosts that have not exited, including those that are starting. */
  private readonly hosts = new Set<SandboxProcess>();
  private repeats: Promise<unknown> = Promise.resolve();
  private closed = false;
  private version = '';
  private packages: readonly PackageWheel[] | undefined;

  constructor(private readonly options: SandboxOptions) {
    this.packages = options.settings.packages;
  }

  /** Starts the first host. Rejects with the reason if it cannot start; there is no retry, because a wrong interpreter stays wrong. */
  async start(): Promise<void> {
    this.current = this.launch(true);
    await this.current;
  }

  /** True while a host is running that has passed its canary run. */
  get isReady(): boolean {
    return this.live?.isAlive === true;
  }

  /** Name and version of the interpreter, reported with every response. */
  get interpreter(): string {
    return `CPython ${this.version} on WASI`;
  }

  /** Process id of the current host, for operators and tests. */
  get hostPid(): number | undefined {
    return this.live?.pid;
  }

  /** Runs a program. Never rejects. Aborting the signal stops the program with the status `cancelled`. */
  async run(request: RunRequest, listener: SandboxListener = {}, signal?: AbortSignal): Promise<RunReply> {
    const { clock } = this.options;
    const began = clock.monotonic();
    try {
      return await this.attempt(request, listener, signal);
    } catch (error) {
      if (!(error instanceof HostLost)) return crashed(error);
    }
    const repeat = this.repeats.then(() =>
      this.attempt(shortened(request, clock.monotonic() - began), listener, signal),
    );
    this.repeats = repeat.catch(() => {});
    return repeat.catch(crashed);
  }

  /** Kills all hosts. Runs in progress end as crashed. */
  async close(): Promise<void> {
    this.closed = true;
    const all = [...this.hosts];
    for (const each of all) each.kill();
    await Promise.all(all.map((each) => each.ended));
    await this.current?.catch(() => undefined);
  }

  private async attempt(request: RunRequest, listener: SandboxListener, signal?: AbortSignal): Promise<RunReply> {
    const host = await this.liveHost();
    const id = randomUUID();
    const cancel = () => host.cancel(id);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      listener.onBegin?.();
      const onAsk = (line: string) => listener.onAsk?.(line, (answer) => host.answer(id, answer));
      const reply = host.run(id, request, { ...listener, onAsk });
      if (signal?.aborted) cancel();
      const { restoreMs } = await reply;
      if (restoreMs !== undefined) this.options.onRestored?.(restoreMs);
      return await reply;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** The current host. Polls, because a host can be dead here before `onEnded` has replaced `current`. */
  private async liveHost(): Promise<SandboxProcess> {
    for (;;) {
      if (this.closed) throw new Error('the sandbox is closed');
      const host = await this.current!;
      if (host.isAlive) return host;
      await this.options.clock.sleep(5);
    }
  }

  private async launch(warmUpFirst: boolean): Promise<SandboxProcess> {
    const { clock, hostScript, graceMs, onKilled } = this.options;
    const host: SandboxProcess = new SandboxProcess({
      clock,
      settings: { ...this.options.settings, packages: this.packages, warmUpFirst },
      hostScript,
      graceMs,
      onKilled,
      onHealth: (rssMb, runs) => this.recycleIfDue(host, rssMb, runs),
      onStderr: (text) => this.options.onEvent?.('sandbox host stderr', { text }),
    });
    this.hosts.add(host);
    void host.ended.then(() => this.hosts.delete(host));
    const began = clock.monotonic();
    const { version, packages } = await host.ready;
    this.options.onReady?.(clock.monotonic() - began);
    this.live = host;
    this.version = version;
    // Its successors need not compile them.
    this.packages = packages;
    host.ended
      .then(() => this.onEnded(host))
      .catch((error: unknown) => this.options.onEvent?.('sandbox host lost', { error: String(error) }));
    return host;
  }

  private onEnded(host: SandboxProcess): void {
    const hasSuccessor = this.retired.delete(host);
    if (this.closed || hasSuccessor || this.live !== host) return;
    this.live = undefined;
    this.options.onEvent?.('sandbox host died', { pid: host.pid ?? 0 });
    this.current = this.relaunch();
  }

  private async relaunch(attempt = 0): Promise<SandboxProcess> {
    if (this.closed) throw new Error('the sandbox is closed');
    await this.options.clock.sleep(RESTART_DELAYS_MS[attempt] ?? RESTART_DELAYS_MS.at(-1)!);
    try {
      const host = await this.launch(false);
      this.options.onEvent?.('sandbox host restarted', { pid: host.pid ?? 0 });
      return host;
    } catch (error) {
      this.options.onEvent?.('sandbox host did not start', { error: String(error) });
      return this.relaunch(attempt + 1);
    }
  }

  /** Starts the successor first. The old host finishes its runs and is killed once it is idle. */
  private recycleIfDue(host: SandboxProcess, rssMb: number, runs: number): void {
    const { recycleRuns, recycleRssMb, onEvent, clock } = this.options;
    if (this.closed || this.live !== host || this.retired.has(host)) return;
    if (runs < recycleRuns && rssMb < recycleRssMb) return;
    onEvent?.('sandbox host recycled', { runs, rssMb: Math.round(rssMb) });
    this.retired.add(host);
    const successor = this.launch(true);
    successor.then(
      async () => {
        this.current = successor;
        while (host.running > 0 && host.isAlive) await clock.sleep(50);
        host.kill();
      },
      (error: unknown) => {
        if (this.closed) return;
        onEvent?.('sandbox host did not start', { error: String(error) });
        this.retired.delete(host);
        // The old host may have died meanwhile, and onEnded did nothing because of the successor.
        if (!host.isAlive) this.onEnded(host);
      },
    );
  }
}

/** A repeated program has the rest of its time: it may have waited for the repetitions of others. */
function shortened(request: RunRequest, spentMs: Milliseconds): RunRequest {
  const { program } = request;
  if (!program) return request;
  return { ...request, program: { ...program, wallMs: Math.max(1, program.wallMs - spentMs) } };
}

function crashed(error: unknown): RunReply {
  const message =
    error instanceof HostLost
      ? 'the sandbox host died twice while running this program'
      : `the sandbox could not run this program: ${error instanceof Error ? error.message : String(error)}`;
  return replyWithoutOutput(failed('crashed', 'SandboxHostLost', message));
}
