import { Spending, type CallerGrant, type SliceAmount, type SliceRefusal } from '@toolfleet/builtin-tools';
import type { SpendMessage, SpendReply } from '@toolfleet/contracts/budget';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

const SETTLE_TIMEOUT_MS = 2_000;
/** Waits between repeats of a settlement; the slice is charged in full when all are used up. */
const SETTLE_RETRY_MS = [100, 400] as const;

/** Holds and settles slices through the gateway, with the delegation token of the call that is being served. */
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
    const options = { deadlineAt: grant.deadlineAt, headers: headersOf(grant) };
    try {
      const reply = await this.nats.request<SpendReply>(SUBJECTS.toolSpend, this.message('hold', amount), options);
      return reply.held ? undefined : reply;
    } catch (error) {
      void this.release(amount.slice, grant); // it may have been granted
      throw error;
    }
  }

  override settle(amount: SliceAmount, grant: CallerGrant): Promise<void> {
    return this.tell(this.message('settle', amount), grant);
  }

  override release(slice: string, grant: CallerGrant): Promise<void> {
    return this.tell(this.message('release', { slice, tokens: 0, microUsd: 0 }), grant);
  }

  private message(op: SpendMessage['op'], { slice, tokens, microUsd }: SliceAmount): SpendMessage {
    return { op, slice, tool: this.tool, tokens, micro_usd: microUsd };
  }

  /** A cancelled call still says what it used: the signal of the grant does not count here. */
  private async tell(message: SpendMessage, grant: CallerGrant): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const options = { timeoutMs: SETTLE_TIMEOUT_MS, headers: headersOf(grant) };
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

function headersOf({ delegationToken }: CallerGrant): Record<string, string> {
  return { [HEADERS.authorization]: `Bearer ${delegationToken}` };
}
