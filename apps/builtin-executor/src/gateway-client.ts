/** Requests of tools that call tools to the gateway over NATS, with the delegation token of the call being served. */
import { Spending, ToolCaller, type CallerGrant, type SliceAmount, type SliceRefusal } from '@toolfleet/builtin-tools';
import type { CallBody, CallMessage, JsonObject } from '@toolfleet/contracts';
import type { SpendMessage, SpendReply } from '@toolfleet/contracts/budget';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** Maximum length of a task that the gateway searches tools for, in characters. */
const MAX_QUERY = 10_000;
const SETTLE_TIMEOUT_MS = 2_000;
/** Waits between attempts to settle; when all have failed, the gateway charges the slice in full. */
const SETTLE_RETRY_MS = [100, 400] as const;

const authorization = ({ delegationToken }: CallerGrant) => ({ [HEADERS.authorization]: `Bearer ${delegationToken}` });

/** Lists and calls tools through the gateway. */
export class NatsToolCaller extends ToolCaller {
  constructor(private readonly nats: NatsClient) {
    super();
  }

  override list(grant: CallerGrant): Promise<JsonObject[]> {
    return this.request(SUBJECTS.toolList, {}, grant);
  }

  override search(query: string, limit: number, grant: CallerGrant): Promise<JsonObject[]> {
    return this.request(SUBJECTS.toolList, { query: query.slice(0, MAX_QUERY), limit }, grant);
  }

  override call(message: CallMessage, grant: CallerGrant): Promise<CallBody> {
    return this.request(SUBJECTS.toolCall, message, grant);
  }

  private request<T>(subject: string, body: unknown, grant: CallerGrant): Promise<T> {
    const { deadlineAt, signal } = grant;
    return this.nats.request<T>(subject, body, { deadlineAt, signal, headers: authorization(grant) });
  }
}

/** Holds and settles slices of the caller's budget through the gateway. */
export class NatsSpending extends Spending {
  constructor(
    private readonly nats: NatsClient,
    private readonly clock: Clock,
    /** Name of the tool that spends. */
    private readonly tool: string,
  ) {
    super();
  }

  override async hold(amount: SliceAmount, grant: CallerGrant): Promise<SliceRefusal | undefined> {
    const options = { deadlineAt: grant.deadlineAt, headers: authorization(grant) };
    try {
      const reply = await this.nats.request<SpendReply>(SUBJECTS.toolSpend, this.message('hold', amount), options);
      return reply.held ? undefined : reply;
    } catch (error) {
      void this.release(amount.slice, grant); // it may have been granted
      throw error;
    }
  }

  override settle(amount: SliceAmount, grant: CallerGrant): Promise<void> {
    return this.send(this.message('settle', amount), grant);
  }

  override release(slice: string, grant: CallerGrant): Promise<void> {
    return this.send(this.message('release', { slice, tokens: 0, microUsd: 0 }), grant);
  }

  private message(op: SpendMessage['op'], { slice, tokens, microUsd }: SliceAmount): SpendMessage {
    return { op, slice, tool: this.tool, tokens, micro_usd: microUsd };
  }

  /** Ignores the signal of the grant: a cancelled call still reports its usage. */
  private async send(message: SpendMessage, grant: CallerGrant): Promise<void> {
    const options = { timeoutMs: SETTLE_TIMEOUT_MS, headers: authorization(grant) };
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.nats.request<SpendReply>(SUBJECTS.toolSpend, message, options);
        return;
      } catch {
        const waitMs = SETTLE_RETRY_MS[attempt];
        if (waitMs === undefined) return;
        await this.clock.sleep(waitMs);
      }
    }
  }
}
