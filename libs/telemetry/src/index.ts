export { CHAINED } from './log-destinations.js';
export {
  ATTR,
  EXECUTE_TOOL,
  isServerError,
  knownRevision,
  LABEL,
  SIGNALS,
  TOOL_ERROR,
  type AttributeKey,
  type Signal,
} from './conventions.js';
export { replaceLabelled } from './labelled-values.js';
export { createLogger, type Logger } from './logger.js';
export { describeMessage, messageAttributes, type MessageFacts } from './mcp-message.js';
export { METRICS, type MetricEntry } from './metric-catalogue.js';
export { BoundedLabel, createMetrics, OTHER_LABEL, type Metrics } from './metrics.js';
export { holdsSecret, redact, redactorOf, redactSecretFields, registerSecret } from './redact.js';
export { SensitiveText } from './sensitive-text.js';
export { traceHeaders, traceparent } from './propagation.js';
export {
  inSpan,
  beginTrace,
  failSpan,
  inLinkedTrace,
  inTrace,
  inUpstreamSpan,
  openClientSpan,
  serverAddress,
  startTracing,
  type RecordedSpan,
  type SpanFailure,
} from './tracing.js';
