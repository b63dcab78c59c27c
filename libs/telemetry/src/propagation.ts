/**
 * W3C Trace Context (https://www.w3.org/TR/trace-context/) over HTTP headers, NATS headers and job data: all three carry
 * `traceparent` and `tracestate` as text. It works without a tracing backend and for unrecorded calls: the trace is propagated and its id is
 * in the log of every process, so that the lines of a call can be joined.
 */
import { randomUUID } from 'node:crypto';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  context,
  createContextKey,
  createTraceState,
  INVALID_SPANID,
  INVALID_TRACEID,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanContext,
} from '@opentelemetry/api';

/** Headers that can be read by name; `Headers`, NATS headers and `{ get }` over job data fit. */
export interface TraceCarrier {
  get(name: string): string | null | undefined;
}

/** Headers that propagate a trace. */
interface TraceHeaders extends Record<string, string> {
  traceparent: string;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
/** Longer lists may be dropped (section 3.3.1.5). */
const MAX_TRACESTATE = 512;

/** Asked directly: the way to it through the API of OpenTelemetry takes as many steps as all else of a look-up. */
let manager: AsyncLocalStorageContextManager | undefined;

/** Propagates contexts through asynchronous code; installed with the first trace. */
export function followContexts(): AsyncLocalStorageContextManager {
  if (manager) return manager;
  manager = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(manager);
  return manager;
}

/** The caller's span, or undefined when the headers carry none or a malformed one. */
export function readSpanContext(carrier: TraceCarrier): SpanContext | undefined {
  const header = carrier.get('traceparent');
  if (!header) return undefined;
  const match = TRACEPARENT.exec(header.trim());
  // Version ff is invalid; a longer form is only allowed to versions after 00.
  if (!match || match[1] === 'ff' || (match[1] === '00' && header.trim().length !== 55)) return undefined;
  const state = carrier.get('tracestate');
  const found: SpanContext = {
    traceId: match[2] as string,
    spanId: match[3] as string,
    traceFlags: Number.parseInt(match[4] as string, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    traceState: state && state.length <= MAX_TRACESTATE ? createTraceState(state) : undefined,
  };
  return found.traceId === INVALID_TRACEID || found.spanId === INVALID_SPANID ? undefined : found;
}

/** The key under which the API of OpenTelemetry has the active span in a context. */
const SPAN_KEY = createContextKey('OpenTelemetry Context Key SPAN');

/**
 * A context of OpenTelemetry that knows its trace, and has no span for a trace that is not recorded until one is asked for. Nor does it have
 * the three functions that each context of its API has as properties (see `onAbort` of libs/resilience for what such functions cost).
 */
class PropagatedContext implements Context {
  /** @param active the active span: of this process, or the one that a caller or `unrecordedTrace` named */
  constructor(
    readonly active?: SpanContext,
    private readonly parent?: Context,
    private readonly key?: symbol,
    private readonly value?: unknown,
  ) {}

  getValue(key: symbol): unknown {
    if (key === this.key) return this.value;
    if (this.parent) return this.parent.getValue(key);
    return key === SPAN_KEY && this.active ? trace.wrapSpanContext(this.active) : undefined;
  }

  setValue(key: symbol, value: unknown): Context {
    return new PropagatedContext(key === SPAN_KEY ? (value as Span).spanContext() : this.active, this, key, value);
  }

  deleteValue(key: symbol): Context {
    return new PropagatedContext(key === SPAN_KEY ? undefined : this.active, this, key);
  }
}

/** The context of a trace that begins here. */
export const NO_CONTEXT: Context = new PropagatedContext();

/** A context with the caller's span as parent. */
export function remoteContext(caller: SpanContext): Context {
  return new PropagatedContext(caller);
}

/** A new trace that is not recorded. Its ids are parts of one UUID: random enough and cheap. */
export function unrecordedTrace(): SpanContext {
  const traceId = randomUUID().replaceAll('-', '');
  return { traceId, spanId: traceId.slice(16), traceFlags: TraceFlags.NONE };
}

/** Whether spans of this trace are recorded. */
export const isSampled = ({ traceFlags }: SpanContext): boolean => (traceFlags & TraceFlags.SAMPLED) !== 0;

/** The span that is active here: of this process, or the one a caller or `unrecordedTrace` named. */
export function activeTrace(): SpanContext | undefined {
  const current = manager?.active();
  return current instanceof PropagatedContext ? current.active : current && trace.getSpanContext(current);
}

/** The active trace as headers for the next hop; undefined when there is none. */
export function traceHeaders(): TraceHeaders | undefined {
  const active = activeTrace();
  if (!active) return undefined;
  const flags = (active.traceFlags & 0xff).toString(16).padStart(2, '0');
  const state = active.traceState?.serialize();
  return {
    traceparent: `00-${active.traceId}-${active.spanId}-${flags}`,
    ...(state ? { tracestate: state } : {}),
  };
}

/** The active trace as the `traceparent` of a job. */
export function traceparent(): string | undefined {
  return traceHeaders()?.traceparent;
}
