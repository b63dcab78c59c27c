import { Tracer, type CallSpan } from '@toolfleet/engine';
import { inSpan } from '@toolfleet/telemetry';

/** Nothing is recorded: one object for every call. */
const UNRECORDED: CallSpan = { set: () => undefined };

/** Spans of calls: one `tool_execution` per call, its steps below it. Without a collector it costs one function call. */
export class CallSpans extends Tracer {
  override span<T>(
    name: string,
    attributes: Record<string, string | number | boolean>,
    work: (span: CallSpan) => Promise<T>,
  ): Promise<T> {
    return inSpan(name, attributes, (span) =>
      work(span ? { set: (more) => void span.setAttributes(more) } : UNRECORDED),
    );
  }
}
