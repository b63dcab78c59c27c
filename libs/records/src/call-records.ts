import { isToolError, ToolError } from '@toolfleet/contracts';
import type {
  RecordsAppend,
  RecordsAppendReply,
  RecordsBody,
  RecordsBodyReply,
  RecordsFacts,
  RecordsFactsReply,
  RecordsList,
  RecordsListReply,
} from '@toolfleet/contracts/records';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';

/** The record of finished calls, owned by the service `records`. `append` rejects when it is unavailable. */
export abstract class CallRecords {
  /** Stores a batch. Resolves once it is durable; the same batch may be sent again. */
  abstract append(batch: RecordsAppend): Promise<RecordsAppendReply>;
  /** @throws ToolError SERVICE_UNAVAILABLE */
  abstract list(query: RecordsList): Promise<RecordsListReply>;
  /** @throws ToolError SERVICE_UNAVAILABLE */
  abstract body(question: RecordsBody): Promise<RecordsBodyReply>;
  /**
   * Stores that the content of a call was read elsewhere, with the record of the call. Does nothing where no call is recorded.
   * @throws ToolError SERVICE_UNAVAILABLE
   */
  abstract noteReading(reading: Required<Pick<RecordsBody, 'tenant_id' | 'call_id' | 'reader'>>): Promise<void>;
  /** @throws ToolError SERVICE_UNAVAILABLE */
  abstract facts(query: RecordsFacts): Promise<RecordsFactsReply>;
}

/** A batch that the store takes longer to commit is sent again. */
const APPEND_TIMEOUT_MS = 10_000;
const ASK_TIMEOUT_MS = 10_000;

/** Asks the service over NATS. */
export class NatsCallRecords extends CallRecords {
  constructor(private readonly nats: Pick<NatsClient, 'ask'>) {
    super();
  }

  override append(batch: RecordsAppend) {
    return this.nats.ask(SUBJECTS.recordsAppend, batch, { timeoutMs: APPEND_TIMEOUT_MS });
  }

  override list(query: RecordsList) {
    return this.#ask(SUBJECTS.recordsList, query);
  }

  override body(question: RecordsBody) {
    return this.#ask(SUBJECTS.recordsBody, question);
  }

  override async noteReading(reading: Required<Pick<RecordsBody, 'tenant_id' | 'call_id' | 'reader'>>) {
    await this.#ask(SUBJECTS.recordsBody, { ...reading, is_note: true }).catch((error: unknown) => {
      const { cause } = error as ToolError;
      if (!isToolError(cause) || !cause.facts?.noResponders) throw error;
    });
  }

  override facts(query: RecordsFacts) {
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
