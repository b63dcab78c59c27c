import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino';
import { trace } from '@opentelemetry/api';
import { GatheredLines } from './gathered-lines.js';
import { redact } from './redact.js';
import { withoutSecretFields } from './secret-fields.js';

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
 * Creates the logger of a process. Lines carry `trace_id` and `span_id` when a span is active. Secrets are removed twice:
 * by field name and by value (everything registered with `registerSecret`, on the finished line).
 */
export function createLogger(options: LoggerOptions): Logger {
  return pino(
    {
      level: options.level ?? 'info',
      base: { service: options.service, ...(options.environment ? { environment: options.environment } : {}) },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: 'message',
      errorKey: 'error',
      formatters: { level: (label) => ({ level: label }), log: withoutSecretFields },
      serializers: { error: errorFields, err: errorFields },
      mixin: activeSpan,
      hooks: { streamWrite: redact },
    },
    options.destination ?? new GatheredLines(pino.destination({ fd: 1, sync: true })),
  );
}

/** Errors carry what their makers attached: headers, requests, bodies. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return withoutSecretFields(pino.stdSerializers.err(error) as unknown as Record<string, unknown>);
}

function activeSpan(): object {
  const context = trace.getActiveSpan()?.spanContext();
  return context ? { trace_id: context.traceId, span_id: context.spanId } : {};
}
