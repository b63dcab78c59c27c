import { ToolError } from '@toolfleet/contracts';
import type { Metrics } from '@toolfleet/telemetry';

/** First two words of a subject: a label of bounded size (`tool.call.acme` is `tool.call`). */
export function subjectClass(subject: string): string {
  return subject.split('.', 2).join('.');
}

/** The error of a request nobody listens to: the request has provably not started. */
export function noResponders(subject: string, metrics: Metrics | undefined): ToolError {
  metrics?.natsNoResponders.inc({ subject_class: subjectClass(subject) });
  return new ToolError('EXECUTOR_UNAVAILABLE', {
    message: `Nobody serves ${subject}`,
    details: { reason: 'no_responders', subject },
  });
}
