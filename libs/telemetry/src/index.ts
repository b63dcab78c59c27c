export { BoundedLabel, OTHER_LABEL } from './bounded-label.js';
export { CHAINED } from './chained-lines.js';
export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './logger.js';
export { createMetrics, METRICS, type BuildInfo, type MetricEntry, type MetricKey, type Metrics } from './metrics.js';
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
