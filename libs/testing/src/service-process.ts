import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { endChild, eventually, spawnChild } from './child-process.js';

/** How to start a service as a child process. */
export interface ServiceProcessOptions {
  /** The program: `apps/<app>/dist/main.js`, or a bundle of `bundleForTest`. */
  entry: string;
  /** Environment of the service. Only PATH and HOME are inherited, so that settings of the developer have no effect. */
  env?: Readonly<Record<string, string>>;
  args?: readonly string[];
  /** Node executable; default this process's. */
  node?: string;
  /** Working directory; default this process's. */
  cwd?: string;
  /** User and group to run as; only root can choose another. */
  uid?: number;
}

/** A service running as a user would run it. */
export interface ServiceProcess {
  readonly pid: number;
  /** The announcement of the service: `admin_port`, its public `port`… */
  readonly facts: Readonly<Record<string, unknown>>;
  /** Standard output so far, one JSON object per line. */
  readonly log: () => string;
  readonly errors: () => string;
  /** Resolves when the service has announced its start and `/health/ready` returns 200. */
  ready(): Promise<void>;
  /** GET on the admin port. */
  admin(path: string): Promise<{ status: number; body: string }>;
  /** SIGTERM and the exit code; SIGKILL and null after `graceMs` (default 20,000). */
  terminate(graceMs?: number): Promise<number | null>;
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  /** Closes the channel to the service, as when its parent ends. */
  disconnect(): void;
  /** Exit code once it has ended. */
  readonly ended: Promise<number | null>;
}

/** Starts a service and returns at once; `await service.ready()` to use it. */
export function startServiceProcess(options: ServiceProcessOptions): ServiceProcess {
  const child = spawnChild(options.node ?? process.execPath, [options.entry, ...(options.args ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ENVIRONMENT: 'test', ...options.env },
    cwd: options.cwd,
    uid: options.uid,
    gid: options.uid,
  });
  return new RunningService(child);
}

class RunningService implements ServiceProcess {
  readonly facts: Record<string, unknown> = {};
  readonly ended: Promise<number | null>;
  #output = '';
  #errors = '';

  constructor(private readonly child: ChildProcess) {
    child.stdout?.on('data', (chunk: Buffer) => (this.#output += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (this.#errors += chunk.toString()));
    child.on('message', (message) => Object.assign(this.facts, message));
    // 'close' of the child is not emitted after the channel was closed by `disconnect`.
    const closed = (stream: Readable | null) =>
      new Promise<void>((resolve) => stream?.once('close', resolve) ?? resolve());
    const output = Promise.all([closed(child.stdout), closed(child.stderr)]);
    this.ended = new Promise((resolve) => child.once('exit', (code) => void output.then(() => resolve(code))));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  readonly log = (): string => this.#output;
  readonly errors = (): string => this.#errors;

  async ready(): Promise<void> {
    await eventually('the service is ready', async () => {
      if (this.child.exitCode !== null) {
        throw new Error(`the service ended with ${this.child.exitCode}:\n${this.#output}\n${this.#errors}`);
      }
      // The probe may report ready before the announcements arrive over another channel.
      return this.facts['started'] === true && (await this.admin('/health/ready')).status === 200;
    }).catch((error: unknown) => {
      throw new Error(`${(error as Error).message}\n${this.#output.slice(-4_000)}\n${this.#errors.slice(-4_000)}`);
    });
  }

  async admin(path: string): Promise<{ status: number; body: string }> {
    // A kept connection may be one that the service is just closing.
    const response = await fetch(`http://127.0.0.1:${String(this.facts['admin_port'])}${path}`, {
      headers: { connection: 'close' },
    });
    return { status: response.status, body: await response.text() };
  }

  terminate(graceMs = 20_000): Promise<number | null> {
    return endChild(this.child, 'SIGTERM', graceMs);
  }

  async kill(): Promise<void> {
    await endChild(this.child, 'SIGKILL');
  }

  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  disconnect(): void {
    this.child.disconnect();
  }
}
