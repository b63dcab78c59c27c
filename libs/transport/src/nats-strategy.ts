/**
 * The server side of NATS as a Nest transport. Nest's own would wrap bodies in an envelope, give plain clients no answer
 * to half of what they send and lose replies on shutdown. Here the wire is plain JSON, every request with a reply subject
 * gets an answer, and draining waits for the handlers: `connection.drain()` alone does not.
 */
import { Server, type CustomTransportStrategy } from '@nestjs/microservices';
import { isObservable, lastValueFrom } from 'rxjs';
import {
  isJsonObject,
  ToolError,
  toToolError,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage, isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { beginTrace, inTrace, type Metrics } from '@toolfleet/telemetry';
import { encode, parseLenient, text } from './codec.js';
import { EndpointContext } from './endpoint-context.js';
import type { EndpointOptions } from './endpoint.js';
import type { NatsLink, NatsSubscription } from './nats-connection.js';
import type { IncomingMessage } from './nats-message.js';
import { LoopLateness } from './loop-lateness.js';
import { ResentCalls, type ServedCall } from './resent-calls.js';
import { InFlightCalls } from './running-calls.js';
import { errorReply } from './wire-error.js';

/** Checks a body against a schema; throws a ToolError (REQUEST_INVALID) that names the faults. */
export type BodyCheck = (body: unknown) => void;

/** What the strategy needs. It shares the connection of the process's client and never closes it. */
export interface NatsStrategyOptions {
  connection: { readonly link: NatsLink; readonly metrics?: Metrics | undefined };
  /** Queue group of endpoints that name none; the service's name. */
  queue: string;
  /** Makes the check of an endpoint's `schema` (libs/schema). */
  compile?: (schema: JsonObject) => BodyCheck;
  /** Calls come in here from outside the fleet: those without a trace may begin one. Default false. */
  isDoor?: boolean;
  /**
   * Proves who sent a message, before its body is parsed: what strangers send costs no more than its headers. A rejection
   * is the answer. Default: every sender is admitted, because the NATS server's permissions let nobody else publish.
   */
  admit?: (context: EndpointContext) => Promise<unknown>;
  /** Most messages in work at once in the whole process; more are refused as QUEUE_FULL. Default 1,000. */
  concurrency?: number;
  clock?: Clock;
  /** Hears of handlers that failed with something that is not a ToolError. */
  onFault?: (error: unknown, subject: string) => void;
  /** Hears that the event loop was held; exec calls that waited meanwhile are refused. */
  onStall?: (stalledMs: Milliseconds) => void;
}

type Handler = (body: unknown, context: EndpointContext) => unknown;

/** An answer that was sent, and can be sent again. */
interface Answer {
  bytes: number;
  to: (reply: string) => void;
}

/** One subscribed subject. */
interface Served {
  readonly subject: string;
  readonly handler: Handler;
  readonly check: BodyCheck | undefined;
  readonly exec: boolean;
  readonly concurrency: number;
  inFlight: number;
}

const DEFAULT_CONCURRENCY = 1_000;
/** `Retry-After` of a refusal because of load. */
const BUSY_RETRY_MS = 250;
const ACK = { [HEADERS.ack]: 'accepted' };
const EMPTY = new Uint8Array(0);

/** Give it to Nest: `NestFactory.createMicroservice(Module, { strategy })` or `app.connectMicroservice({ strategy })`. */
export class NatsStrategy extends Server implements CustomTransportStrategy {
  override readonly transportId = Symbol('toolfleet-nats');
  readonly #clock: Clock;
  readonly #running: InFlightCalls;
  readonly #link: NatsLink;
  readonly #lateness: LoopLateness;
  readonly #resent: ResentCalls;
  #subscriptions: NatsSubscription[] = [];
  #draining = false;

  constructor(private readonly options: NatsStrategyOptions) {
    super();
    this.#clock = options.clock ?? new SystemClock();
    this.#link = options.connection.link;
    this.#running = new InFlightCalls(this.#clock);
    this.#lateness = new LoopLateness(this.#clock, () => this.#link.flush(), options.onStall);
    this.#resent = new ResentCalls(this.#clock);
  }

  /** Messages in work. */
  get inFlight(): number {
    return this.#running.size;
  }

  /** Most messages in work at once. */
  get capacity(): number {
    return this.options.concurrency ?? DEFAULT_CONCURRENCY;
  }

  /** Subscribes every endpoint; called by Nest. Resolves when the server knows all subscriptions. */
  async listen(done: (error?: unknown) => void): Promise<void> {
    try {
      let hasExec = false;
      for (const [subject, handler] of this.getHandlers()) {
        const options = (handler.extras ?? {}) as EndpointOptions;
        hasExec ||= options.exec === true;
        const served: Served = {
          subject,
          handler: handler as unknown as Handler,
          check: this.#checkOf(subject, options.schema),
          exec: options.exec ?? false,
          concurrency: options.concurrency ?? Number.POSITIVE_INFINITY,
          inFlight: 0,
        };
        const queue = options.queue === false ? undefined : (options.queue ?? this.options.queue);
        const received = (message: IncomingMessage): void =>
          void this.#serve(served, message).catch((error: unknown) => this.#report(error, subject));
        this.#subscriptions.push(this.#link.subscribe(subject, received, queue));
      }
      // A cancel goes to every executor: nobody but its runner knows where a call runs.
      if (hasExec) this.#measureSlots();
      if (hasExec) this.#lateness.start();
      if (hasExec)
        this.#subscriptions.push(this.#link.subscribe(SUBJECTS.execCancel, (message) => this.#cancel(message)));
      await this.#link.flush();
      done();
    } catch (error) {
      // Half a service must not take messages, nor twice after another try.
      this.close();
      done(error);
    }
  }

  /** Stops taking messages, then waits until those in work are answered, at most `maxMs`. The connection stays open. */
  async drain(maxMs: Milliseconds = 60_000): Promise<void> {
    if (this.#draining) return;
    this.#draining = true;
    await Promise.allSettled(this.#subscriptions.map((subscription) => subscription.drain()));
    this.#subscriptions = [];
    const until = this.#clock.monotonic() + maxMs;
    while (this.#running.size > 0 && this.#clock.monotonic() < until) await this.#clock.sleep(10);
    if (this.#link.connected) await this.#link.flush();
  }

  /** Ends the subscriptions at once; called by Nest. Use `drain` first. */
  close(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
    this.#subscriptions = [];
    this.#lateness.stop();
  }

  override on(): void {
    // Connection events are heard at the connection itself.
  }

  override unwrap<T>(): T {
    return this.#link as T;
  }

  async #serve(served: Served, message: IncomingMessage): Promise<void> {
    const reply = isInbox(message.reply) ? message.reply : '';
    let acknowledged = false;
    const acknowledge = (): void => {
      // Only callers that send a fence know the two-step answer; to others an acknowledgement would look like the result.
      if (acknowledged || !served.exec || reply === '' || context.headers.get(HEADERS.fence) === undefined) return;
      acknowledged = true;
      if (!this.#link.connected) return;
      try {
        this.#link.publish(reply, EMPTY, { headers: ACK });
      } catch (error) {
        // Runs in a timer, where nothing would catch it.
        this.#report(error, served.subject);
      }
    };
    const context = new EndpointContext(message, this.#clock, acknowledge, this.#link);
    if (this.#running.size >= this.capacity || served.inFlight >= served.concurrency) {
      return this.#answerError(reply, new ToolError('QUEUE_FULL', { retryAfterMs: BUSY_RETRY_MS }), context);
    }
    if (served.exec && this.#lateness.late) return this.#answerError(reply, tooLate(), context);
    served.inFlight++;
    const end = this.#running.begin(context, served.exec);
    let sent: { key: string; call: ServedCall } | undefined;
    let answer: Answer | undefined;
    try {
      if (this.options.admit) await this.options.admit(context);
      const body = parseBody(message.data);
      // To a schema an empty body is null: JSON has no other word for it.
      served.check?.(body ?? null);
      if (context.remainingMs === 0) throw new ToolError('DEADLINE_EXCEEDED');
      const key = served.exec ? this.#resent.keyOf(served.subject, reply, context.headers, body) : undefined;
      if (key !== undefined) {
        const fence = Number(context.headers.get(HEADERS.fence));
        const original = this.#resent.original(key, fence, reply);
        if (original) {
          if (original.endedAt === 0) acknowledge();
          else original.repeat?.(reply);
          return;
        }
        sent = { key, call: this.#resent.begin(key, fence, reply) };
      }
      const work = () => served.handler(body, context);
      const traced = this.options.isDoor ? beginTrace : inTrace;
      let result = await traced(served.subject, context.headers, work);
      if (isObservable(result)) result = await lastValueFrom(result, { defaultValue: undefined });
      context.end();
      answer = this.#answer(sent?.call.reply ?? reply, result, context);
    } catch (error) {
      if (!(error instanceof ToolError)) this.#report(error, message.subject);
      const to = (copy: string): void => this.#answerError(copy, error, context);
      to(sent?.call.reply ?? reply);
      answer = { bytes: 0, to };
    } finally {
      served.inFlight--;
      context.end();
      end();
      if (sent) this.#resent.end(sent.key, sent.call, answer?.bytes, answer?.to ?? (() => undefined));
    }
  }

  /** A schema nobody compiles would look like a check and be none. */
  #checkOf(subject: string, schema: JsonObject | undefined): BodyCheck | undefined {
    if (!schema) return undefined;
    if (!this.options.compile) throw new TypeError(`${subject} has a schema, but the strategy has no compile`);
    return this.options.compile(schema);
  }

  /** `toolfleet_worker_slots`, by which executors are scaled. */
  #measureSlots(): void {
    const { metrics } = this.options.connection;
    const executor = this.options.queue;
    metrics?.onScrape(() => {
      metrics.workerSlots.set({ executor, state: 'busy' }, this.inFlight);
      metrics.workerSlots.set({ executor, state: 'total' }, this.capacity);
    });
  }

  /** Sends a result; what was sent, or undefined when nothing could be. */
  #answer(reply: string, result: unknown, context: EndpointContext): Answer | undefined {
    if (reply === '' || !this.#link.connected) return undefined;
    const bytes = encode(result ?? null);
    if (bytes.length > this.#link.maxPayload) {
      const limit = this.#link.maxPayload;
      throw new ToolError('RESULT_TOO_LARGE', {
        message: `Result of ${bytes.length} bytes; NATS takes ${limit}`,
        details: { bytes: bytes.length, limit },
      });
    }
    const to = (copy: string): void =>
      this.#link.publish(copy, bytes, { failed: (error) => this.#report(error, context.subject) });
    to(reply);
    return { bytes: bytes.length, to };
  }

  /** Never throws: it runs where an error is being answered already. */
  #answerError(reply: string, error: unknown, context: EndpointContext): void {
    if (reply === '' || !this.#link.connected) return;
    const failed = (fault: unknown): void => this.#report(fault, context.subject);
    try {
      const { headers, body } = errorReply(error, context.callId);
      this.#link.publish(reply, body, { headers, failed });
    } catch (fault) {
      failed(fault);
      this.#answerPlainly(reply, error, context);
    }
  }

  /** The code alone, when the whole error cannot be rendered or sent. */
  #answerPlainly(reply: string, error: unknown, context: EndpointContext): void {
    try {
      const { headers, body } = errorReply(new ToolError(toToolError(error).code));
      this.#link.publish(reply, body, { headers });
    } catch (fault) {
      this.#report(fault, context.subject);
    }
  }

  /** Never throws: a listener that does must not end the process. */
  #report(error: unknown, subject: string): void {
    try {
      this.options.onFault?.(error, subject);
    } catch (fault) {
      process.emitWarning(fault instanceof Error ? fault : String(fault));
    }
  }

  #cancel(message: IncomingMessage): void {
    const body = parseLenient(message.data);
    if (!isJsonObject(body) || typeof body['call_id'] !== 'string') return;
    const attempt = typeof body['attempt'] === 'number' ? body['attempt'] : undefined;
    this.#running.cancel(body['call_id'], attempt);
  }
}

/** The refusal of a call that waited for the event loop. It has not begun here, and may be made again elsewhere. */
function tooLate(): ToolError {
  return new ToolError('QUEUE_FULL', {
    message: 'The executor is late: the call waited too long for it',
    details: { reason: 'executor_late', started: false },
    retryAfterMs: BUSY_RETRY_MS,
  });
}

/**
 * Whether a reply subject is an inbox (`_INBOX.…`, `_R_.…`). A tenant may name any subject there; without this check it
 * could have this service, which may publish more than the tenant, send its answer to `exec.…` or `budget.…`.
 */
function isInbox(reply: string): boolean {
  return reply.startsWith('_');
}

function parseBody(data: Uint8Array): unknown {
  if (data.length === 0) return undefined;
  const json = text(data);
  let body: Json;
  try {
    body = JSON.parse(json) as Json;
  } catch (error) {
    throw new ToolError('REQUEST_INVALID', { message: `The body is not JSON: ${(error as Error).message}` });
  }
  if (isNestedTooDeep(body, data.length))
    throw new ToolError('REQUEST_INVALID', { message: `The body is nested deeper than ${MAX_BODY_DEPTH} levels` });
  const inexact = inexactNumber(json);
  if (inexact !== undefined) throw new ToolError('REQUEST_INVALID', { message: inexactNumberMessage(inexact) });
  return body;
}
