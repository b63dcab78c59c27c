/** `npm start` as a user runs it, in a state folder of the spec's own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { eventually, freePort } from '@toolfleet/testing';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** As on two cores: by default the number of workers follows that of the cores. */
const COMMAND = ['npm', 'start', '--silent', '--', '--workers', '1'];

export class NpmStart {
  /** Output so far. */
  output = '';

  private constructor(readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (data: Buffer) => (this.output += data.toString()));
  }

  /** Resolves when the fleet is ready. @throws Error with its output when it ends instead */
  static async start(env: Readonly<Record<string, string>>, command = COMMAND): Promise<NpmStart> {
    const [program = '', ...args] = command;
    const runner = new NpmStart(
      spawn(program, args, {
        cwd: ROOT,
        env: { ...process.env, GATEWAY_PORT: String(await freePort()), ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      }),
    );
    try {
      await runner.until('the fleet is ready', () => {
        if (runner.hasEnded) throw new Error('npm start ended');
        return runner.output.includes('toolfleet is ready');
      });
    } catch (error) {
      await runner.stop();
      throw error;
    }
    return runner;
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Waits for a condition. @throws Error with the output of the runner */
  async until(what: string, holds: () => boolean | Promise<boolean>, everyMs = 100): Promise<void> {
    await eventually(what, holds, { everyMs }).catch((error: unknown) => {
      throw new Error(`${(error as Error).message}; the runner printed:\n${this.output}`);
    });
  }

  /** Ends the runner and all that it started. */
  async stop(): Promise<void> {
    if (this.hasEnded || this.child.pid === undefined) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    process.kill(-this.child.pid, 'SIGTERM');
    await ended;
  }
}
