import { isToolError, ToolError } from '@toolfleet/contracts';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import type { NatsClient } from '@toolfleet/transport';

/** Answers of the service about the request itself; every other error says that it is unavailable. */
const ANSWERS: readonly string[] = ['CALL_IN_PROGRESS', 'IDEMPOTENCY_MISMATCH', 'QUOTA_EXCEEDED', 'PAYLOAD_TOO_LARGE'];

/**
 * The record of approvals in the service `records`, over NATS.
 * @throws ToolError SERVICE_UNAVAILABLE: nothing was stored, or it is not known; and the answers of each request
 */
export class NatsApprovalRecords {
  constructor(private readonly nats: Pick<NatsClient, 'ask'>) {}

  ask<S extends Requested>(subject: S, message: MessageOf<S>): Promise<ReplyOf<S>> {
    return this.nats.ask(subject, message).catch((cause: unknown) => {
      if (isToolError(cause) && ANSWERS.includes(cause.code)) throw cause;
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The record of approvals is unavailable, and nothing was run; retry later',
        facts: isToolError(cause) && cause.facts?.noResponders ? { noResponders: true } : undefined,
        cause,
      });
    });
  }
}
