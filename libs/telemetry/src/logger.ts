import { SystemClock } from '@toolfleet/resilience';
import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';
import { chainedLines } from './chained-lines.js';
import { BufferedDestination } from './gathered-lines.js';
import { isoTime } from './iso-time.js';
import { activeTrace, isSampled } from './propagation.js';
import { redact } from './redact.js';
import { withoutSecretFields } from './secret-fields.js';

const CLOCK = new SystemClock();

/** Structured log of a service: pino, one JSON object per line. Call as `logger.info({ tool_name }, 'message')`. */
export type Logger = PinoLogger;
/** Levels of `LOG_LEVEL`. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Options of a logger. */
export interface LoggerOptions {
  /** `service` field of every line. */
  service: string;
  level?: LogLevel;
  environment?: string;
  /** Where lines go; standard output by default. */
  destination?: DestinationStream;
}

/**
 * Creates the logger of a process. Lines written in a trace carry its `trace_id`, recorded or not, and the `span_id` of a
 * recorded span. Secrets are removed twice: by field name and by value (everything registered with `registerSecret`, in the
 * finished text).
 */
export function createLogger(options: LoggerOptions): Logger {
  const { destination } = options;
  return pino(
    {
      level: options.level ?? 'info',
      base: { service: options.service, ...(options.environment ? { environment: options.environment } : {}) },
      timestamp: () => `,"time":"${isoTime(CLOCK.now())}"`,
      messageKey: 'message',
      errorKey: 'error',
      formatters: { level: (label) => ({ level: label }), log: (record) => inItsTrace(withoutSecretFields(record)) },
      serializers: { error: errorFields, err: errorFields },
    },
    destination ? finished(destination) : new BufferedDestination(finished(pino.destination({ fd: 1, sync: true }))),
  );
}

/** What happens to lines at last: secrets go, then audit lines are chained as they are written. */
function finished(destination: DestinationStream): DestinationStream {
  return redacted(chainedLines(destination));
}

/** Looks for secrets in what is written at once: many lines in one search. No secret spans lines, JSON escapes their ends. */
function redacted(destination: DestinationStream): DestinationStream {
  return { write: (text) => destination.write(redact(text)) };
}

/** Errors carry what their makers attached: headers, requests, bodies. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return withoutSecretFields(pino.stdSerializers.err(error) as unknown as Record<string, unknown>);
}

/** Not pino's `mixin`, whose way of merging costs a tenth of a line. */
function inItsTrace(record: Record<string, unknown>): Record<string, unknown> {
  const active = activeTrace();
  if (!active) return record;
  const { traceId: trace_id, spanId: span_id } = active;
  return isSampled(active) ? { ...record, trace_id, span_id } : { ...record, trace_id };
}
