import { MAX_SENT_EVENTS, type FleetEvent, type RecordsEvent } from '@toolfleet/contracts/events';
import type { Milliseconds } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { NatsClient } from './nats-client.js';

/** Events that wait for the service `records`; the oldest are dropped. */
const MAX_WAITING = 1_000;
/** Ids of events that are durable, so that reporting them again costs nothing. */
const MAX_KNOWN = 10_000;
const TIMEOUT_MS = 10_000;
const RESEND_MS = 1_000;
const MAX_RESEND_MS = 30_000;

interface ReporterDeps {
  nats: Pick<NatsClient, 'ask'>;
  clock: Clock;
  logger: { warn(fields: object, text: string): void };
}

/**
 * Reports events to the service `records`, each until it is durable there. What waits is in memory: a service whose events follow from a
 * state that it stores (a limit that was reached, a quarantined tool, a failing source) reports that state again when it starts, and
 * loses none; the id makes a repeated report harmless. A lifecycle component: it starts after the connection.
 */
export class EventReporter {
  readonly name = 'events';
  readonly #waiting = new Map<string, FleetEvent>();
  readonly #known = new Set<string>();
  #sending: Promise<void> | undefined;
  #failures = 0;
  #cancelTimer: CancelTimer | undefined;
  #isStopped = false;

  constructor(private readonly deps: ReporterDeps) {}

  /** Reports an event, once per process. Never waits. */
  report(event: FleetEvent): void {
    if (this.#known.has(event.id) || this.#waiting.has(event.id)) return;
    if (this.#waiting.size >= MAX_WAITING) this.#drop();
    this.#waiting.set(event.id, event);
    // While the service is unavailable, the timer sends.
    if (!this.#cancelTimer) this.#send();
  }

  /** Sends what waits before the process ends, for at most this time. */
  async drain(timeoutMs: Milliseconds = 2_000): Promise<void> {
    const { clock } = this.deps;
    this.#isStopped = true;
    this.#cancelTimer?.();
    if (this.#waiting.size > 0) this.#send();
    await Promise.race([this.#sending, clock.sleep(timeoutMs)]);
  }

  #drop(): void {
    const [oldest] = this.#waiting.values();
    if (!oldest) return;
    this.#waiting.delete(oldest.id);
    const { id, kind } = oldest;
    this.deps.logger.warn({ event_id: id, kind }, 'an event was dropped: too many wait for the service records');
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      const events = [...this.#waiting.values()].slice(0, MAX_SENT_EVENTS);
      try {
        const message: RecordsEvent = { events: events as RecordsEvent['events'] };
        await this.deps.nats.ask(SUBJECTS.recordsEvent, message, { timeoutMs: TIMEOUT_MS });
      } catch {
        return this.#sendLater();
      }
      this.#failures = 0;
      for (const { id } of events) {
        this.#waiting.delete(id);
        this.#remember(id);
      }
    }
  }

  #sendLater(): void {
    if (this.#isStopped) return;
    const delayMs = Math.min(RESEND_MS * 2 ** this.#failures, MAX_RESEND_MS);
    this.#failures += 1;
    this.#cancelTimer = this.deps.clock.after(delayMs, () => {
      this.#cancelTimer = undefined;
      this.#send();
    });
  }

  #remember(id: string): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.values().next().value!);
    this.#known.add(id);
  }
}
