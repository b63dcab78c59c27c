/**
 * Keeps one good sandbox host running and gives every run exactly one answer. When the host dies, the runs in it are
 * repeated once, one after the other, so that an innocent one is not killed by its neighbour a second time; a run whose
 * host dies twice is answered as crashed, never tried again. Repeating is safe: a run has no effect but its answer.
 */
import { randomUUID } from 'node:crypto';
import type { Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience/clock';
import { failed, type RunReply, type RunRequest, type RunStatus } from './python/guest-protocol.js';
import { HostLost, SandboxProcess, type HostSettings } from './sandbox-process.js';
import type { RunListener } from './wasi/thread-pool.js';

export interface SandboxOptions {
  clock: Clock;
  settings: Omit<HostSettings, 'warmUpFirst'>;
  hostScript: string;
  graceMs: Milliseconds;
  /** The host is replaced after so many runs. */
  recycleRuns: number;
  /** The host is replaced when its memory between runs passes this. */
  recycleRssMb: number;
  onKilled?: (reason: RunStatus, killMs: Milliseconds) => void;
  /** Told of every host that is ready, with the time its start took. */
  onReady?: (bootMs: Milliseconds) => void;
  /** Told how long each interpreter took to be restored. */
  onRestored?: (restoreMs: Milliseconds) => void;
  /** Told of everything an operator should know: deaths, restarts, the child's stderr. */
  onEvent?: (event: string, facts: Record<string, string | number>) => void;
}

const RESTART_DELAYS_MS = [0, 250, 1_000, 5_000];

export class Sandbox {
  private current: Promise<SandboxProcess> | undefined;
  private live: SandboxProcess | undefined;
  private readonly retired = new Set<SandboxProcess>();
  /** Every host that has not ended, those that are starting included. */
  private readonly hosts = new Set<SandboxProcess>();
  private repeats: Promise<unknown> = Promise.resolve();
  private closed = false;
  private version = '';

  constructor(private readonly options: SandboxOptions) {}

  /** Starts the first host. Rejects with the reason when it cannot start: a wrong interpreter does not heal. */
  async start(): Promise<void> {
    this.current = this.launch(true);
    await this.current;
  }

  /** True while a host is up that has run its canary. */
  get isReady(): boolean {
    return this.live?.isAlive === true;
  }

  /** What runs the programs, shown with every answer. */
  get interpreter(): string {
    return `CPython ${this.version} on WASI`;
  }

  /** Id of the current host, for operators and tests. */
  get hostPid(): number | undefined {
    return this.live?.pid;
  }

  /** Runs one program. Never rejects. Aborting the signal stops the program; the answer is `cancelled`. */
  async run(request: RunRequest, listener: RunListener = {}, signal?: AbortSignal): Promise<RunReply> {
    try {
      return await this.attempt(request, listener, signal);
    } catch (error) {
      if (!(error instanceof HostLost)) return crashed(error);
    }
    const repeat = this.repeats.then(() => this.attempt(request, listener, signal));
    this.repeats = repeat.catch(() => {});
    return repeat.catch(crashed);
  }

  /** Ends the host. Runs that still go on are answered as crashed. */
  async close(): Promise<void> {
    this.closed = true;
    const all = [...this.hosts];
    for (const each of all) each.kill();
    await Promise.all(all.map((each) => each.ended));
    await this.current?.catch(() => undefined);
  }

  private async attempt(request: RunRequest, listener: RunListener, signal?: AbortSignal): Promise<RunReply> {
    const host = await this.liveHost();
    const id = randomUUID();
    const cancel = () => host.cancel(id);
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const reply = host.run(id, request, listener);
      if (signal?.aborted) cancel();
      const answer = await reply;
      if (answer.restoreMs !== undefined) this.options.onRestored?.(answer.restoreMs);
      return answer;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** The host to use now. A dead one is seen here before its successor is on its way. */
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
      settings: { ...this.options.settings, warmUpFirst },
      hostScript,
      graceMs,
      onKilled,
      onHealth: (rssMb, runs) => this.recycleIfWorn(host, rssMb, runs),
      onStderr: (text) => this.options.onEvent?.('sandbox host stderr', { text }),
    });
    this.hosts.add(host);
    void host.ended.then(() => this.hosts.delete(host));
    const began = clock.monotonic();
    await host.start();
    this.options.onReady?.(clock.monotonic() - began);
    this.live = host;
    this.version = host.version;
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

  /** Starts the successor first; the worn host ends its runs and is killed when it is empty. */
  private recycleIfWorn(host: SandboxProcess, rssMb: number, runs: number): void {
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
        // It may have died meanwhile, trusting in its successor.
        if (!host.isAlive) this.onEnded(host);
      },
    );
  }
}

function crashed(error: unknown): RunReply {
  const message =
    error instanceof HostLost
      ? 'the sandbox host died twice while running this program'
      : `the sandbox could not run this program: ${error instanceof Error ? error.message : String(error)}`;
  return {
    ...failed('crashed', 'SandboxHostLost', message),
    stdout: '',
    stderr: '',
    truncated: { stdout: false, stderr: false },
    usage: { cpuMs: 0, wallMs: 0, peakMemoryMb: 0 },
  };
}
