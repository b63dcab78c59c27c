import {
  eventId,
  MAX_SENT_EVENTS,
  type FleetEvent,
  type RecordsEvent,
  type RecordsEventReply,
} from '@toolfleet/contracts/events';
import type { Milliseconds } from '@toolfleet/contracts';
import { eventReportSubject } from '@toolfleet/contracts/subjects';
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
  /** The service that reports: the broker lets it use its own subject only. */
  service: string;
  nats: Pick<NatsClient, 'request'>;
  clock: Clock;
  logger: { warn(fields: object, text: string): void };
}

/**
 * Reports events to the service `records`, each until it is durable there. What waits is in memory: a service with events that follow from a
 * state that it stores (a limit that was reached, a quarantined tool, a failing source) reports that state again when it starts, and
 * loses none; what happened is stored once. A lifecycle component: it starts after the connection.
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
    const id = eventId(event);
    if (this.#known.has(id) || this.#waiting.has(id)) return;
    if (this.#waiting.size >= MAX_WAITING) this.#drop();
    this.#waiting.set(id, event);
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
    const [oldest] = this.#waiting;
    if (!oldest) return;
    const [id, { kind }] = oldest;
    this.#waiting.delete(id);
    this.deps.logger.warn({ event_id: id, kind }, 'an event was dropped: too many wait for the service records');
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      const { nats, service } = this.deps;
      const batch = [...this.#waiting].slice(0, MAX_SENT_EVENTS);
      const message: RecordsEvent = { events: batch.map(([, event]) => event) as RecordsEvent['events'] };
      try {
        await nats.request<RecordsEventReply>(eventReportSubject(service), message, { timeoutMs: TIMEOUT_MS });
      } catch {
        return this.#sendLater();
      }
      this.#failures = 0;
      for (const [id] of batch) {
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
