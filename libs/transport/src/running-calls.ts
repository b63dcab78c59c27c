import { ToolError } from '@toolfleet/contracts';
import { HEADERS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { EndpointContext } from './endpoint-context.js';

/** Silence after which an exec call is acknowledged: well inside the caller's 250 ms, late enough that fast tools pay nothing. */
const ACK_AFTER_MS = 150;
const SWEEP_MS = 20;

/** Messages in work: one timer acknowledges long ones and aborts those past their deadline; cancels find them by call id. */
export class InFlightCalls {
  readonly #running = new Set<EndpointContext>();
  readonly #unacknowledged = new Set<EndpointContext>();
  #sweeping = false;

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.#running.size;
  }

  /** Registers a message in work; the returned function ends it. */
  begin(context: EndpointContext, acknowledges: boolean): () => void {
    this.#running.add(context);
    if (acknowledges) this.#unacknowledged.add(context);
    if (!this.#sweeping) this.#schedule();
    return () => {
      this.#running.delete(context);
      if (acknowledges) this.#unacknowledged.delete(context);
    };
  }

  /** Aborts every attempt of a call, or one attempt. */
  cancel(callId: string, attempt?: number): void {
    for (const context of this.#running) {
      if (context.callId !== callId) continue;
      if (attempt !== undefined && context.headers.get(HEADERS.attempt) !== String(attempt)) continue;
      context.abort(new ToolError('CANCELLED'));
    }
  }

  #schedule(): void {
    this.#sweeping = true;
    this.clock.after(SWEEP_MS, () => {
      const now = this.clock.monotonic();
      for (const context of this.#unacknowledged) {
        if (now - context.startedAt < ACK_AFTER_MS) break; // insertion order is order of arrival
        this.#unacknowledged.delete(context);
        context.ack();
      }
      for (const context of this.#running) {
        if (now - context.startedAt >= context.remainingMs) context.abort(new ToolError('DEADLINE_EXCEEDED'));
      }
      if (this.#running.size > 0) this.#schedule();
      else this.#sweeping = false;
    });
  }
}
