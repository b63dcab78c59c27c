import { randomUUID } from 'node:crypto';
import { isJsonObject, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { answerSubject } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';
import { ElicitationRelay, type AwaitedAnswer } from './elicitation.js';

/** `ask.<replica>.<question>`: what an answer carries back leads it to the replica that waits. */
const ID = /^ask\.([\w-]{1,64})\.([\w-]{1,64})$/;

interface Waiting {
  from: Principal;
  resolve(answer: JsonObject): void;
  reject(error: ToolError): void;
}

/** Answers of clients over NATS. Listens from the first question on, on a subject of this replica's own. */
export class NatsElicitationRelay extends ElicitationRelay {
  readonly #replica = randomUUID();
  readonly #waiting = new Map<string, Waiting>();
  #listening: Promise<void> | undefined;

  constructor(private readonly nats: NatsClient) {
    super();
  }

  override async expect(from: Principal): Promise<AwaitedAnswer> {
    this.#listening ??= this.#listen().catch((error: unknown) => {
      this.#listening = undefined;
      throw error;
    });
    await this.#listening;
    const question = randomUUID();
    const answer = new Promise<JsonObject>((resolve, reject) => {
      this.#waiting.set(question, { from, resolve, reject });
    });
    answer.catch(() => undefined); // whoever asked may have left
    return { id: `ask.${this.#replica}.${question}`, answer, close: () => void this.#waiting.delete(question) };
  }

  override deliver(from: Principal, response: JsonObject): boolean {
    const { id, result, error } = response;
    const [, replica, question] = (typeof id === 'string' && ID.exec(id)) || [];
    if (replica === undefined || question === undefined) return false;
    this.nats.publish(answerSubject(replica, question), {
      tenant_id: from.tenantId,
      user_id: from.userId,
      ...(isJsonObject(result) ? { result } : { error: error ?? null }),
    });
    return true;
  }

  /** Resolves when the server knows the subscription: an answer that came before would be lost. */
  async #listen(): Promise<void> {
    this.nats.subscribe(answerSubject(this.#replica, '*'), ({ subject, body }) => {
      const waiting = this.#waiting.get(subject.slice(subject.lastIndexOf('.') + 1));
      // Who was asked answers, nobody else.
      if (!waiting || !isJsonObject(body)) return;
      if (body['tenant_id'] !== waiting.from.tenantId || body['user_id'] !== waiting.from.userId) return;
      if (isJsonObject(body['result'])) waiting.resolve(body['result']);
      else waiting.reject(new ToolError('PERMISSION_DENIED', { message: 'The client could not ask for approval' }));
    });
    await this.nats.link.flush();
  }
}
