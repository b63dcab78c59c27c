import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:net';
import { endChild, eventually, freePort, spawnChild } from './child-process.js';

/** How to run one kind of broker. */
export interface BrokerRecipe {
  name: string;
  /** Programs to try, in order of preference. */
  programs: readonly string[];
  args(port: number, folder: string): Promise<readonly string[]> | readonly string[];
  /** Environment in addition to this process's. */
  env?: Readonly<Record<string, string>>;
  /** True once the broker serves on `port`. An open port is not enough: it may belong to another process. */
  serves(port: number): Promise<boolean>;
}

/** A broker started for a test. */
export interface BrokerProcess {
  readonly port: number;
  readonly pid: number;
  /** Folder with its data. */
  readonly folder: string;
  /** Ends the broker and removes its folder. */
  stop(): Promise<void>;
  /** Ends the broker as a crash would; `restart` brings it back on the same port and data. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  /** Freezes and thaws the process (SIGSTOP, SIGCONT). */
  pause(): void;
  resume(): void;
  /** Thaws the broker, or restarts it when it has ended. */
  revive(): Promise<void>;
}

const TRIES = 5;

/** Starts a broker on a free loopback port with its own data folder. Retries when another process takes the port first. */
export async function startBroker(recipe: BrokerRecipe): Promise<BrokerProcess> {
  const folder = await mkdtemp(join(tmpdir(), `toolfleet-${recipe.name}-`));
  let problem: unknown;
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const port = await freePort();
    try {
      const child = await launch(recipe, port, folder);
      return new RunningBroker(recipe, port, folder, child);
    } catch (error) {
      problem = error;
    }
  }
  await rm(folder, { recursive: true, force: true });
  throw problem;
}

class RunningBroker implements BrokerProcess {
  constructor(
    private readonly recipe: BrokerRecipe,
    readonly port: number,
    readonly folder: string,
    private child: ChildProcess,
  ) {}

  get pid(): number {
    return this.child.pid ?? 0;
  }

  async stop(): Promise<void> {
    await endChild(this.child);
    await rm(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async kill(): Promise<void> {
    await endChild(this.child, 'SIGKILL');
  }

  async restart(): Promise<void> {
    await endChild(this.child);
    this.child = await launch(this.recipe, this.port, this.folder);
  }

  pause(): void {
    this.child.kill('SIGSTOP');
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  async revive(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.resume();
    else await this.restart();
  }
}

async function launch(recipe: BrokerRecipe, port: number, folder: string): Promise<ChildProcess> {
  const args = await recipe.args(port, folder);
  let missing: Error | undefined;
  for (const program of recipe.programs) {
    const child = spawnChild(program, args, recipe.env ? { env: { ...process.env, ...recipe.env } } : {}, folder);
    let output = '';
    let failure: Error | undefined;
    child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.once('error', (error) => (failure = error));
    try {
      await eventually(`${recipe.name} serves on port ${port}`, async () => {
        if (failure) return true;
        if (child.exitCode !== null) throw new Error(`${recipe.name} ended at once:\n${output}`);
        return recipe.serves(port);
      });
    } catch (error) {
      await endChild(child, 'SIGKILL');
      throw error;
    }
    if (!failure) return child;
    missing = new Error(`${recipe.name}: cannot run ${program} (${failure.message})`);
  }
  throw missing ?? new Error(`${recipe.name}: no program given`);
}

/** Sends `question` to a port. @returns whether the response contains `answer` */
export function answers(port: number, question: string, answer: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    const end = (ok: boolean): void => {
      socket.destroy();
      resolve(ok);
    };
    socket.setTimeout(1_000, () => end(false));
    socket.once('error', () => end(false));
    socket.once('close', () => end(received.includes(answer)));
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (received.includes(answer)) end(true);
    });
    socket.write(question);
  });
}
