import { randomUUID } from 'node:crypto';
import { isToolError, ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { HEADERS, progressSubject } from '@toolfleet/contracts/subjects';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { traceHeaders, type Metrics } from '@toolfleet/telemetry';
import { AckedRequest, type AckedMessage, type AckedOptions } from './acked-call.js';
import { NO_HEADERS, type IncomingHeaders, type OutgoingHeaders } from './headers.js';
import { NatsLink, type NatsOptions, type NatsSubscription } from './nats-connection.js';
import { PlainCall } from './plain-call.js';
import { PendingRequests } from './waiting-calls.js';
import { encode, parseLenient } from './codec.js';
import type { ClientInternals, PendingCall } from './pending-call.js';

/** What a client needs beside the connection; each has a real default. */
export interface NatsClientOptions extends NatsOptions {
  clock?: Clock;
  metrics?: Metrics;
  /** Deadline of requests that name none. Default 5,000 ms: no request waits forever. */
  defaultTimeoutMs?: Milliseconds;
}

/** One request. Give `deadlineAt` (an instant on the clock's wall scale) or `timeoutMs`. */
export interface RequestOptions {
  deadlineAt?: EpochMs;
  timeoutMs?: Milliseconds;
  signal?: AbortSignal;
  headers?: OutgoingHeaders;
}

/** A message received by `subscribe`. */
export interface ReceivedMessage {
  /** The concrete subject, also when subscribed with a wildcard. */
  readonly subject: string;
  readonly headers: IncomingHeaders;
  /** Parsed JSON; undefined when the body is empty or not JSON. */
  readonly body: unknown;
}

const DEFAULT_TIMEOUT_MS = 5_000;

/**
 * Request/reply over NATS in plain JSON: one reply inbox and one table for all requests, writes grouped per event-loop
 * turn, every request with a deadline. Failures are `ToolError`s: EXECUTOR_UNAVAILABLE when nobody listens or NATS is away
 * (the request has provably not started), DEADLINE_EXCEEDED, CANCELLED when the signal fires, PAYLOAD_TOO_LARGE before
 * sending, and whatever the responder answered.
 */
export class NatsClient {
  readonly link: NatsLink;
  readonly #clock: Clock;
  readonly #waiting: PendingRequests<PendingCall>;
  #inbox = '';
  /** Name of this client in the subjects of progress; empty until a call wants some. */
  #progressName = '';

  private constructor(private readonly options: NatsClientOptions) {
    this.link = new NatsLink(options);
    this.#clock = options.clock ?? new SystemClock();
    this.#waiting = new PendingRequests(this.#clock);
  }

  /** A client that is not connected yet: inject it, and let the service start it (`asPart`). */
  static create(options: NatsClientOptions): NatsClient {
    return new NatsClient(options);
  }

  /** A connected client. Rejects in one line when no server answers. */
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
      this.#waiting.get(token)?.replied(token, message);
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
    return this.#waiting.size;
  }

  /** Sends a request and resolves with the parsed reply. */
  request<T>(subject: string, body: unknown, options: RequestOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      try {
        const remainingMs = this.#remaining(options);
        const call = new PlainCall(
          this.#internals(),
          subject,
          remainingMs,
          options.signal,
          resolve as (value: unknown) => void,
          reject,
        );
        call.send(encode(body), this.#headers(remainingMs, options.headers));
      } catch (error) {
        reject(
          isToolError(error)
            ? error
            : new ToolError('INTERNAL', { message: `Cannot send: ${String(error)}`, cause: error }),
        );
      }
    });
  }

  /**
   * The exec hop. A result within 250 ms is its own acknowledgement; otherwise the executor
   * acknowledges first. Without one the message goes to the group again with a raised fence (`bumpFence`, which may refuse
   * by returning undefined) every 250 ms until it is acknowledged or the deadline passes.
   */
  requestAcked<T>(subject: string, message: AckedMessage, options: RequestOptions & AckedOptions): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      try {
        const remainingMs = this.#remaining(options);
        const call = new AckedRequest(
          this.#internals(),
          subject,
          message,
          remainingMs,
          options,
          resolve as (value: unknown) => void,
          reject,
        );
        call.send();
      } catch (error) {
        reject(
          isToolError(error)
            ? error
            : new ToolError('INTERNAL', { message: `Cannot send: ${String(error)}`, cause: error }),
        );
      }
    });
  }

  /** Sends a message nobody answers. */
  publish(subject: string, body: unknown, headers?: OutgoingHeaders): void {
    if (!this.link.connected)
      throw new ToolError('EXECUTOR_UNAVAILABLE', { message: 'NATS is away', details: { reason: 'disconnected' } });
    this.link.publish(subject, encode(body), headers ? { headers } : {});
  }

  /** Runs `step`, which does not throw, when everything of this event-loop turn was asked; what it sends leaves with this turn. */
  onTickEnd(step: () => void): void {
    this.link.onTickEnd(step);
  }

  /** Receives messages of a subject (wildcards allowed). Errors of `received` are the receiver's own. Needs a connection. */
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
          body: parseLenient(message.data),
        }),
      options.queue,
    );
  }

  /** Waits until no request is in flight, at most `maxMs`. */
  async drain(maxMs: Milliseconds = 5_000): Promise<void> {
    const until = this.#clock.monotonic() + maxMs;
    while (this.#waiting.size > 0 && this.#clock.monotonic() < until) await this.#clock.sleep(10);
  }

  /** Fails what still waits and closes the connection after sending what is queued. */
  async close(): Promise<void> {
    for (const call of this.#waiting.all())
      call.fail(new ToolError('SERVICE_UNAVAILABLE', { message: 'This service is stopping' }));
    await this.link.close();
  }

  /** The connection as a part of a service (`LifecycleComponent` of libs/service). List it before everything that uses it. */
  asPart(name = 'nats'): {
    name: string;
    settings: readonly string[];
    start(): Promise<void>;
    ready(): boolean;
    stop(): Promise<void>;
  } {
    const settings = ['NATS_URL', 'NATS_USER', 'NATS_PASSWORD', 'NATS_TLS_CA'];
    return { name, settings, start: () => this.connect(), ready: () => this.connected, stop: () => this.close() };
  }

  #remaining(options: RequestOptions): Milliseconds {
    if (options.signal?.aborted) throw new ToolError('CANCELLED');
    const fallback = options.timeoutMs ?? this.options.defaultTimeoutMs ?? DEFAULT_TIMEOUT_MS;
    const remainingMs = options.deadlineAt === undefined ? fallback : options.deadlineAt - this.#clock.now();
    if (remainingMs <= 0) throw new ToolError('DEADLINE_EXCEEDED');
    if (!this.link.connected) {
      throw new ToolError('EXECUTOR_UNAVAILABLE', { message: 'NATS is away', details: { reason: 'disconnected' } });
    }
    return remainingMs;
  }

  #headers(remainingMs: Milliseconds, own: OutgoingHeaders | undefined): OutgoingHeaders {
    return { [HEADERS.remainingMs]: Math.ceil(remainingMs).toString(), ...traceHeaders(), ...own };
  }

  /** Subscribed once, before the first call that asks: subscription and call travel on one connection, in this order. */
  #progressSubject(token: string): string {
    if (this.#progressName === '') {
      const name = randomUUID();
      this.link.subscribe(progressSubject(name, '*'), (message) => {
        const ofToken = message.subject.slice(message.subject.lastIndexOf('.') + 1);
        this.#waiting.get(ofToken)?.progressed?.(ofToken, message);
      });
      this.#progressName = name;
    }
    return progressSubject(this.#progressName, token);
  }

  #internals(): ClientInternals {
    return (this.#made ??= {
      link: this.link,
      clock: this.#clock,
      waiting: this.#waiting,
      replySubject: (token) => this.#inbox + token,
      progressSubject: (token) => this.#progressSubject(token),
      headers: (remainingMs, own) => this.#headers(remainingMs, own),
      metrics: this.options.metrics,
    });
  }
  #made: ClientInternals | undefined;
}
