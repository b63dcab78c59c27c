import { SystemClock } from '@toolfleet/resilience';
import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';
import { BufferedDestination, chainedLines } from './log-destinations.js';
import { activeTrace, isSampled } from './propagation.js';
import { redact, redactSecretFields } from './redact.js';

const CLOCK = new SystemClock();

/** Structured log of a service: pino, one JSON object per line. Call as `logger.info({ tool_name }, 'message')`. */
export type Logger = PinoLogger;
/** Levels of `LOG_LEVEL`. */
type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** Options of a logger. */
interface LoggerOptions {
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
      base: { service: options.service, environment: options.environment || undefined },
      timestamp: () => `,"time":"${isoTime(CLOCK.now())}"`,
      messageKey: 'message',
      errorKey: 'error',
      formatters: { level: (label) => ({ level: label }), log: (record) => withTraceIds(redactSecretFields(record)) },
      serializers: { error: errorFields, err: errorFields },
    },
    destination ? outgoing(destination) : new BufferedDestination(outgoing(pino.destination({ fd: 1, sync: true }))),
  );
}

/** The last steps of a line: secrets are removed, then audit lines are chained as they are written. */
function outgoing(destination: DestinationStream): DestinationStream {
  return redacted(chainedLines(destination));
}

/** Searches many lines at once. No secret spans lines, because JSON escapes line breaks. */
function redacted(destination: DestinationStream): DestinationStream {
  return { write: (text) => destination.write(redact(text)) };
}

/** Errors may carry what libraries attached: headers, requests, bodies. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return redactSecretFields(pino.stdSerializers.err(error) as unknown as Record<string, unknown>);
}

/** Not pino's `mixin`, whose merging costs a tenth of a line. */
function withTraceIds(record: Record<string, unknown>): Record<string, unknown> {
  const active = activeTrace();
  if (!active) return record;
  const { traceId: trace_id, spanId: span_id } = active;
  return isSampled(active) ? { ...record, trace_id, span_id } : { ...record, trace_id };
}

const MINUTE_MS = 60_000;
const DIGITS = Array.from({ length: 1_000 }, (_, value) => String(value).padStart(3, '0'));

let minute = -1;
/** `2026-01-31T12:34:` of that minute. */
let prefix = '';

/** `2026-01-31T12:34:56.789Z`, as `Date` formats it, at a fifth of the cost: the minute is formatted once a minute. */
export function isoTime(epochMs: number): string {
  const now = Math.floor(epochMs / MINUTE_MS);
  if (now !== minute) {
    minute = now;
    prefix = new Date(now * MINUTE_MS).toISOString().slice(0, 17);
  }
  const rest = epochMs - now * MINUTE_MS;
  const seconds = Math.floor(rest / 1_000);
  return `${prefix}${DIGITS[seconds]!.slice(1)}.${DIGITS[Math.floor(rest - seconds * 1_000)]}Z`;
}
