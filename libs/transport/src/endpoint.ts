import 'reflect-metadata';
import { Catch, UseFilters, type ExceptionFilter } from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import { isToolError, ToolError, type CallProgress, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import type { Schema } from '@toolfleet/contracts/json-schema';
import { REQUESTS, type MessageOf, type ReplyOf, type Requested } from '@toolfleet/contracts/requests';
import { HEADERS } from '@toolfleet/contracts/subjects';
import { AbortSource, type Clock } from '@toolfleet/resilience';
import { throwError, type Observable } from 'rxjs';
import { NO_HEADERS, type IncomingHeaders, type IncomingMessage } from './codec.js';
import type { NatsLink } from './nats-connection.js';
import { ProgressReporter } from './progress-reporter.js';

/** How a subject is served with bodies of type `T`. */
export interface EndpointOptions<T = unknown> {
  /** Queue group: one member of the group gets a message. Default: the strategy's; `false`: every process gets it. */
  queue?: string | false;
  /** JSON Schema of the body, of `REQUESTS` by default; an empty body is null. A body that does not match is refused as REQUEST_INVALID. */
  schema?: Schema<T>;
  /** Serves the exec hop: acknowledges when the handler takes longer than 150 ms, and listens to `exec.cancel`. */
  exec?: boolean;
  /** Questions of routes: they share a limit in flight, of which a tenant has a part. */
  management?: boolean;
  /** The message of SERVICE_UNAVAILABLE, for failures of the handler that are not ToolErrors. Default: they are INTERNAL. */
  unavailable?: string;
  /** Most messages in flight; more are refused as QUEUE_FULL. Default: only the strategy's limit applies. */
  concurrency?: number;
}

/** Serves a message with a schema that says its type; of a plain JSON Schema the method knows the type. */
type EndpointMethod<T, A> = (body: unknown extends T ? never : T, context: EndpointContext) => A;
/** The message of `REQUESTS`, where the subject has a row. */
type BodyOf<S extends string> = S extends Requested ? MessageOf<S> : unknown;
/** The answer of the method: the reply of `REQUESTS`, where the subject has a row. */
type AnswerOf<S extends string> = S extends Requested ? ReplyOf<S> | Promise<ReplyOf<S>> : unknown;

/** Metadata key under which Nest keeps the argument layout of a handler. */
const ROUTE_ARGUMENTS = '__routeArguments__';

/** Passes errors to the strategy unchanged. By default Nest turns a ToolError into "Internal server error" and its code is lost. */
@Catch()
class KeepErrors implements ExceptionFilter {
  constructor(private readonly unavailable: string | undefined) {}

  catch(error: unknown): Observable<never> {
    const { unavailable: message } = this;
    const isKept = message === undefined || isToolError(error);
    return throwError(() => (isKept ? error : new ToolError('SERVICE_UNAVAILABLE', { message, cause: error })));
  }
}

/**
 * Serves a NATS subject (wildcards allowed) with a controller method `(body, context: EndpointContext) => reply`. The reply is sent as
 * plain JSON, a thrown error as error headers and body. Guards, pipes, interceptors and dependency injection work as usual in Nest;
 * parameter decorators (`@Payload()`, `@Ctx()`) are allowed but cost time per message.
 */
export function Endpoint<S extends string, T = BodyOf<S>>(subject: S, options: EndpointOptions<T> = {}) {
  const schema =
    options.schema ?? (REQUESTS as Readonly<Record<string, { schema: Schema } | undefined>>)[subject]?.schema;
  return <F extends EndpointMethod<T, AnswerOf<S>>>(
    target: object,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<F>,
  ) => {
    MessagePattern(subject, { ...options, schema })(target, key, descriptor);
    UseFilters(new KeepErrors(options.unavailable))(target, key, descriptor);
    // Nest's default layout passes the first argument only, through the pipes; an empty one passes (body, context).
    if (!Reflect.hasMetadata(ROUTE_ARGUMENTS, target.constructor, key)) {
      Reflect.defineMetadata(ROUTE_ARGUMENTS, {}, target.constructor, key);
    }
  };
}

/** Deadline of a request without `Tf-Remaining-Ms`, from a caller outside the fleet. */
const DEFAULT_REMAINING_MS = 60_000;
/** A longer call id is ignored, because it is repeated in replies and logs. */
const MAX_CALL_ID_CHARS = 200;
/** Longest deadline that is accepted. */
const MAX_REMAINING_MS = 24 * 3_600_000;

/** Facts about the message of a handler, apart from the body. */
export class EndpointContext {
  /** The concrete subject, also when subscribed with a wildcard. */
  readonly subject: string;
  readonly headers: IncomingHeaders;
  /** Milliseconds until the deadline when the message arrived. */
  readonly remainingMs: Milliseconds;
  /** Sent with errors. `Tf-Call-Id` where the caller is part of the fleet; an entry point sets the id that it gives the call. */
  callId: string | undefined;
  /** Arrival on the monotonic clock. */
  readonly startedAt: number;
  #stop: AbortSource | undefined;
  #reason: ToolError | undefined;
  /** null: the caller wants no progress. */
  #reporter: ProgressReporter | null | undefined;

  constructor(
    message: IncomingMessage,
    private readonly clock: Clock,
    private readonly acknowledge: () => void,
    private readonly link: NatsLink,
  ) {
    this.subject = message.subject;
    this.headers = message.headers ?? NO_HEADERS;
    this.startedAt = clock.monotonic();
    const callId = this.headers.get(HEADERS.callId);
    this.callId = callId !== undefined && callId.length <= MAX_CALL_ID_CHARS ? callId : undefined;
    const sent = Number(this.headers.get(HEADERS.remainingMs) ?? DEFAULT_REMAINING_MS);
    this.remainingMs = Number.isFinite(sent) ? Math.min(Math.max(0, sent), MAX_REMAINING_MS) : DEFAULT_REMAINING_MS;
  }

  /** The deadline on this process's wall clock. */
  get deadlineAt(): EpochMs {
    return this.clock.now() + this.timeLeftMs;
  }

  /** Milliseconds left until the deadline, measured on the monotonic clock. */
  get timeLeftMs(): Milliseconds {
    return Math.max(0, this.remainingMs - (this.clock.monotonic() - this.startedAt));
  }

  /** Aborted at the deadline and when the call is cancelled, with a ToolError as reason. Created at the first access. */
  get signal(): AbortSignal {
    if (!this.#stop) {
      this.#stop = new AbortSource();
      if (this.#reason) this.#stop.abort(this.#reason);
    }
    return this.#stop.signal;
  }

  /**
   * Acknowledges an exec message. Call it before work that blocks the event loop; otherwise the strategy acknowledges after 150 ms.
   * Has no effect on other messages, or a second time.
   */
  ack(): void {
    this.acknowledge();
  }

  /**
   * Reports progress to the caller of an exec hop: about ten reports a second, the newest first. Undefined when the caller wants
   * none, so that a handler can skip collecting it.
   */
  get progress(): ((progress: CallProgress) => void) | undefined {
    this.#reporter ??= ProgressReporter.to(this.headers.get(HEADERS.progress), this.link, this.clock) ?? null;
    return this.#reporter?.report;
  }

  /** Ends progress reports; called by the strategy before it replies. */
  end(): void {
    this.#reporter?.close();
  }

  /** Stops the work; called by the strategy. */
  abort(reason: ToolError): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#stop?.abort(reason);
  }
}
