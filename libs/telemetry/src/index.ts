export { CHAINED } from './log-destinations.js';
export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './logger.js';
export { METRICS, type MetricEntry } from './metric-catalogue.js';
export { BoundedLabel, createMetrics, OTHER_LABEL, type BuildInfo, type MetricKey, type Metrics } from './metrics.js';
export { holdsSecret, REDACTED, redact, registerSecret } from './redact.js';
export { traceHeaders, traceparent, type TraceCarrier, type TraceHeaders } from './propagation.js';
export {
  inSpan,
  beginTrace,
  inLinkedTrace,
  inTrace,
  inUpstreamSpan,
  isTracing,
  startTracing,
  type TracingOptions,
} from './tracing.js';
