import type { Clock } from '@toolfleet/resilience';

/** A call that waits for a reply. */
export interface WaitingCall {
  /** Instant of the next `due` call, on the clock's monotonic scale. */
  dueAt: number;
  /** Called by the sweep when `dueAt` has passed. May set a later `dueAt` to stay, or finish the call. */
  due(): void;
}

/** How late a deadline may be noticed; one timer serves every waiting call. */
const SWEEP_MS = 20;

/**
 * Calls that wait for a reply, by the token at the end of their reply subject. One timer sweeps all of them while any is
 * waiting: a timer per call costs more than the call.
 */
export class PendingRequests<C extends WaitingCall> {
  readonly #calls = new Map<string, C>();
  #count = 0;
  #sweeping = false;

  constructor(private readonly clock: Clock) {}

  /** Registers a call and returns its token. */
  add(call: C): string {
    const token = (++this.#count).toString(36);
    this.#calls.set(token, call);
    if (!this.#sweeping) this.#schedule();
    return token;
  }

  get(token: string): C | undefined {
    return this.#calls.get(token);
  }

  remove(token: string): void {
    this.#calls.delete(token);
  }

  get size(): number {
    return this.#calls.size;
  }

  /** All waiting calls, for closing. */
  all(): C[] {
    return [...new Set(this.#calls.values())];
  }

  #schedule(): void {
    this.#sweeping = true;
    // Timers run before input: after a stall of this process, answers lie unread in the socket, and a sweep right here
    // would take them for missing (and send exec messages again). `setImmediate` comes after the input was read.
    this.clock.after(SWEEP_MS, () => setImmediate(() => this.#sweep()));
  }

  #sweep(): void {
    const now = this.clock.monotonic();
    for (const call of this.#calls.values()) if (call.dueAt <= now) call.due();
    if (this.#calls.size > 0) this.#schedule();
    else this.#sweeping = false;
  }
}
