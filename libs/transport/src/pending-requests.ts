import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { InFlightMap, onAbort, type Clock, type CostlyTurns } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import { decodeReply, type IncomingMessage, type OutgoingBody, type OutgoingHeaders } from './codec.js';
import type { NatsLink } from './nats-connection.js';

/** A request without a reply yet. Its token is the last part of the reply subject. */
export interface PendingRequest {
  /** Instant of the next call of `due`, on the monotonic clock. */
  dueAt: number;
  /** Called once `dueAt` has passed. Sets a later `dueAt` to stay pending, or ends the request. */
  due(): void;
  /** Called with every message on the reply subject of a token. */
  replied(token: string, message: IncomingMessage): void;
  /** Called with every progress report for a token. */
  progressed?(token: string, message: IncomingMessage): void;
  fail(error: ToolError): void;
}

/** Parts of the client that kinds of requests use. */
export interface ClientInternals {
  readonly link: NatsLink;
  readonly clock: Clock;
  readonly pending: PendingRequests;
  /** Turns at parsing large results. */
  readonly turns: CostlyTurns;
  readonly metrics: Metrics | undefined;
  replySubject(token: string): string;
  /** Where progress reports for this token arrive; the client subscribes at the first call. */
  progressSubject(token: string): string;
  headers(remainingMs: Milliseconds, own: OutgoingHeaders | undefined): OutgoingHeaders;
}

/** How late a deadline may be noticed. */
const SWEEP_MS = 20;

/**
 * Pending requests by token. One timer sweeps all of them while there are any, because a timer per request costs more than the
 * request.
 */
export class PendingRequests {
  readonly #requests = new InFlightMap<string, PendingRequest>();
  #count = 0;
  #sweeping = false;

  constructor(private readonly clock: Clock) {}

  /** Adds a request and returns its token; a request may have several tokens. */
  add(request: PendingRequest): string {
    const token = (++this.#count).toString(36);
    this.#requests.set(token, request);
    if (!this.#sweeping) this.#schedule();
    return token;
  }

  get(token: string): PendingRequest | undefined {
    return this.#requests.get(token);
  }

  remove(token: string): void {
    this.#requests.delete(token);
  }

  /** Number of tokens. */
  get size(): number {
    return this.#requests.size;
  }

  all(): PendingRequest[] {
    return [...new Set(this.#requests.values())];
  }

  #schedule(): void {
    this.#sweeping = true;
    // Timers run before input: after a stall of this process, replies lie unread in the socket, and a sweep in the timer would
    // take them for missing and send exec messages again. `setImmediate` runs after the input was read.
    this.clock.after(SWEEP_MS, () => setImmediate(() => this.#sweep()));
  }

  #sweep(): void {
    const now = this.clock.monotonic();
    for (const request of this.#requests.values()) if (request.dueAt <= now) request.due();
    if (this.#requests.size > 0) this.#schedule();
    else this.#sweeping = false;
  }
}

/** One request with one reply. */
export class PlainRequest implements PendingRequest {
  readonly dueAt: number;
  #token = '';
  /** Ends the wait for the signal of the caller. */
  #leave: (() => void) | undefined;

  constructor(
    private readonly client: ClientInternals,
    private readonly subject: string,
    remainingMs: Milliseconds,
    private readonly signal: AbortSignal | undefined,
    private readonly resolve: (value: unknown) => void,
    private readonly reject: (error: ToolError) => void,
  ) {
    this.dueAt = client.clock.monotonic() + remainingMs;
  }

  send(body: OutgoingBody, headers: OutgoingHeaders): void {
    this.#token = this.client.pending.add(this);
    try {
      this.client.link.publish(this.subject, body, {
        reply: this.client.replySubject(this.#token),
        headers,
        failed: (cause) => this.fail(new ToolError('EXECUTOR_UNAVAILABLE', { message: 'NATS is unavailable', cause })),
      });
    } catch (error) {
      this.#end();
      throw error;
    }
    const { signal } = this;
    if (signal) this.#leave = onAbort(signal, () => this.fail(new ToolError('CANCELLED', { cause: signal.reason })));
  }

  replied(_token: string, message: IncomingMessage): void {
    this.#end();
    if (message.isNoResponders) return this.reject(noResponders(this.subject, this.client.metrics));
    try {
      this.resolve(decodeReply(message));
    } catch (error) {
      this.reject(error as ToolError);
    }
  }

  due(): void {
    this.fail(new ToolError('DEADLINE_EXCEEDED', { message: `No reply on ${this.subject} before the deadline` }));
  }

  fail(error: ToolError): void {
    this.#end();
    this.reject(error);
  }

  #end(): void {
    this.client.pending.remove(this.#token);
    this.#leave?.();
  }
}

/**
 * The class of a subject, a label of bounded cardinality: its first two tokens (`tool.call` for `tool.call.acme`), with the toolset for
 * builtin tools: toolsets are served by different processes.
 */
export function subjectClass(subject: string): string {
  return subject.startsWith(`${SUBJECTS.execBuiltin}.`) ? subject : subject.split('.', 2).join('.');
}

/** The error of a request without a subscriber: the request has provably not started. */
export function noResponders(subject: string, metrics: Metrics | undefined): ToolError {
  metrics?.natsNoResponders.inc({ subject_class: subjectClass(subject) });
  return new ToolError('EXECUTOR_UNAVAILABLE', {
    message: `No service listens on ${subject}`,
    details: { reason: 'no_responders', subject },
    facts: { begun: 'no', noResponders: true },
  });
}
