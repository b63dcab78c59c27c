import {
  context,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';
import { ATTR } from './conventions.js';
import { redact } from './redact.js';
import {
  activeTrace,
  followContexts,
  isSampled,
  NO_CONTEXT,
  remoteContext,
  readSpanContext,
  traceHeaders,
  unrecordedTrace,
  type TraceCarrier,
} from './propagation.js';

/** Where spans go. */
interface TracingOptions {
  service: string;
  version: string;
  environment: string;
  /** Base URL of an OTLP/HTTP collector, e.g. `http://otel:4318`. */
  endpoint: string;
  /** Share of new traces that are recorded, 0 to 1. A sampled caller is always followed. */
  sampleRatio?: number;
}

let tracer: Tracer | undefined;
/** Share of the traces begun here that are recorded. */
let sampleRatio = 1;

/**
 * Begins to record and export spans; until then `inTrace` and `inSpan` only propagate contexts. The SDK is loaded here, so
 * that a process without a collector never loads it. Returns a function that flushes and ends.
 */
export async function startTracing(options: TracingOptions): Promise<() => Promise<void>> {
  const [
    { BatchSpanProcessor, TracerProvider },
    { OTLPTraceExporter },
    { resourceFromAttributes },
    { RedactingExporter },
  ] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('./redacting-exporter.js'),
  ]);
  const exporter = new OTLPTraceExporter({ url: `${options.endpoint.replace(/\/+$/, '')}/v1/traces` });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': `toolfleet-${options.service}`,
      'service.version': options.version,
      'deployment.environment.name': options.environment,
    }),
    spanLimits: { attributeValueLengthLimit: 2_048, attributeCountLimit: 64 },
    spanProcessors: [new BatchSpanProcessor({ exporter: new RedactingExporter(exporter), maxQueueSize: 4_096 })],
  });
  followContexts();
  sampleRatio = options.sampleRatio ?? 1;
  tracer = provider.getTracer('toolfleet', options.version);
  return async () => {
    tracer = undefined;
    await provider.shutdown();
  };
}

/** The operations of a recorded span. */
export type RecordedSpan = Pick<Span, 'setAttributes' | 'setAttribute' | 'setStatus' | 'updateName'>;

/**
 * Serves a request at an entry point inside the caller's trace; a request without a trace begins one, recorded for the share of
 * `sampleRatio`. Of unrecorded traces only the ids are propagated: in headers, jobs and log lines, without a span.
 * @param work gets the span to add facts to; undefined when nothing is recorded
 * @param message the carrier in a message of the request, such as `_meta` of MCP. Its trace takes precedence over the transport's,
 * with a link to that span: one message may arrive in several requests
 */
export function beginTrace<T>(
  name: string,
  carrier: TraceCarrier,
  work: (span: RecordedSpan | undefined) => T,
  message?: TraceCarrier,
): T {
  const transport = readSpanContext(carrier);
  const caller = (message && readSpanContext(message)) ?? transport;
  if (caller || !tracer || Math.random() >= sampleRatio) {
    const linked = transport && transport.spanId !== caller?.spanId ? transport : undefined;
    return follow(name, caller ?? unrecordedTrace(), work, linked);
  }
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER, root: true });
  return runIn(span, NO_CONTEXT, work);
}

/**
 * Serves a message inside the fleet (NATS, job) inside its sender's trace. Only entry points begin traces. Without a
 * collector, or in a trace that is not sampled, the trace is only propagated.
 */
export function inTrace<T>(name: string, carrier: TraceCarrier, work: () => T): T {
  return follow(name, readSpanContext(carrier), work);
}

/**
 * Serves a message without a waiting sender: in a new trace, linked to the sender's, possibly ended long ago.
 * Recorded when the sender's is.
 */
export function inLinkedTrace<T>(name: string, carrier: TraceCarrier, work: () => T): T {
  const sender = readSpanContext(carrier);
  if (!tracer || !sender || !isSampled(sender)) return follow(name, sender, work);
  const span = tracer.startSpan(name, { kind: SpanKind.CONSUMER, root: true, links: [{ context: sender }] });
  return runIn(span, NO_CONTEXT, work);
}

function follow<T>(
  name: string,
  caller: SpanContext | undefined,
  work: (span: Span | undefined) => T,
  linked?: SpanContext,
): T {
  if (!caller) return work(undefined);
  const contexts = followContexts();
  const parent = remoteContext(caller);
  if (!tracer || !isSampled(caller)) return contexts.with(parent, work, undefined, undefined);
  const links = linked && [{ context: linked }];
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER, links }, parent);
  return runIn(span, parent, work);
}

/** True inside a recorded span; steps of other calls get no span. */
const isRecording = (): boolean => {
  const active = activeTrace();
  return active !== undefined && isSampled(active) && trace.getActiveSpan()?.isRecording() === true;
};

/**
 * A request to a server outside the fleet, as a step of the active trace. `send` gets the headers that propagate the trace; none without a
 * trace. Only method and host become attributes: paths and queries hold data of tenants.
 */
export function inUpstreamSpan<T extends { readonly status: number }>(
  request: { readonly method: string; readonly url: string },
  send: (headers: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  if (!tracer || !isRecording()) return send(traceHeaders() ?? {});
  const attributes = { 'http.request.method': request.method, ...serverAddress(request.url) };
  const span = tracer.startSpan(`upstream ${request.method}`, { kind: SpanKind.CLIENT, attributes });
  return runIn(span, context.active(), async () => {
    const response = await send(traceHeaders() ?? {});
    span.setAttribute('http.response.status_code', response.status);
    return response;
  });
}

/** Host and port of a server as attributes; none for text that is not a URL. */
export function serverAddress(url: string): Attributes {
  if (!URL.canParse(url)) return {};
  const { hostname, port, protocol } = new URL(url);
  return { [ATTR.serverAddress]: hostname, [ATTR.serverPort]: Number(port || (protocol === 'https:' ? 443 : 80)) };
}

/** A request with a separate response: the code that sees the response ends the span. */
interface OpenSpan {
  /** Runs the work of the request, with this span as the parent of all spans it starts. */
  run<T>(work: () => T): T;
  /** Ends the span; only the first call counts. */
  end(attributes: Attributes, failure?: SpanFailure): void;
}

/** Why an operation failed: `type` from a closed list, and the peer's message. */
export interface SpanFailure {
  readonly type: string;
  readonly message?: string;
}

/** Opens a span for a request to another process as a step of the active trace; undefined when nothing is recorded. */
export function openClientSpan(name: string, attributes: Attributes): OpenSpan | undefined {
  if (!tracer || !isRecording()) return undefined;
  const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes });
  const inside = trace.setSpan(context.active(), span);
  return {
    run: (work) => context.with(inside, work),
    end: (more, failure) => {
      span.setAttributes(more);
      if (failure) failSpan(span, failure);
      span.end();
    },
  };
}

/** Spans with a failure that their work has reported: an error that ends it has less detail. */
const failedSpans = new WeakSet<RecordedSpan>();

/** Marks a span as failed. The message is recorded without secrets. */
export function failSpan(span: RecordedSpan, { type, message }: SpanFailure): void {
  failedSpans.add(span);
  span.setStatus({ code: SpanStatusCode.ERROR, message: message && redact(message) });
  span.setAttribute(ATTR.errorType, type);
}

/** A step inside the active trace. `work` gets the span to add facts to; undefined when nothing is recorded. */
export function inSpan<T>(name: string, attributes: Attributes, work: (span: Span | undefined) => T): T {
  if (!tracer || !isRecording()) return work(undefined);
  const span = tracer.startSpan(name, { attributes });
  return runIn(span, context.active(), work);
}

/** Runs `work` in a span below `parent`, which ends when the work has settled, with its error as status. */
function runIn<T>(span: Span, parent: Context, work: (span: Span) => T): T {
  let result: T;
  try {
    result = context.with(trace.setSpan(parent, span), () => work(span));
  } catch (error) {
    fail(span, error);
    span.end();
    throw error;
  }
  if (!(result instanceof Promise)) {
    span.end();
    return result;
  }
  return result.then(
    (value: unknown) => {
      span.end();
      return value;
    },
    (error: unknown) => {
      fail(span, error);
      span.end();
      throw error;
    },
  ) as T;
}

function fail(span: Span, error: unknown): void {
  if (failedSpans.has(span)) return;
  const type = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '_OTHER';
  failSpan(span, { type, message: error instanceof Error ? error.message : String(error) });
}
