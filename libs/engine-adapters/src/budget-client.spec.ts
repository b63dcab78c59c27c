import {
  LEASE_GRACE_MS,
  type BudgetRelease,
  type BudgetReserve,
  type BudgetReserveReply,
  type BudgetSettleReply,
  type SettleRequest,
} from '@toolfleet/contracts/budget';
import { FakeClock } from '@toolfleet/testing';
import type { NatsClient } from '@toolfleet/transport';
import { beforeEach, describe, expect, it } from 'vitest';
import { BudgetClient, type RefusedSettlement } from './budget-client.js';

const scopes = { tenant_id: 't', request_id: 'r' };
const ask = (callId: string) => ({ call_id: callId, scopes, micro_usd: 5, tokens: 0, lease_ms: 60_000 });
const admitted = (callId: string) => ({ admitted: true as const, call_id: callId });
const down = (callId: string) =>
  ({ admitted: false, call_id: callId, code: 'BUDGET_UNAVAILABLE', scope: 'store', limit: 0, used: 0 }) as const;

describe('BudgetClient', () => {
  let clock: FakeClock;
  /** Unanswered reserves in the order of sending. */
  let reserves: PromiseWithResolvers<BudgetReserveReply>[];
  let released: string[];
  let releasing: () => Promise<{ released: number }>;
  let client: BudgetClient;
  let settled: BudgetSettleReply;
  let refused: RefusedSettlement[];

  beforeEach(() => {
    clock = new FakeClock();
    reserves = [];
    released = [];
    releasing = () => Promise.resolve({ released: 1 });
    settled = { settled: 1 };
    refused = [];
    const nats = {
      onTickEnd: (work: () => void) => void setImmediate(work),
      ask: (subject: string, body: BudgetReserve | BudgetRelease) => {
        if (subject === 'budget.release') {
          released.push(...(body as BudgetRelease).releases.map((one) => one.call_id));
          return releasing();
        }
        if (subject === 'budget.settle') return Promise.resolve(settled);
        const asked = Promise.withResolvers<BudgetReserveReply>();
        reserves.push(asked);
        return asked.promise;
      },
    };
    client = new BudgetClient(
      nats as unknown as NatsClient,
      clock,
      () => undefined,
      (some) => refused.push(...some),
    );
  });

  it('releases a lease that a late reply granted to a call that was refused already', async () => {
    const answers = Promise.all([client.reserve(ask('a')), client.reserve(ask('b'))]);
    await clock.run(500);
    expect(reserves).toHaveLength(2);
    reserves[0]?.resolve({ answers: [down('a'), admitted('b')] });
    expect(await answers).toEqual([down('a'), admitted('b')]);
    reserves[1]?.resolve({ answers: [admitted('a'), admitted('b')] });
    await clock.run(25);
    expect(released).toEqual(['a', 'a']);
  });

  it('releases what may have been granted to calls that are refused without a decision', async () => {
    const answers = Promise.all([client.reserve(ask('a')), client.reserve(ask('b')), client.reserve(ask('c'))]);
    await clock.run(1);
    const exceeded = { ...down('c'), code: 'BUDGET_EXCEEDED', scope: 'tenant' } as const;
    reserves[0]?.resolve({ answers: [down('a'), admitted('b'), exceeded] });
    await answers;
    const failing = client.reserve(ask('d')).catch((error: unknown) => error);
    await clock.run(500);
    for (const { reject } of reserves.slice(1)) reject(new Error('no reply'));
    expect(await failing).toMatchObject({ code: 'BUDGET_UNAVAILABLE' });
    await clock.run(25);
    expect(released).toEqual(['a', 'd']);
  });

  it('reports refused settlements only', async () => {
    void client.settle({ call_id: 'a' } as SettleRequest);
    await clock.run(25);
    expect(refused).toEqual([]);
    settled = { settled: 0, refused: [{ call_id: 'b', field: 'row.user_id' }] };
    void client.settle({ call_id: 'b' } as SettleRequest);
    await clock.run(25);
    expect(refused).toEqual([{ call_id: 'b', field: 'row.user_id' }]);
  });

  it('sends a settlement that is waited for at once, and waits for no answer longer than two seconds', async () => {
    let isConfirmed = false;
    void Promise.resolve(client.settle({ call_id: 'a' } as SettleRequest, true)).then(() => (isConfirmed = true));
    await clock.run(1);
    expect(isConfirmed).toBe(true);
    settled = new Promise(() => undefined) as never;
    isConfirmed = false;
    void Promise.resolve(client.settle({ call_id: 'b' } as SettleRequest, true)).then(() => (isConfirmed = true));
    await clock.run(1_990);
    expect(isConfirmed).toBe(false);
    await clock.run(20);
    expect(isConfirmed).toBe(true);
  });

  it('tries to release for as long as a lease outlives its call', async () => {
    releasing = () => Promise.reject(new Error('no reply'));
    client.release('a', scopes);
    await clock.run(LEASE_GRACE_MS - 5_000);
    releasing = () => Promise.resolve({ released: 1 });
    released = [];
    await clock.run(5_000);
    expect(released).toEqual(['a']);
  });

  it('sends a reserve once when the reply is quick, and fails when both messages failed', async () => {
    const quick = client.reserve(ask('a'));
    await clock.run(0);
    reserves[0]?.resolve({ answers: [admitted('a')] });
    expect(await quick).toEqual(admitted('a'));
    await clock.run(5_000);
    expect(reserves).toHaveLength(1);
    const failing = client.reserve(ask('b'));
    await clock.run(500);
    for (const one of reserves) one.reject(new Error('no responders'));
    await expect(failing).rejects.toMatchObject({ code: 'BUDGET_UNAVAILABLE' });
  });
});
