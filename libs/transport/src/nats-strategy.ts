/**
 * The server side of NATS as a Nest transport. Nest's own transport would wrap bodies in an envelope, leave half of what plain clients
 * send without a reply, and lose replies on shutdown. Here bodies are plain JSON, every request with a reply subject gets a reply, and
 * draining waits for the handlers, unlike `connection.drain()` alone.
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
import { resultExcess, type JsonReading } from '@toolfleet/contracts/json-text';
import { HEADERS, SIZES, SUBJECTS } from '@toolfleet/contracts/subjects';
import { CostlyTurns, FairSlots, SystemClock, type Clock } from '@toolfleet/resilience';
import { validateMessage } from '@toolfleet/bounded-schema';
import { beginTrace, inTrace } from '@toolfleet/telemetry';
import {
  decodeRequest,
  EMPTY,
  encode,
  LARGE_MESSAGE,
  parseLenient,
  requestBody,
  toErrorReply,
  type IncomingMessage,
} from './codec.js';
import { EndpointContext, type EndpointOptions } from './endpoint.js';
import { EventLoopStalls } from './event-loop-stalls.js';
import { InFlightCalls, ResentCalls, type ServedCall } from './in-flight-calls.js';
import type { NatsClient } from './nats-client.js';
import type { NatsLink, NatsSubscription } from './nats-connection.js';

/** How an entry point bounds what large messages cost other senders. Both methods are called for admitted messages. */
export interface LargeMessages {
  /**
   * Counts bytes that the process holds for a sender until the returned function is called. A request that does not fit is refused, also
   * one of 0 bytes while its sender is beyond its share; a reply is always counted.
   * @throws ToolError RATE_LIMITED, QUEUE_FULL
   */
  hold(context: EndpointContext, bytes: number, of: 'request' | 'reply'): () => void;
  /** Reads a body without delaying the messages of others. */
  read(context: EndpointContext, body: Uint8Array): Promise<JsonReading>;
}

/** Options of the strategy. It shares the connection of the process's client and never closes it. */
interface NatsStrategyOptions {
  connection: Pick<NatsClient, 'link' | 'metrics'>;
  /** Queue group of endpoints that name none; the service's name. */
  queue: string;
  /** Calls arrive here from outside the fleet: those without a trace may begin one, and their bodies are limited. Default false. */
  isEntryPoint?: boolean;
  /**
   * Authenticates the sender before the body is parsed, so that a message of an unknown sender costs no more than its headers. A
   * rejection is the reply. Default: every sender is admitted, because the NATS server's permissions decide who may publish.
   */
  admit?: (context: EndpointContext) => Promise<unknown>;
  /** Default: bodies are read at once, and no bytes are counted. */
  large?: LargeMessages | undefined;
  /** Most messages in flight in the whole process; more are refused as QUEUE_FULL. Default 1,000. */
  concurrency?: number;
  /** Classes of executors that share the slots of this process, for `toolfleet_worker_slots`. Default: `queue`. */
  executors?: readonly string[];
  clock?: Clock;
  /** Called when a handler failed with something that is not a ToolError. */
  onFault?: (error: unknown, subject: string) => void;
  /** Called when the event loop was blocked; exec calls that waited meanwhile are refused. */
  onStall?: (stalledMs: Milliseconds) => void;
}

type Handler = (body: unknown, context: EndpointContext) => unknown;

/** A reply that was sent, and can be sent again. */
interface SentReply {
  bytes: number;
  to: (reply: string) => void;
}

/** One subscribed subject. */
interface ServedSubject {
  readonly subject: string;
  readonly handler: Handler;
  readonly check: ((body: unknown) => unknown) | undefined;
  readonly exec: boolean;
  /** What its messages hold a slot of, by tenant. */
  readonly slots: FairSlots | undefined;
  readonly concurrency: number;
  inFlight: number;
}

const DEFAULT_CONCURRENCY = 1_000;
/** Most questions of routes in flight. */
const MANAGEMENT_CONCURRENCY = 100;
/** `retryAfterMs` of a refusal because of load. */
const BUSY_RETRY_MS = 250;
const ACK = { [HEADERS.ack]: 'accepted' };

/** Pass it to Nest: `NestFactory.createMicroservice(Module, { strategy })` or `app.connectMicroservice({ strategy })`. */
export class NatsStrategy extends Server implements CustomTransportStrategy {
  override readonly transportId = Symbol('toolfleet-nats');
  readonly #clock: Clock;
  readonly #running: InFlightCalls;
  readonly #link: NatsLink;
  readonly #stalls: EventLoopStalls;
  readonly #resent: ResentCalls;
  readonly #turns: CostlyTurns;
  /** Of exec calls. */
  readonly #slots: FairSlots;
  readonly #management = new FairSlots('management', MANAGEMENT_CONCURRENCY);
  #subscriptions: NatsSubscription[] = [];
  #draining = false;

  constructor(private readonly options: NatsStrategyOptions) {
    super();
    this.#clock = options.clock ?? new SystemClock();
    this.#link = options.connection.link;
    this.#running = new InFlightCalls(this.#clock);
    this.#stalls = new EventLoopStalls(this.#clock, () => this.#link.flush(), options.onStall);
    this.#resent = new ResentCalls(this.#clock);
    this.#turns = new CostlyTurns(this.#clock);
    this.#slots = new FairSlots('executor', this.capacity);
  }

  /** Messages in flight. */
  get inFlight(): number {
    return this.#running.size;
  }

  /** Most messages in flight. */
  get capacity(): number {
    return this.options.concurrency ?? DEFAULT_CONCURRENCY;
  }

  /** Subscribes every endpoint; called by Nest. Calls `done` when the server knows all subscriptions. */
  async listen(done: (error?: unknown) => void): Promise<void> {
    try {
      let hasExec = false;
      for (const [subject, handler] of this.getHandlers()) {
        const options = (handler.extras ?? {}) as EndpointOptions;
        hasExec ||= options.exec === true;
        const served: ServedSubject = {
          subject,
          handler: handler as unknown as Handler,
          check: options.schema && validateMessage(options.schema),
          exec: options.exec ?? false,
          slots: options.exec ? this.#slots : options.management ? this.#management : undefined,
          concurrency: options.concurrency ?? Number.POSITIVE_INFINITY,
          inFlight: 0,
        };
        const queue = options.queue === false ? undefined : (options.queue ?? this.options.queue);
        const received = (message: IncomingMessage): void => {
          const end = this.#serve(served, message).catch((error: unknown) => this.#report(error, subject));
          if (message.size > LARGE_MESSAGE) void end.finally(() => message.free?.());
        };
        this.#subscriptions.push(this.#link.subscribe(subject, received, queue));
      }
      if (hasExec) {
        this.#measureSlots();
        this.#stalls.start();
        // A cancel goes to every executor, because only the one that runs the call knows about it.
        this.#subscriptions.push(this.#link.subscribe(SUBJECTS.execCancel, (message) => this.#cancel(message)));
      }
      await this.#link.flush();
      done();
    } catch (error) {
      // A partly subscribed service must not serve, and another attempt must not subscribe twice.
      this.close();
      done(error);
    }
  }

  /** Stops taking messages, then waits until those in flight are answered, at most `maxMs`. The connection stays open. */
  async drain(maxMs: Milliseconds = 60_000): Promise<void> {
    if (this.#draining) return;
    this.#draining = true;
    await Promise.allSettled(this.#subscriptions.map((subscription) => subscription.drain()));
    this.#subscriptions = [];
    const until = this.#clock.monotonic() + maxMs;
    while (this.#running.size > 0 && this.#clock.monotonic() < until) await this.#clock.sleep(10);
    if (this.#link.connected) await this.#link.flush();
  }

  /** Ends the subscriptions at once; called by Nest. Call `drain` first. */
  close(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
    this.#subscriptions = [];
    this.#stalls.stop();
  }

  override on(): void {
    // The connection reports its own events.
  }

  override unwrap<T>(): T {
    return this.#link as T;
  }

  async #serve(served: ServedSubject, message: IncomingMessage): Promise<void> {
    const reply = isInbox(message.reply) ? message.reply : '';
    let acknowledged = false;
    const acknowledge = (): void => {
      // Only callers that send a fence expect an acknowledgement; others would take it for the result.
      if (acknowledged || !served.exec || reply === '' || context.headers.get(HEADERS.fence) === undefined) return;
      acknowledged = true;
      if (!this.#link.connected) return;
      try {
        this.#link.publish(reply, EMPTY, { headers: ACK });
      } catch (error) {
        // This runs in a timer, where nothing would catch it.
        this.#report(error, served.subject);
      }
    };
    const context = new EndpointContext(message, this.#clock, acknowledge, this.#link);
    if (this.#running.size >= this.capacity || served.inFlight >= served.concurrency) {
      return this.#replyError(reply, new ToolError('QUEUE_FULL', { retryAfterMs: BUSY_RETRY_MS }), context);
    }
    if (served.exec && this.#stalls.late) return this.#replyError(reply, tooLate(), context);
    served.inFlight++;
    const end = this.#running.begin(context, served.exec);
    let resendable: { key: string; call: ServedCall } | undefined;
    let sentReply: SentReply | undefined;
    let release: (() => void) | undefined;
    let leave: (() => void) | undefined;
    try {
      if (this.options.admit) await this.options.admit(context);
      const { large } = this.options;
      if (this.options.isEntryPoint && message.size > SIZES.request)
        throw new ToolError('PAYLOAD_TOO_LARGE', { message: `A request has at most ${SIZES.request} bytes` });
      const isLarge = message.size > LARGE_MESSAGE;
      release = large?.hold(context, isLarge ? message.size : 0, 'request');
      if (served.exec && isLarge) await this.#turn(context);
      const body =
        large && isLarge
          ? requestBody(await large.read(context, message.data))
          : decodeRequest(message, this.options.isEntryPoint);
      // A schema sees an empty body as null, a value of JSON.
      served.check?.(body ?? null);
      if (context.remainingMs === 0) throw new ToolError('DEADLINE_EXCEEDED');
      if (served.slots && !(leave = served.slots.take(tenantOf(body))))
        throw new ToolError('QUEUE_FULL', { retryAfterMs: BUSY_RETRY_MS });
      const key = served.exec ? this.#resent.callKey(served.subject, reply, context.headers, body) : undefined;
      if (key !== undefined) {
        const fence = Number(context.headers.get(HEADERS.fence));
        const original = this.#resent.original(key, fence, reply);
        if (original) {
          if (original.endedAt === 0) acknowledge();
          else original.repeat?.(reply);
          return;
        }
        resendable = { key, call: this.#resent.begin(key, fence, reply) };
      }
      const work = () => served.handler(body, context);
      const traced = this.options.isEntryPoint ? beginTrace : inTrace;
      let result = await traced(served.subject, context.headers, work);
      if (isObservable(result)) result = await lastValueFrom(result, { defaultValue: undefined });
      context.end();
      sentReply = this.#reply(resendable?.call.reply ?? reply, result, context, served);
    } catch (error) {
      context.end();
      if (!(error instanceof ToolError)) this.#report(error, message.subject);
      const to = (copy: string): void => this.#replyError(copy, error, context);
      to(resendable?.call.reply ?? reply);
      sentReply = { bytes: 0, to };
    } finally {
      release?.();
      leave?.();
      served.inFlight--;
      end();
      if (resendable)
        this.#resent.end(resendable.key, resendable.call, sentReply?.bytes, sentReply?.to ?? (() => undefined));
    }
  }

  /** Waits until a large exec message may be parsed. @throws ToolError DEADLINE_EXCEEDED */
  async #turn(context: EndpointContext): Promise<void> {
    await this.#turns.next(context.headers.get(HEADERS.tenant) ?? '');
    if (context.timeLeftMs === 0) throw new ToolError('DEADLINE_EXCEEDED');
  }

  /** `toolfleet_worker_slots`, the scaling metric of executors. */
  #measureSlots(): void {
    const { metrics } = this.options.connection;
    const { queue, executors = [queue] } = this.options;
    metrics?.onScrape(() => {
      for (const executor of executors) {
        metrics.workerSlots.set({ executor, state: 'busy' }, this.inFlight);
        metrics.workerSlots.set({ executor, state: 'total' }, this.capacity);
      }
    });
  }

  /** Sends a result. Returns the sent bytes, or undefined when it could not be. @throws ToolError RESULT_TOO_LARGE */
  #reply(reply: string, result: unknown, context: EndpointContext, { exec }: ServedSubject): SentReply | undefined {
    if (reply === '' || !this.#link.connected) return undefined;
    const body = encode(result ?? null);
    const { length } = body;
    if (length > this.#link.maxPayload) {
      const limit = this.#link.maxPayload;
      throw new ToolError('RESULT_TOO_LARGE', {
        message: `The result has ${length} bytes; NATS accepts at most ${limit}`,
        details: { bytes: length, limit },
      });
    }
    // What tools return comes from outside the fleet.
    const excess = exec && length > LARGE_MESSAGE ? resultExcess(body.bytes) : undefined;
    if (excess) throw new ToolError('RESULT_TOO_LARGE', { message: excess });
    // Kept for copies of the call: it refers to the reply, and not to the context.
    const { subject } = context;
    const to = (copy: string): void =>
      this.#link.publish(copy, body, { failed: (error) => this.#report(error, subject) });
    to(reply);
    if (length > LARGE_MESSAGE) this.#holdReply(context, length);
    return { bytes: length, to };
  }

  /** Counts a reply until the server has it: a slow server leaves it in this process. */
  #holdReply(context: EndpointContext, bytes: number): void {
    const release = this.options.large?.hold(context, bytes, 'reply');
    if (!release) return;
    // A connection that breaks drops unsent messages.
    void this.#link.flush().then(release, release);
  }

  /** Never throws, because it runs while another error is handled. */
  #replyError(reply: string, error: unknown, context: EndpointContext): void {
    if (reply === '' || !this.#link.connected) return;
    const failed = (fault: unknown): void => this.#report(fault, context.subject);
    try {
      const { headers, body } = toErrorReply(error, context.callId);
      this.#link.publish(reply, body, { headers, failed });
    } catch (fault) {
      failed(fault);
      this.#replyCodeOnly(reply, error, context);
    }
  }

  /** Sends the error code alone, when the error cannot be rendered or sent as a whole. */
  #replyCodeOnly(reply: string, error: unknown, context: EndpointContext): void {
    try {
      const { headers, body } = toErrorReply(new ToolError(toToolError(error).code));
      this.#link.publish(reply, body, { headers });
    } catch (fault) {
      this.#report(fault, context.subject);
    }
  }

  /** Never throws: an `onFault` that does must not end the process. */
  #report(error: unknown, subject: string): void {
    try {
      this.options.onFault?.(error, subject);
    } catch (fault) {
      process.emitWarning(fault instanceof Error ? fault : String(fault));
    }
  }

  #cancel(message: IncomingMessage): void {
    const body = parseLenient(message);
    if (!isJsonObject(body) || typeof body['call_id'] !== 'string') return;
    const attempt = typeof body['attempt'] === 'number' ? body['attempt'] : undefined;
    this.#running.cancel(body['call_id'], attempt);
  }
}

/** The tenant of an exec message, or of a question of a route: its gateway vouches for it. */
function tenantOf(body: unknown): string {
  const { context, principal } = isJsonObject(body as Json) ? (body as JsonObject) : {};
  if (isJsonObject(principal)) return String(principal['tenantId']);
  return isJsonObject(context) ? String(context['tenant_id']) : '';
}

/** The refusal of a call that waited for the event loop. It has not begun, so another executor may run it. */
function tooLate(): ToolError {
  return new ToolError('QUEUE_FULL', {
    message: 'The executor was blocked and the call waited too long',
    details: { reason: 'executor_late' },
    facts: { begun: 'no' },
    retryAfterMs: BUSY_RETRY_MS,
  });
}

/**
 * Whether a reply subject is an inbox (`_INBOX.…`, `_R_.…`). A tenant chooses the reply subject; without this check it could make this
 * service with more rights than the tenant send its reply to `exec.…` or `budget.…`.
 */
function isInbox(reply: string): boolean {
  return reply.startsWith('_');
}
