import { LRUCache } from 'lru-cache';
import type { CallResult, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { HistoryStore } from '../ports.js';

/** Calls remembered over all sessions. */
const MAX_CALLS = 5_000;

/** Session history of one process. */
export class MemoryHistoryStore extends HistoryStore {
  readonly #calls = new LRUCache<string, { result: CallResult; endsAt: Milliseconds }>({ max: MAX_CALLS });

  constructor(private readonly clock: Clock) {
    super();
  }

  override get(sessionKey: string, callKey: string): CallResult | undefined {
    const entry = this.#calls.get(`${sessionKey} ${callKey}`);
    return entry && entry.endsAt > this.clock.monotonic() ? entry.result : undefined;
  }

  override put(sessionKey: string, callKey: string, result: CallResult, ttlMs: Milliseconds): void {
    this.#calls.set(`${sessionKey} ${callKey}`, { result, endsAt: this.clock.monotonic() + ttlMs });
  }
}
