export { CHAINED } from './log-destinations.js';
export {
  ATTR,
  ATTRIBUTE_TYPES,
  CONVENTIONS,
  EXECUTE_TOOL,
  isServerError,
  knownRevision,
  LABEL,
  SIGNALS,
  TOOL_ERROR,
  type AttributeKey,
  type Signal,
} from './conventions.js';
export { createLogger, type Logger, type LoggerOptions, type LogLevel } from './logger.js';
export { describeMessage, messageAttributes, type MessageFacts } from './mcp-message.js';
export { METRICS, type MetricEntry } from './metric-catalogue.js';
export { BoundedLabel, createMetrics, OTHER_LABEL, type BuildInfo, type MetricKey, type Metrics } from './metrics.js';
export { holdsSecret, REDACTED, redact, redactSecretFields, registerSecret } from './redact.js';
export { traceHeaders, traceparent, type TraceCarrier, type TraceHeaders } from './propagation.js';
export {
  inSpan,
  beginTrace,
  failSpan,
  inLinkedTrace,
  inTrace,
  inUpstreamSpan,
  isTracing,
  openClientSpan,
  serverAddress,
  startTracing,
  type OpenSpan,
  type RecordedSpan,
  type SpanFailure,
  type TracingOptions,
} from './tracing.js';
