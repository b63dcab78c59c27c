import { isToolError, ToolError } from '@toolfleet/contracts';
import type { RecordsAppend, RecordsBody, RecordsFacts, RecordsList } from '@toolfleet/contracts/records';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import type { NatsClient } from '@toolfleet/transport';

/** Asks the service over NATS. */
export class CallRecords {
  constructor(private readonly nats: Pick<NatsClient, 'ask'>) {}

  /** Stores a batch. Resolves once it is durable; a batch that fails or takes too long may be sent again. */
  append(batch: RecordsAppend) {
    return this.nats.ask('records.append', batch);
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  list(query: RecordsList) {
    return this.#ask('records.list', query);
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  body(question: RecordsBody) {
    return this.#ask('records.body', question);
  }

  /**
   * Stores that the content of a call was read elsewhere, with the record of the call. Does nothing where no call is recorded.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  async noteReading(reading: Required<Pick<RecordsBody, 'tenant_id' | 'call_id' | 'reader'>>) {
    await this.#ask('records.body', { ...reading, is_note: true }).catch((error: unknown) => {
      const { cause } = error as ToolError;
      if (!isToolError(cause) || !cause.facts?.noResponders) throw error;
    });
  }

  /** @throws ToolError SERVICE_UNAVAILABLE */
  facts(query: RecordsFacts) {
    return this.#ask('records.facts', query);
  }

  #ask<S extends Requested>(subject: S, question: MessageOf<S>): Promise<ReplyOf<S>> {
    return this.nats.ask(subject, question).catch((cause: unknown) => {
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The record of calls is unavailable; calls run, and are recorded later. Retry later',
        cause,
      });
    });
  }
}
