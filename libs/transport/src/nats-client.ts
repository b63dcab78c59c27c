import { randomUUID } from 'node:crypto';
import { isToolError, ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS, progressSubject } from '@toolfleet/contracts/subjects';
import { CostlyTurns, SystemClock, type Clock } from '@toolfleet/resilience';
import { traceHeaders, type Metrics } from '@toolfleet/telemetry';
import { AckedRequest, type AckedMessage, type AckedOptions } from './acked-request.js';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import { encode, NO_HEADERS, parseLenient, type IncomingHeaders, type OutgoingHeaders } from './codec.js';
import { NatsLink, type NatsSubscription } from './nats-connection.js';
import type { NatsOptions } from './nats-options.js';
import { PendingRequests, PlainRequest, type ClientInternals } from './pending-requests.js';

/** Options of a client. */
interface NatsClientOptions extends NatsOptions {
  clock?: Clock;
  metrics?: Metrics;
  /** Timeout of requests without one. Default 5,000 ms. */
  defaultTimeoutMs?: Milliseconds;
}

/** Options of a request. */
interface RequestOptions {
  /** Instant on the clock's wall scale; overrides `timeoutMs`. */
  deadlineAt?: EpochMs;
  timeoutMs?: Milliseconds;
  signal?: AbortSignal;
  headers?: OutgoingHeaders;
}

/** A message received by `subscribe`. */
interface ReceivedMessage {
  /** The concrete subject, also when subscribed with a wildcard. */
  readonly subject: string;
  readonly headers: IncomingHeaders;
  /** Parsed JSON; undefined when the body is empty or not JSON. */
  readonly body: unknown;
}

const DEFAULT_TIMEOUT_MS = 5_000;
/** Of requests between services. */
const ASK_TIMEOUT_MS = 10_000;

/**
 * Request/reply over NATS in plain JSON: one reply inbox and one table for all requests, writes batched per event-loop tick, every
 * request with a deadline. Failures are ToolErrors: EXECUTOR_UNAVAILABLE when the subject has no subscriber or NATS is disconnected
 * (the request has provably not started), DEADLINE_EXCEEDED, CANCELLED by the signal, PAYLOAD_TOO_LARGE before sending, and whatever
 * the responder answered.
 */
export class NatsClient {
  readonly link: NatsLink;
  readonly #clock: Clock;
  readonly #pending: PendingRequests;
  #inbox = '';
  /** Name of this client in progress subjects; empty until a call asks for progress. */
  #progressName = '';
  #madeInternals: ClientInternals | undefined;

  private constructor(private readonly options: NatsClientOptions) {
    this.link = new NatsLink(options);
    this.#clock = options.clock ?? new SystemClock();
    this.#pending = new PendingRequests(this.#clock);
  }

  /** A client that is not connected yet; the service starts it as a component (`asComponent`). */
  static create(options: NatsClientOptions): NatsClient {
    return new NatsClient(options);
  }

  /** A connected client. @throws Error when no server answers or the login is refused */
  static async connect(options: NatsClientOptions): Promise<NatsClient> {
    const client = new NatsClient(options);
    await client.connect();
    return client;
  }

  /** Connects; may be repeated after a failure. */
  async connect(): Promise<void> {
    await this.link.connect();
    if (this.#inbox !== '') return;
    this.#inbox = this.link.newInbox();
    const prefix = this.#inbox.length;
    this.link.subscribe(`${this.#inbox}*`, (message) => {
      const token = message.subject.slice(prefix);
      this.#pending.get(token)?.replied(token, message);
    });
  }

  /** True while requests can be sent. */
  get connected(): boolean {
    return this.link.connected;
  }

  /** The metrics this client counts into. */
  get metrics(): Metrics | undefined {
    return this.options.metrics;
  }

  /** Requests waiting for a reply. */
  get inFlight(): number {
    return this.#pending.size;
  }

  /**
   * Asks the service that serves a subject, as `REQUESTS` says. It has 10 s by default.
   * @throws ToolError of the service; EXECUTOR_UNAVAILABLE or DEADLINE_EXCEEDED without an answer in time
   */
  ask<S extends Requested>(subject: S, message: MessageOf<S>, options?: RequestOptions): Promise<ReplyOf<S>> {
    return this.request(subject, message, { timeoutMs: ASK_TIMEOUT_MS, ...options });
  }

  /** Sends a request on any subject and resolves with the parsed reply. */
  request<T>(subject: string, body: unknown, options: RequestOptions = {}): Promise<T> {
    return this.#send<T>(options, (remainingMs, resolve, reject) => {
      const request = new PlainRequest(this.#internals(), subject, remainingMs, options.signal, resolve, reject);
      request.send(encode(body), this.#headers(remainingMs, options.headers));
    });
  }

  /**
   * The exec hop. A result within 250 ms is its own acknowledgement; otherwise the executor acknowledges first. Without an
   * acknowledgement the message goes to the group again with a raised fence (`bumpFence` may refuse by returning undefined)
   * every 250 ms until it is acknowledged or the deadline passes.
   */
  requestAcked<T>(subject: string, message: AckedMessage, options: RequestOptions & AckedOptions): Promise<T> {
    return this.#send<T>(options, (remainingMs, resolve, reject) => {
      new AckedRequest(this.#internals(), subject, message, remainingMs, options, resolve, reject).send();
    });
  }

  /** Sends a message without a reply. @throws ToolError EXECUTOR_UNAVAILABLE while disconnected */
  publish(subject: string, body: unknown, headers?: OutgoingHeaders): void {
    if (!this.link.connected) throw disconnected();
    this.link.publish(subject, encode(body), { headers });
  }

  /** Runs `step` (must not throw) at the end of this event-loop tick; its messages leave with this tick. */
  onTickEnd(step: () => void): void {
    this.link.onTickEnd(step);
  }

  /** Receives messages of a subject (wildcards allowed). What `received` throws goes to `onFault`. Needs a connection. */
  subscribe(
    subject: string,
    received: (message: ReceivedMessage) => void,
    options: { queue?: string } = {},
  ): NatsSubscription {
    return this.link.subscribe(
      subject,
      (message) =>
        received({
          subject: message.subject,
          headers: message.headers ?? NO_HEADERS,
          body: parseLenient(message),
        }),
      options.queue,
    );
  }

  /** Fails pending requests and closes the connection after sending queued messages. */
  async close(): Promise<void> {
    for (const call of this.#pending.all())
      call.fail(new ToolError('SERVICE_UNAVAILABLE', { message: 'This service is stopping' }));
    await this.link.close();
  }

  /** This client as a `LifecycleComponent` of libs/service. List it before everything that uses it. */
  asComponent(name = 'nats'): {
    name: string;
    settings: readonly string[];
    start(): Promise<void>;
    ready(): Promise<boolean>;
    expiresAt(): Date | undefined;
    stop(): Promise<void>;
  } {
    const settings = ['NATS_URL', 'NATS_USER', 'NATS_PASSWORD', 'NATS_TLS_CA'];
    return {
      name,
      settings,
      start: () => this.connect(),
      ready: () => this.link.answers(),
      expiresAt: () => this.link.certificateExpiry,
      stop: () => this.close(),
    };
  }

  #send<T>(
    options: RequestOptions,
    send: (remainingMs: Milliseconds, resolve: (value: unknown) => void, reject: (error: ToolError) => void) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      try {
        send(this.#remaining(options), resolve as (value: unknown) => void, reject);
      } catch (error) {
        const message = `The request cannot be sent: ${String(error)}`;
        reject(isToolError(error) ? error : new ToolError('INTERNAL', { message, cause: error }));
      }
    });
  }

  #remaining(options: RequestOptions): Milliseconds {
    if (options.signal?.aborted) throw new ToolError('CANCELLED');
    const fallback = options.timeoutMs ?? this.options.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS;
    const remainingMs = options.deadlineAt === undefined ? fallback : options.deadlineAt - this.#clock.now();
    if (remainingMs <= 0) throw new ToolError('DEADLINE_EXCEEDED');
    if (!this.link.connected) throw disconnected();
    return remainingMs;
  }

  #headers(remainingMs: Milliseconds, own: OutgoingHeaders | undefined): OutgoingHeaders {
    return { [HEADERS.remainingMs]: Math.ceil(remainingMs).toString(), ...traceHeaders(), ...own };
  }

  /** Subscribes before the first call that asks for progress: both travel on one connection, in this order. */
  #progressSubject(token: string): string {
    if (this.#progressName === '') {
      const name = randomUUID();
      this.link.subscribe(progressSubject(name, '*'), (message) => {
        const ofToken = message.subject.slice(message.subject.lastIndexOf('.') + 1);
        this.#pending.get(ofToken)?.progressed?.(ofToken, message);
      });
      this.#progressName = name;
    }
    return progressSubject(this.#progressName, token);
  }

  #internals(): ClientInternals {
    return (this.#madeInternals ??= {
      link: this.link,
      clock: this.#clock,
      pending: this.#pending,
      turns: new CostlyTurns(this.#clock),
      replySubject: (token) => this.#inbox + token,
      progressSubject: (token) => this.#progressSubject(token),
      headers: (remainingMs, own) => this.#headers(remainingMs, own),
      metrics: this.options.metrics,
    });
  }
}

function disconnected(): ToolError {
  return new ToolError('EXECUTOR_UNAVAILABLE', {
    message: 'NATS is unavailable',
    details: { reason: 'disconnected' },
  });
}
