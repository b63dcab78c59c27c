import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Rounds, type Clock } from '@toolfleet/resilience';
import { PolicyEngine, type PolicyDecision, type PolicyInput } from './policy-engine.js';
import { type PolicyFile, RegoPolicy } from './rego-policy.js';

/** Callbacks for changes of the policy. */
interface PolicyEvents {
  loaded?(hash: string): void;
  /** A policy failed to load. `activeHash` is the policy that stays active; undefined if none was loaded and all calls are denied. */
  refused?(error: Error, activeHash: string | undefined): void;
}

interface ReloadingPolicySettings {
  /** Reads all files of the policy. */
  read(): Promise<PolicyFile[]>;
  clock: Clock;
  /** Interval between two reads. Polling a few small files is cheap, and file watchers miss swapped symlinks. */
  everyMs: number;
  events?: PolicyEvents;
}

/** A policy that reloads its files periodically. If the new files are invalid, the previous policy stays active. */
export class ReloadingPolicy extends PolicyEngine {
  private current?: RegoPolicy;
  private seen?: string;
  private candidate?: string;
  private readonly rounds: Rounds;

  constructor(private readonly settings: ReloadingPolicySettings) {
    super();
    this.rounds = new Rounds({ clock: settings.clock, everyMs: settings.everyMs, work: () => this.reload() });
  }

  /** Hash of the active policy. */
  get hash(): string | undefined {
    return this.current?.hash;
  }

  /** True after a policy was loaded. */
  get ready(): boolean {
    return this.current !== undefined;
  }

  /** Loads the policy and keeps reloading. An invalid first policy does not reject: the service stays unready and denies all calls. */
  async start(): Promise<void> {
    await this.reload();
    this.rounds.start();
  }

  stop(): void {
    void this.rounds.stop();
  }

  override decide(input: PolicyInput): PolicyDecision {
    return this.current?.decide(input) ?? { deny: ['no policy is loaded'] };
  }

  /**
   * Reads the files and loads them if they changed. Changed files must read the same twice in a row: a file that is still being written
   * may parse with only half of its rules, and missing rules allow more calls.
   */
  async reload(): Promise<void> {
    try {
      const files = await this.readFiles();
      const text = JSON.stringify(files);
      const settled = text === this.candidate || this.seen === undefined;
      this.candidate = text;
      if (text === this.seen || !settled) return;
      this.seen = text;
      this.current = new RegoPolicy(files, this.settings.clock);
      this.settings.events?.loaded?.(this.current.hash);
    } catch (error) {
      this.settings.events?.refused?.(error instanceof Error ? error : new Error(String(error)), this.hash);
    }
  }

  /** After a failed read the files count as changed, so that `loaded` or `refused` tells that they can be read again. */
  private async readFiles(): Promise<PolicyFile[]> {
    try {
      return await this.settings.read();
    } catch (error) {
      if (this.seen !== undefined) this.seen = '';
      throw error;
    }
  }
}

/**
 * Reads all `*.rego` files of a folder and its `data.json`, sorted by name.
 * @throws Error when the folder has no rule file
 */
export async function readPolicyFolder(folder: string): Promise<PolicyFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.rego') || name === 'data.json').toSorted();
  if (!names.some((name) => name.endsWith('.rego'))) throw new Error(`no *.rego file in ${folder}`);
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(folder, name), 'utf8') })));
}
