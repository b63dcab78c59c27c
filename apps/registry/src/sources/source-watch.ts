import { toToolError, type EpochMs, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { KeyedMutex, type CancelTimer, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { registrationStamp, type Footing, type SourceLook, type StoredRegistration } from '../definition-store.js';
import { isSuperseded } from '../source-store.js';

/** What every kind of source needs of the registry. */
export interface SourceDeps {
  register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply>;
  /** Records the outcome of a refresh; never rejects. */
  keepLook(source: ToolSource, look: SourceLook): Promise<void>;
}

/** A source that is looked at again and again. */
export interface Watched<E> {
  readonly entry: E;
  /** Set for a source that was registered at run time. */
  readonly registration: StoredRegistration | undefined;
  failures: number;
  /** Tools that the last look gave. */
  tools: number;
  cancel?: CancelTimer;
  /** When `cancel` ends the wait for the next look. */
  nextAt?: EpochMs;
}

const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/**
 * Keeps the definitions of the sources of one kind current. A source that cannot be read keeps its tools and is tried again with
 * exponential backoff.
 *
 * A look can finish after its source was replaced or removed, here or on another replica. Therefore results of one source are
 * registered one after another (`mutex`), only for the current `Watched`, and together with the stored registration (`Footing`).
 */
export abstract class WatchedSources<E, W extends Watched<E>> {
  /** By source name. */
  protected readonly watched = new Map<string, W>();
  protected readonly mutex = new KeyedMutex();
  protected readonly stopped = new AbortController();

  constructor(
    protected readonly keepLook: SourceDeps['keepLook'],
    protected readonly clock: Clock,
    protected readonly logger: Logger,
  ) {}

  protected abstract source(entry: E): ToolSource;
  /** Registers the tools that a source has now, and calls `onLooked`. */
  protected abstract read(watched: W): Promise<void>;
  /** Takes a new or replaced registration. */
  protected abstract adopt(registration: StoredRegistration<JsonObject>): Promise<void>;
  protected abstract logFailure(entry: E, error: string, state: SourceLook['state']): void;

  /** Adopts new and replaced registrations, and forgets those that are no longer stored. */
  async follow(stored: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(stored.map(({ name }) => name));
    for (const [name, { registration }] of this.watched) if (registration && !names.has(name)) this.forget(name);
    for (const registration of stored) {
      const known = this.followed(registration.name);
      if (!known || registrationStamp(known) !== registrationStamp(registration)) await this.adopt(registration);
    }
  }

  /** Looks at one source now; resolves when its tools are registered, or it has failed. @returns false for other sources */
  async look(name: string): Promise<boolean> {
    const watched = this.watched.get(name);
    if (watched) await this.refresh(watched);
    return watched !== undefined;
  }

  /** Stops watching one source. */
  forget(name: string): void {
    this.watched.get(name)?.cancel?.();
    this.watched.delete(name);
  }

  /** Stops watching all sources. */
  stop(): void {
    this.stopped.abort();
    for (const watched of this.watched.values()) watched.cancel?.();
  }

  /** The registration of this name that is followed. */
  protected followed(name: string): StoredRegistration | undefined {
    return this.watched.get(name)?.registration;
  }

  protected watch(watched: W): W {
    const { name } = this.source(watched.entry);
    this.watched.get(name)?.cancel?.();
    this.watched.set(name, watched);
    return watched;
  }

  /** False after the source was replaced or forgotten; results of its looks are then discarded. */
  protected isCurrent(watched: W): boolean {
    return !this.stopped.signal.aborted && this.watched.get(this.source(watched.entry).name) === watched;
  }

  protected async refresh(watched: W): Promise<void> {
    try {
      await this.read(watched);
    } catch (error) {
      if (!this.isCurrent(watched)) return;
      const source = this.source(watched.entry);
      if (isSuperseded(error)) return this.forget(source.name);
      const { message, facts } = toToolError(error);
      const state = facts?.reason === 'auth_failed' ? 'auth_failed' : 'failed';
      const at = this.clock.now();
      watched.failures += 1;
      this.logFailure(watched.entry, message, state);
      this.schedule(watched, Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (watched.failures - 1)));
      const { nextAt } = watched;
      await this.keepLook(source, { state, at, error: message, refused: [], notes: [], nextAt });
    }
  }

  /** Notes the outcome of a refresh, and plans the next one; without `nextMs` there is none. */
  protected async onLooked(watched: W, seen: Omit<SourceLook, 'at' | 'nextAt'>, nextMs?: Milliseconds): Promise<void> {
    const at = this.clock.now();
    watched.failures = 0;
    this.schedule(watched, nextMs);
    await this.keepLook(this.source(watched.entry), { ...seen, at, nextAt: watched.nextAt });
  }

  protected schedule(watched: W, delayMs: Milliseconds | undefined): void {
    watched.cancel?.();
    watched.nextAt = undefined;
    if (delayMs === undefined || !this.isCurrent(watched)) return;
    watched.nextAt = this.clock.now() + delayMs;
    watched.cancel = this.clock.after(delayMs, () => void this.refresh(watched));
  }
}
