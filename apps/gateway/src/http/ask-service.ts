import type { Milliseconds } from '@toolfleet/contracts';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import type { NatsClient } from '@toolfleet/transport';

const TIMEOUT_MS = 10_000;

/**
 * Asks another service for the answer of a route.
 * @throws ToolError of the service; EXECUTOR_UNAVAILABLE or DEADLINE_EXCEEDED without an answer in time
 */
export function askService<S extends Requested>(
  nats: NatsClient,
  subject: S,
  message: MessageOf<S>,
  timeoutMs: Milliseconds = TIMEOUT_MS,
): Promise<ReplyOf<S>> {
  return nats.ask(subject, message, { timeoutMs });
}
