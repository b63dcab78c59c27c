import type { IncomingMessage } from 'node:http';
import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { FastifyInstance } from 'fastify';

const TICK_MS = 100;
/** A process that did not run for this long was suspended, or its machine was. */
const SUSPENDED_MS = 2_000;
/** Time to read the requests that arrived meanwhile. */
const READ_MS = 250;

/**
 * Notices that the process was suspended. Requests that it reads right after may have waited for it, and their callers may have
 * given up and asked another gateway.
 */
export class Suspensions {
  #tickAt: number;
  #last = { ms: 0, until: 0 };
  #cancelTick: CancelTimer | undefined;

  constructor(private readonly clock: Clock) {
    this.#tickAt = clock.monotonic();
  }

  start(): void {
    this.#tickAt = this.#check();
    this.#cancelTick = this.clock.after(TICK_MS, () => this.start());
  }

  stop(): void {
    this.#cancelTick?.();
  }

  /** Longest time that a request which is read now may have waited. */
  waitedMs(): Milliseconds {
    return this.#check() <= this.#last.until ? this.#last.ms : 0;
  }

  /** Requests may be read before the timers that became due meanwhile. @returns the present time */
  #check(): Milliseconds {
    const now = this.clock.monotonic();
    const ms = now - this.#tickAt - TICK_MS;
    if (ms > SUSPENDED_MS) this.#last = { ms, until: now + READ_MS };
    if (ms > SUSPENDED_MS) this.#tickAt = now;
    return now;
  }
}

const waited = new WeakMap<IncomingMessage, Milliseconds>();

/** Notes how long each request may have waited for a process that was suspended. Install it before all other hooks. */
export function noteLateRequests(fastify: FastifyInstance, suspensions: Suspensions): void {
  fastify.addHook('onListen', () => suspensions.start());
  fastify.addHook('onClose', async () => suspensions.stop());
  fastify.addHook('onRequest', (request, _reply, done) => {
    const ms = suspensions.waitedMs();
    if (ms > 0) waited.set(request.raw, ms);
    done();
  });
}

/** How long a request may have waited before it was read; its time began that much earlier. */
export const waitedMs = (request: IncomingMessage): Milliseconds => waited.get(request) ?? 0;
