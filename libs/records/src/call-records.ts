import { isToolError, ToolError } from '@toolfleet/contracts';
import type { RecordsAppend, RecordsBody, RecordsFacts, RecordsList } from '@toolfleet/contracts/records';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';

/** A batch that the store takes longer to commit is sent again. */
const APPEND_TIMEOUT_MS = 10_000;
const ASK_TIMEOUT_MS = 10_000;

/** Asks the service over NATS. */
export class CallRecords {
  constructor(private readonly nats: Pick<NatsClient, 'ask'>) {}

  /** Stores a batch. Resolves once it is durable; the same batch may be sent again. */
  append(batch: RecordsAppend) {
    return this.nats.ask(SUBJECTS.recordsAppend, batch, { timeoutMs: APPEND_TIMEOUT_MS });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  list(query: RecordsList) {
    return this.#ask(SUBJECTS.recordsList, query);
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  body(question: RecordsBody) {
    return this.#ask(SUBJECTS.recordsBody, question);
  }

  /**
   * Stores that the content of a call was read elsewhere, with the record of the call. Does nothing where no call is recorded.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async noteReading(reading: Required<Pick<RecordsBody, 'tenant_id' | 'call_id' | 'reader'>>) {
    await this.#ask(SUBJECTS.recordsBody, { ...reading, is_note: true }).catch((error: unknown) => {
      const { cause } = error as ToolError;
      if (!isToolError(cause) || !cause.facts?.noResponders) throw error;
    });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  facts(query: RecordsFacts) {
    return this.#ask(SUBJECTS.recordsFacts, query);
  }

  #ask<S extends Requested>(subject: S, question: MessageOf<S>): Promise<ReplyOf<S>> {
    return this.nats.ask(subject, question, { timeoutMs: ASK_TIMEOUT_MS }).catch((cause: unknown) => {
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The record of calls is unavailable; calls run, and are recorded later. Retry later',
        cause,
      });
    });
  }
}
