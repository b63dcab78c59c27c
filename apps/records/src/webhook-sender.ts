import { isToolError, type Milliseconds } from '@toolfleet/contracts';
import type { EgressClient, EgressResponse } from '@toolfleet/egress';
import { CostlyTurns, Rounds, Semaphore, SystemClock } from '@toolfleet/resilience';
import type { ServiceHost } from '@toolfleet/service';
import type { AttemptResult, ClaimedDelivery, DeliveryQueue } from './delivery-queue.js';
import type { Receiver, WebhookEndpoints } from './webhook-endpoints.js';

/** Pauses between the attempts of a delivery, in seconds: the last begins 23 h 43 min after the first. */
const PAUSES_S = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800];
/** A retry begins at least this long before its delivery is given up. */
const LAST_ATTEMPT_MS = 120_000;
/** Pauses vary by this share, so that deliveries that failed together do not come back together. */
const JITTER = 0.1;
/** How often due deliveries are looked for: retries, and what killed replicas left. New ones wake the sender. */
const POLL_MS = 1_000;
/** How often the backlog is measured, and deliveries that waited too long end. */
const UPKEEP_MS = 60_000;
/** Requests to one endpoint at a time, once it has answered with success. */
const PARALLEL = 4;
/** Rounds of requests at a time: to endpoints after a success, and to all others that may hang. */
const PROVEN_ROUNDS = 128;
const UNPROVEN_ROUNDS = 128;
/** A claim lasts this much longer than an attempt may. */
const CLAIM_MARGIN_MS = 20_000;
/** The breaker of an endpoint: after so many failures in a row it gets one attempt per pause instead of all that is due. */
const MAX_FAILURES = 5;
const PAUSE_MS = 60_000;
/** Requests at a time, to all endpoints. */
export const MAX_REQUESTS = PROVEN_ROUNDS * PARALLEL + UNPROVEN_ROUNDS;
const MAX_ANSWER_BYTES = 4_096;
const SHOWN_CHARS = 200;
/** RFC 9110, 15.5.11: the receiver is gone for good. */
const GONE = 410;

interface SenderDeps {
  queue: DeliveryQueue;
  endpoints: WebhookEndpoints;
  egress: Pick<EgressClient, 'request'>;
  /** Of one attempt, from connecting to the last byte of the answer. */
  timeoutMs: Milliseconds;
  /** Deliveries that may wait for the endpoints of one tenant; beyond it the one with the most is switched off. */
  maxPending: number;
}

/**
 * Posts deliveries to their endpoints. Each endpoint has its own worker for due deliveries in order; an endpoint that has not
 * answered with success gets one request at a time from its own share of connections, so that those that hang delay no other. A delivery
 * is claimed in the store before it is attempted and ends there after, so that a process that is killed repeats it under the same id.
 */
export class WebhookSender {
  readonly name = 'webhooks';
  /** Outcomes of the last attempts by endpoint; absent: none was made. */
  readonly #health = new Map<string, Health>();
  readonly #lanes = { proven: new Semaphore(PROVEN_ROUNDS), unproven: new Semaphore(UNPROVEN_ROUNDS) };
  /** Of work in the store, because its statements hold the event loop where it is embedded: lists of calls come between two turns. */
  readonly #turns = new CostlyTurns(new SystemClock());
  /** Workers by endpoint. */
  readonly #working = new Map<string, Promise<void>>();
  /** Endpoints that got deliveries while their worker ran. */
  readonly #again = new Set<string>();
  #results: AttemptResult[] = [];
  #storing: Promise<void> | undefined;
  readonly #rounds: Rounds;
  #upkeepAt: Milliseconds = 0;
  #isStopped = false;

  constructor(
    private readonly deps: SenderDeps,
    private readonly host: Pick<ServiceHost, 'clock' | 'logger' | 'metrics'>,
  ) {
    this.#rounds = new Rounds({
      clock: host.clock,
      everyMs: POLL_MS,
      work: () => this.#poll(),
      onFailure: (error) => host.logger.debug({ error }, 'due webhooks cannot be read; retried'),
    });
  }

  async start(): Promise<void> {
    this.#rounds.start();
  }

  /** Ends after the attempts that are under way. */
  async drain(): Promise<void> {
    this.#isStopped = true;
    await this.#rounds.stop();
    await this.idle();
    await this.#storing;
  }

  /** Sends due deliveries to these endpoints. */
  wake(endpoints: readonly string[]): void {
    for (const id of endpoints) {
      if (this.#isStopped) return;
      if (this.#working.has(id)) {
        this.#again.add(id);
        continue;
      }
      const work = this.#work(id)
        .catch((error: unknown) => this.host.logger.warn({ error, webhook: id }, 'events cannot be sent; retried'))
        .finally(() => this.#working.delete(id));
      this.#working.set(id, work);
    }
  }

  /** Attempts at once what waits for an endpoint, whatever became of earlier attempts: it was repaired. */
  async renew(id: string): Promise<void> {
    this.#health.delete(id);
    await this.deps.queue.renew(id, this.host.clock.now());
    this.wake([id]);
  }

  /** Resolves when no delivery is due that this process may attempt. */
  async idle(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working.values());
  }

  async #poll(): Promise<void> {
    const { clock } = this.host;
    if (clock.monotonic() >= this.#upkeepAt) {
      this.#upkeepAt = clock.monotonic() + UPKEEP_MS;
      await this.upkeep();
    }
    this.wake(await this.deps.queue.due(clock.now()));
  }

  /** Measures the backlog, ends deliveries that waited too long, and switches endpoints off that will not catch up. */
  async upkeep(): Promise<void> {
    const { clock, logger, metrics } = this.host;
    const { queue, endpoints, maxPending } = this.deps;
    const ended = await queue.giveUp(clock.now());
    if (ended > 0) metrics.webhookDeliveries.inc({ outcome: 'failed' }, ended);
    const { pending, overdueMs, overfull } = await queue.backlog(clock.now(), maxPending);
    metrics.webhooksPending.set(pending);
    metrics.webhookOverdue.set(overdueMs / 1_000);
    for (const id of overfull) {
      await endpoints.disable(
        id,
        'off',
        `More than ${maxPending} events waited for the webhooks of its tenant, most of them for this one`,
      );
      logger.warn({ webhook: id, pending: maxPending }, 'a webhook was switched off: too many events wait for it');
    }
  }

  async #work(id: string): Promise<void> {
    do {
      this.#again.delete(id);
      const lane = this.#isProven(id) ? this.#lanes.proven : this.#lanes.unproven;
      // Both lanes take any number of waiting rounds.
      while (!this.#isStopped && (await lane.run(() => this.#round(id))!)) continue;
    } while (this.#again.has(id) && !this.#isStopped);
  }

  /** Attempts some due deliveries. @returns whether to go on */
  async #round(id: string): Promise<boolean> {
    const { queue, endpoints, timeoutMs } = this.deps;
    if (this.host.clock.monotonic() < (this.#health.get(id)?.pausedUntil ?? 0)) return false;
    await this.#turns.next(id);
    const receiver = await endpoints.receiver(id);
    if (!receiver) {
      this.#health.delete(id);
      return false;
    }
    const now = this.host.clock.now();
    const limit = this.#isProven(id) ? PARALLEL : 1;
    const claimed = await queue.claim(id, limit, now, now + timeoutMs + CLAIM_MARGIN_MS);
    const results = await Promise.all(claimed.map((delivery) => this.#deliver(receiver, delivery)));
    await this.#store(results.map(({ result }) => result));
    await this.#noteHealth(receiver, results);
    return claimed.length > 0;
  }

  /** Whether its last attempt succeeded. */
  #isProven(id: string): boolean {
    return this.#health.get(id)?.failures === 0;
  }

  async #deliver(receiver: Receiver, delivery: ClaimedDelivery): Promise<Delivered> {
    const answer = await this.#attempt(receiver, delivery);
    const { clock } = this.host;
    const failures = isSuccess(answer) ? 0 : (this.#health.get(receiver.id)?.failures ?? 0) + 1;
    this.#health.set(receiver.id, {
      failures,
      pausedUntil: failures < MAX_FAILURES ? 0 : clock.monotonic() + PAUSE_MS,
    });
    return this.#judge(delivery, answer);
  }

  /** One request. Whatever fails is in the answer. */
  async #attempt(receiver: Receiver, { event_id, payload }: ClaimedDelivery): Promise<ReceiverAnswer> {
    const { egress, timeoutMs } = this.deps;
    const { clock } = this.host;
    const startedAt = clock.monotonic();
    const took = () => clock.monotonic() - startedAt;
    try {
      const response = await egress.request({
        method: 'POST',
        url: receiver.url,
        headers: { 'content-type': 'application/json', ...receiver.sign(event_id, payload, clock.now()) },
        body: payload,
        timeouts: { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs },
        maxBytes: MAX_ANSWER_BYTES,
        onOverflow: 'truncate',
      });
      const text = await response.body.text().catch(() => '');
      return { status: response.status, text, retryAfterMs: readRetryAfter(response), durationMs: took() };
    } catch (error) {
      return { text: isToolError(error) ? error.message : String(error), durationMs: took() };
    }
  }

  #judge({ position, attempts, give_up_at, event_at, kind }: ClaimedDelivery, answer: ReceiverAnswer): Delivered {
    const { clock, metrics } = this.host;
    const { status, durationMs: duration_ms } = answer;
    const ended = { position, status, duration_ms };
    if (isSuccess(answer)) {
      metrics.webhookDeliveries.inc({ outcome: 'delivered' });
      if (attempts === 1 && kind !== 'webhook.test')
        metrics.webhookDelay.observe(Math.max(0, clock.now() - event_at) / 1_000);
      return { outcome: 'delivered', result: { ...ended, state: 'delivered' } };
    }
    const error = errorText(answer);
    const pauseMs = Math.max(pauseAfter(attempts), answer.retryAfterMs ?? 0);
    // Longer pauses than planned do not cost the last attempt of the day.
    const next_at = Math.min(clock.now() + pauseMs, give_up_at - LAST_ATTEMPT_MS);
    if (status === GONE || attempts > PAUSES_S.length || next_at <= clock.now()) {
      metrics.webhookDeliveries.inc({ outcome: 'failed' });
      return { outcome: status === GONE ? 'gone' : 'failed', error, result: { ...ended, state: 'failed', error } };
    }
    metrics.webhookDeliveries.inc({ outcome: 'retried' });
    return { outcome: 'retried', error, result: { ...ended, state: 'pending', next_at, error } };
  }

  async #noteHealth(receiver: Receiver, results: readonly Delivered[]): Promise<void> {
    const { endpoints } = this.deps;
    const { clock, logger } = this.host;
    const { id } = receiver;
    if (results.some(({ outcome }) => outcome === 'gone')) {
      await endpoints.disable(id, 'gone', 'The endpoint answered 410 Gone');
      return logger.warn({ webhook: id, tenant_id: receiver.tenantId }, 'a webhook answered 410 and was switched off');
    }
    const last = results.at(-1);
    if (!last) return;
    if (last.error === undefined && receiver.failingSince !== undefined) await endpoints.noteHealth(id, undefined);
    if (last.error !== undefined && receiver.failingSince === undefined)
      await endpoints.noteHealth(id, { error: last.error, since: clock.now() });
  }

  /** Stores results of attempts, several endpoints' in one transaction. What cannot be stored is sent again after its claim. */
  #store(results: readonly AttemptResult[]): Promise<void> {
    if (results.length === 0) return Promise.resolve();
    this.#results.push(...results);
    const before = this.#storing ?? Promise.resolve();
    const flush = before
      .catch(() => undefined)
      .then(async () => {
        await this.#turns.next('');
        const all = this.#results.splice(0);
        if (all.length > 0) await this.deps.queue.finish(all, this.host.clock.now());
      });
    this.#storing = flush.catch(() => undefined);
    return flush;
  }
}

/** The breaker of an endpoint. */
interface Health {
  /** In a row. */
  failures: number;
  /** Monotonic. */
  pausedUntil: Milliseconds;
}

/** The answer of an endpoint. */
interface ReceiverAnswer {
  /** Absent: there was no answer, and `text` says why. */
  status?: number;
  text: string;
  retryAfterMs?: Milliseconds | undefined;
  durationMs: Milliseconds;
}

interface Delivered {
  outcome: 'delivered' | 'retried' | 'failed' | 'gone';
  error?: string;
  result: AttemptResult;
}

const isSuccess = ({ status = 0 }: ReceiverAnswer): boolean => status >= 200 && status < 300;

function pauseAfter(attempts: number): Milliseconds {
  const seconds = PAUSES_S[Math.min(attempts, PAUSES_S.length) - 1] ?? 0;
  return Math.round(seconds * 1_000 * (1 + JITTER * (2 * Math.random() - 1)));
}

function errorText({ status, text }: ReceiverAnswer): string {
  const shown = text
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, SHOWN_CHARS);
  if (status === undefined) return shown;
  if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed; change the URL`;
  return shown === '' ? `HTTP ${status}` : `HTTP ${status}: ${shown}`;
}

/** Seconds of a Retry-After header (RFC 9110, 10.2.3); dates are ignored. */
function readRetryAfter({ headers }: EgressResponse): Milliseconds | undefined {
  const value = headers['retry-after'];
  return typeof value === 'string' && /^\d{1,6}$/.test(value) ? Number(value) * 1_000 : undefined;
}
