import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { PolicyEngine, type PolicyDecision, type PolicyInput } from './policy-engine.js';
import { type PolicyFile, RegoPolicy } from './rego-policy.js';

/** Told of every change of the policy. */
export interface PolicyEvents {
  loaded?(hash: string): void;
  /** A policy that does not load, with what stays in force (undefined: nothing yet, every call is denied). */
  refused?(error: Error, keptHash: string | undefined): void;
}

export interface ReloadingPolicySettings {
  /** Reads all files of the policy. */
  read(): Promise<PolicyFile[]>;
  clock: Clock;
  /** How often the files are read again; reading a few small files is cheap, and no watcher misses a swapped symlink. */
  everyMs: number;
  events?: PolicyEvents;
}

/** The policy in force, read again at intervals. A bad file leaves the previous policy active. */
export class ReloadingPolicy extends PolicyEngine {
  private current?: RegoPolicy;
  private seen?: string;
  private candidate?: string;
  private cancel?: CancelTimer;
  private stopped = false;

  constructor(private readonly settings: ReloadingPolicySettings) {
    super();
  }

  /** Hash of the policy in force. */
  get hash(): string | undefined {
    return this.current?.hash;
  }

  /** False until a first policy was loaded. */
  get ready(): boolean {
    return this.current !== undefined;
  }

  /** Loads once and keeps reading. A bad first policy does not throw: the service stays unready and denies until it is mended. */
  async start(): Promise<void> {
    await this.reload();
    this.schedule();
  }

  stop(): void {
    this.stopped = true;
    this.cancel?.();
  }

  override decide(input: PolicyInput): PolicyDecision {
    return this.current?.decide(input) ?? { deny: ['no policy is loaded'] };
  }

  /**
   * Reads the files now; does nothing when they are those of the last time. Changed files are taken when they read the same
   * twice in a row: a file that is being written may parse with half of its rules, which would allow more, not less.
   */
  async reload(): Promise<void> {
    try {
      const files = await this.settings.read();
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

  private schedule(): void {
    if (this.stopped) return;
    this.cancel = this.settings.clock.after(
      this.settings.everyMs,
      () => void this.reload().then(() => this.schedule()),
    );
  }
}
