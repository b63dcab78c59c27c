import { randomUUID } from 'node:crypto';
import type { McpServer, ServerContext } from '@modelcontextprotocol/server';
import { answerSubject } from '@toolfleet/contracts/subjects';
import { isJsonObject, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { ANSWER_MS } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

interface PendingAnswer {
  from: Principal;
  resolve(answer: JsonObject | undefined): void;
}

/** `ask.<replica>.<question>`: the id names the replica that waits, so the answer can be routed from any other. */
const ANSWER_ID = /^ask\.([\w-]{1,64})\.([\w-]{1,64})$/;

/**
 * Routes answers of 2025 clients to the replica that asked. An answer is a separate HTTP request and may reach any replica,
 * which publishes it over NATS on the subject of the replica in its id. A replica subscribes when it first asks.
 */
export class ElicitationRelay {
  private readonly replica = randomUUID();
  private readonly pending = new Map<string, PendingAnswer>();
  private listening: Promise<void> | undefined;

  constructor(private readonly nats: NatsClient) {}

  /**
   * Prepares for one answer from this caller. Once this resolves, the question may be sent with `id`.
   * @returns the result that the client sent, undefined when it sent an error; `close` stops waiting
   */
  async expect(from: Principal) {
    this.listening ??= this.listen().catch((error: unknown) => {
      this.listening = undefined;
      throw error;
    });
    await this.listening;
    const question = randomUUID();
    const { promise: answer, resolve } = Promise.withResolvers<JsonObject | undefined>();
    this.pending.set(question, { from, resolve });
    return { id: `ask.${this.replica}.${question}`, answer, close: () => void this.pending.delete(question) };
  }

  /** Routes a JSON-RPC response that arrived here. @returns false when it does not answer a question of this fleet */
  deliver(from: Principal, response: JsonObject): boolean {
    const { id, result, error } = response;
    const [, replica, question] = (typeof id === 'string' && ANSWER_ID.exec(id)) || [];
    if (replica === undefined || question === undefined) return false;
    this.nats.publish(answerSubject(replica, question), {
      tenant_id: from.tenantId,
      user_id: from.userId,
      ...(isJsonObject(result) ? { result } : { error: error ?? null }),
    });
    return true;
  }

  /** Resolves when the NATS server knows the subscription: an earlier answer would be lost. */
  private async listen(): Promise<void> {
    this.nats.subscribe(answerSubject(this.replica, '*'), ({ subject, body }) => {
      const pending = this.pending.get(subject.slice(subject.lastIndexOf('.') + 1));
      // Only the caller that was asked may answer.
      if (!pending || !isJsonObject(body)) return;
      if (body['tenant_id'] !== pending.from.tenantId || body['user_id'] !== pending.from.userId) return;
      pending.resolve(isJsonObject(body['result']) ? body['result'] : undefined);
    });
    await this.nats.link.flush();
  }
}

/** The request of a 2025 client; its stream carries the questions to its user. */
export interface OpenRequest {
  server: McpServer;
  context: ServerContext;
  relay: ElicitationRelay;
  clock: Clock;
  /** Why the principal may not go on by now, such as a revoked key; undefined if it may. */
  refusalOf(principal: Principal): Promise<ToolError | undefined>;
}

/**
 * Asks a 2025 client on the stream of its own request (`elicitation/create`) and waits for the answer.
 * @param late thrown when there is no answer in time
 * @returns undefined when the client answered with an error
 * @throws ToolError CANCELLED when the client disconnected; why the caller may not go on
 */
export async function askClient(
  params: JsonObject,
  from: Principal,
  late: ToolError,
  { server, context, relay, clock, refusalOf }: OpenRequest,
): Promise<JsonObject | undefined> {
  const { id: relatedRequestId, signal } = context.mcpReq;
  const awaited = await relay.expect(from);
  const stopped = Promise.withResolvers<never>();
  const onAbort = (): void =>
    stopped.reject(new ToolError('CANCELLED', { message: 'The client closed the connection' }));
  const cancelTimer = clock.after(ANSWER_MS, () => stopped.reject(late));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    const request = { jsonrpc: '2.0' as const, id: awaited.id, method: 'elicitation/create', params };
    // Sent on the transport: the SDK's own request() would wait for the answer in this process, but it may reach any replica.
    const sent = server.server.transport?.send(request, { relatedRequestId });
    const answer = await Promise.race([Promise.resolve(sent).then(() => awaited.answer), stopped.promise]);
    // The person may have taken minutes: a key revoked in the meantime must not start the call.
    const voided = await refusalOf(from);
    if (voided) throw voided;
    return answer;
  } finally {
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
    awaited.close();
  }
}
