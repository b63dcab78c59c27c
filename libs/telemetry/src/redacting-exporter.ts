import type { Attributes, AttributeValue } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import { holdsSecret, redact } from './redact.js';

/**
 * Removes secrets from all texts of a span before it leaves the process. Nearly every batch is clean, so its texts are searched at once and
 * spans are copied only when a secret is found.
 */
export class RedactingExporter implements SpanExporter {
  constructor(private readonly inner: SpanExporter) {}

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    this.inner.export(holdsSecret(collectText(spans)) ? spans.map(redactedSpan) : spans, done);
  }

  shutdown(): Promise<void> {
    return this.inner.shutdown();
  }

  async forceFlush(): Promise<void> {
    await this.inner.forceFlush?.();
  }
}

/** Every text of these spans that `redactedSpan` would redact. */
function collectText(spans: readonly ReadableSpan[]): string {
  let text = '';
  const add = (attributes: Attributes | undefined): void => {
    for (const key in attributes) {
      const value = attributes[key];
      if (typeof value === 'string' || Array.isArray(value)) text += `${String(value)}\n`;
    }
  };
  for (const span of spans) {
    text += `${span.name}\n${span.status.message ?? ''}\n`;
    add(span.attributes);
    for (const event of span.events) {
      text += `${event.name}\n`;
      add(event.attributes);
    }
  }
  return text;
}

/** The span with redacted texts; everything else is inherited from the original. */
function redactedSpan(span: ReadableSpan): ReadableSpan {
  return Object.create(span, {
    name: { value: redact(span.name) },
    attributes: { value: redactedAttributes(span.attributes) },
    status: { value: { ...span.status, message: span.status.message && redact(span.status.message) } },
    events: {
      value: span.events.map((event) => ({
        ...event,
        name: redact(event.name),
        attributes: event.attributes && redactedAttributes(event.attributes),
      })),
    },
  }) as ReadableSpan;
}

function redactedAttributes(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).map(([key, value]) => [key, redactedValue(value)]));
}

function redactedValue(value: AttributeValue | undefined): AttributeValue | undefined {
  if (typeof value === 'string') return redact(value);
  if (Array.isArray(value)) return value.map((item) => (typeof item === 'string' ? redact(item) : item)) as string[];
  return value;
}
