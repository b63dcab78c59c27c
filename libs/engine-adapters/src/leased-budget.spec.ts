import type {
  BudgetLimitsReply,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
  SharedLease,
} from '@toolfleet/contracts/budget';
import { FakeClock } from '@toolfleet/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { LeasedBudget } from './leased-budget.js';
import { BudgetPort, type MaybePromise } from '@toolfleet/engine';

const never = new AbortController().signal;
const ask = (callId: string, microUsd = 5, more: Partial<ReserveRequest> = {}): ReserveRequest => ({
  call_id: callId,
  scopes: { tenant_id: 't', request_id: callId },
  micro_usd: microUsd,
  tokens: 0,
  lease_ms: 20_000,
  ...more,
});
const settlement = (callId: string, microUsd: number, tokens = 0): SettleRequest => ({
  call_id: callId,
  scopes: { tenant_id: 't', request_id: callId },
  micro_usd: microUsd,
  tokens,
});

/** The budget service: grants leases of `grant` micro-USD and every call. */
class ScriptedBudget extends BudgetPort {
  readonly calls: string[] = [];
  readonly leases: ReserveRequest[] = [];
  readonly settled: SettleRequest[] = [];
  readonly released: string[] = [];
  grant = 100;
  callLimit: number | null = null;
  estimates: SharedLease['estimates'];
  estimated: boolean | undefined;
  /** When settlements that are waited for are confirmed. */
  confirmed = Promise.resolve();
  /** Answers to calls, in turn; then they are admitted. */
  refusals: Extract<ReserveAnswer, { admitted: false }>[] = [];

  override async reserve(request: ReserveRequest): Promise<ReserveAnswer> {
    const { call_id } = request;
    if (!request.shared) {
      this.calls.push(call_id);
      return this.refusals.shift() ?? { admitted: true, call_id, estimated: this.estimated };
    }
    this.leases.push(request);
    if (this.grant === 0) return { ...REFUSED, code: 'BUDGET_UNAVAILABLE', scope: 'share' };
    const lease = {
      micro_usd: this.grant,
      tokens: 0,
      limits_micro_usd: true,
      limits_tokens: false,
      estimates: this.estimates,
      call_limit_micro_usd: this.callLimit,
    };
    return { admitted: true, call_id, lease };
  }

  override settle(request: SettleRequest, isAwaited?: boolean): MaybePromise<void> {
    this.settled.push(request);
    return isAwaited ? this.confirmed : undefined;
  }

  override release(callId: string): void {
    this.released.push(callId);
  }

  override limits(): BudgetLimitsReply {
    return { limits: [] };
  }
}

const REFUSED = {
  admitted: false,
  call_id: '',
  code: 'BUDGET_EXCEEDED',
  scope: 'tenant',
  limit: 100,
  used: 100,
} as const;

describe('LeasedBudget', () => {
  let clock: FakeClock;
  let service: ScriptedBudget;
  let budget: LeasedBudget;
  let number: number;

  beforeEach(() => {
    clock = new FakeClock();
    service = new ScriptedBudget();
    budget = new LeasedBudget(service, clock);
    number = 0;
  });

  const reserve = (callId: string, microUsd?: number, more?: Partial<ReserveRequest>) =>
    budget.reserve(ask(callId, microUsd, more), never);
  /** So many calls that a lease pays; they are asked for. */
  const busy = async (microUsd = 5, more?: Partial<ReserveRequest>): Promise<void> => {
    for (let n = 0; n < 4; n += 1) await reserve(`busy${(number += 1)}`, microUsd, more);
    await clock.run(0);
  };
  const isAsked = async (callId: string, microUsd?: number, more?: Partial<ReserveRequest>): Promise<boolean> => {
    const before = service.calls.length;
    await reserve(callId, microUsd, more);
    return service.calls.length > before;
  };

  it('asks for each of a few calls, and for a lease of what was spent in 100 ms when there are more', async () => {
    await busy();
    expect(service.calls).toHaveLength(4);
    expect(service.leases).toMatchObject([
      { micro_usd: 20, tokens: 0, lease_ms: 20_500, scopes: { tenant_id: 't' }, shared: { least_micro_usd: 10 } },
    ]);
    expect(budget.reserve(ask('a'), never)).toEqual({ admitted: true, call_id: 'a' });
    expect(service.calls).toHaveLength(4);
  });

  it('admits up to the lease and not beyond, and settles each call out of it', async () => {
    service.grant = 12;
    await busy();
    service.grant = 0;
    expect([await isAsked('a'), await isAsked('b'), await isAsked('c')]).toEqual([false, false, true]);
    void budget.settle(settlement('a', 5));
    void budget.settle(settlement('c', 5));
    const id = service.leases[0]!.call_id;
    expect(service.settled).toEqual([
      { ...settlement('a', 5), lease: { id, micro_usd: 5, tokens: 0 } },
      settlement('c', 5),
    ]);
  });

  it('uses for the next call what one did not, and returns the rest when the lease ends', async () => {
    service.grant = 10;
    await busy();
    service.grant = 0;
    await reserve('a');
    await reserve('b');
    budget.release('a', ask('a').scopes);
    void budget.settle(settlement('b', 1));
    expect(service.settled.map(({ lease }) => lease?.micro_usd)).toEqual([1]);
    expect(await isAsked('c', 9)).toBe(false);
    budget.endLeases();
    budget.release('c', ask('c').scopes);
    expect(service.settled.slice(1).map(({ call_id, lease, row }) => [call_id, lease?.micro_usd, row])).toEqual([
      [service.leases[0]!.call_id, 0, undefined],
      [expect.not.stringMatching(/^c$/), 9, undefined],
    ]);
    expect(service.released).toEqual([]);
  });

  it('asks again after half a second at the latest, so that changed limits apply', async () => {
    await busy();
    expect(await isAsked('a')).toBe(false);
    await clock.run(499);
    expect(await isAsked('b')).toBe(false);
    await clock.run(1);
    expect(service.settled).toMatchObject([{ lease: { micro_usd: 90 } }]);
    expect(await isAsked('c')).toBe(true);
  });

  it('gets the next lease before the last one is used up, and returns what that one had left', async () => {
    await busy();
    for (let n = 0; n < 9; n += 1) expect(await isAsked(`a${n}`)).toBe(false);
    expect(service.leases).toHaveLength(1);
    expect(await isAsked('last of a half')).toBe(false);
    await clock.run(0);
    expect(await isAsked('next')).toBe(false);
    await clock.run(0);
    expect(service.leases).toHaveLength(2);
    expect(service.settled).toMatchObject([{ call_id: service.leases[0]!.call_id, lease: { micro_usd: 45 } }]);
  });

  it.each<[string, Partial<ReserveRequest>]>([
    ['is the first of a request', { scopes: { tenant_id: 't', request_id: 'r' } }],
    ['makes other calls', { shares_request: true }],
    ['may have been charged', { may_repeat: true }],
    ['reserves tokens', { tokens: 1 }],
    ['is a slice', { parent_call_id: 'p' }],
    ['outlasts the lease', { lease_ms: 20_501 }],
    ['has another agent', { scopes: { tenant_id: 't', request_id: 'x', agent_id: 'g' } }],
  ])('asks for a call that %s', async (_what, more) => {
    await busy();
    expect(await isAsked('x', 5, more)).toBe(true);
    expect(await isAsked('y')).toBe(false);
  });

  it('admits the calls of one request from a lease that counts against it, and no others', async () => {
    const inRequest = (request_id: string) => ({ scopes: { tenant_id: 't', request_id } });
    await busy(5, inRequest('r'));
    const [lease] = service.leases;
    expect(lease).toMatchObject({ micro_usd: 20, scopes: { tenant_id: 't', request_id: 'r' } });
    expect(await isAsked('a', 5, inRequest('r'))).toBe(false);
    expect([await isAsked('b', 5, inRequest('other')), await isAsked('c')]).toEqual([true, true]);
    void budget.settle({ ...settlement('a', 3), ...inRequest('r') });
    budget.endLeases();
    expect(service.settled).toMatchObject([
      { call_id: 'a', ...inRequest('r'), lease: { id: lease!.call_id, micro_usd: 3 } },
      { call_id: lease!.call_id, ...inRequest('r'), lease: { id: lease!.call_id, micro_usd: 97 } },
    ]);
  });

  describe('of a run that makes calls', () => {
    const inRun = { scopes: { tenant_id: 't', request_id: 'run' } };
    const run = { shares_request: true, tool_name: 'run_program' };
    /** A run with one call that is asked for, since nothing is known about such runs. */
    const firstRun = async (callAfterMs = 0): Promise<void> => {
      await reserve('first', 1, run);
      await clock.run(callAfterMs);
      const scopes = { tenant_id: 't', request_id: 'first' };
      expect(await isAsked('c0', 7, { scopes })).toBe(true);
      void budget.settle({ ...settlement('c0', 7), scopes });
      void budget.settle(settlement('first', 1));
      expect(service.leases).toEqual([]);
      service.settled.length = 0;
    };

    it('gets a lease for its calls as large as what those of the last such run reserved', async () => {
      await firstRun();
      expect(await isAsked('run', 1, run)).toBe(true);
      expect(service.leases).toMatchObject([
        { ...inRun, micro_usd: 7, lease_ms: 20_500, shared: { least_micro_usd: 7 } },
      ]);
      expect(await isAsked('c1', 7, inRun)).toBe(false);
      const lease = service.leases[0]!.call_id;
      void budget.settle({ ...settlement('c1', 3), ...inRun });
      void budget.settle(settlement('run', 1));
      expect(service.settled).toEqual([
        { ...settlement('c1', 3), ...inRun, lease: { id: lease, micro_usd: 3, tokens: 0 } },
        { ...settlement(lease, 0), ...inRun, lease: { id: lease, micro_usd: 97, tokens: 0 } },
        settlement('run', 1),
      ]);
      expect(await isAsked('late', 7, inRun)).toBe(true);
    });

    it('returns a lease that arrives after its end', async () => {
      await firstRun();
      const asked = reserve('run', 1, run);
      budget.release('run', inRun.scopes);
      await asked;
      await clock.run(0);
      expect(service.settled).toMatchObject([{ ...inRun, lease: { micro_usd: 100 } }]);
      expect(service.released).toEqual(['run']);
    });

    it('returns it when the run is refused', async () => {
      await firstRun();
      service.refusals = [REFUSED];
      expect(await reserve('run', 1, run)).toMatchObject({ admitted: false });
      await clock.run(0);
      expect(service.settled).toMatchObject([{ ...inRun, lease: { micro_usd: 100 } }]);
    });

    it.each([
      ['made no call', run, async () => budget.settle(settlement('first', 0))],
      ['called when a lease would have ended', run, () => firstRun(500)],
      ['had another tool', { ...run, tool_name: 'run_agent' }, () => firstRun()],
    ])('gets none where the last one %s', async (_what, more, before) => {
      await reserve('first', 1, run);
      await before();
      await reserve('run', 1, more);
      expect(service.leases).toEqual([]);
    });
  });

  it('asks for a call that costs more than one request may, so that the service refuses it', async () => {
    service.callLimit = 5;
    await busy();
    expect([await isAsked('a', 6), await isAsked('b', 5)]).toEqual([true, false]);
  });

  describe('of a tool that reports its usage', () => {
    const reporting = { may_report: true, tool_name: 'x' };
    const reported = (callId: string, microUsd: number, tokens: number) => ({
      ...settlement(callId, microUsd, tokens),
      row: { tool_name: 'x' } as SettleRequest['row'],
    });

    it('takes what is not limited from the lease, whatever it reports', async () => {
      await busy(0, reporting);
      expect(await isAsked('a', 0, reporting)).toBe(false);
      expect(budget.settle(reported('a', 60, 400))).toBeUndefined();
      expect(service.settled).toMatchObject([{ call_id: 'a', micro_usd: 60, tokens: 400 }]);
    });

    it.each<[string, { micro_usd: boolean; tokens: boolean }, number, boolean]>([
      ['tokens', { micro_usd: false, tokens: true }, 5, true],
      ['money that has no price', { micro_usd: true, tokens: false }, 0, true],
      ['money up to its price', { micro_usd: true, tokens: false }, 5, false],
    ])('is asked for where a limit is named on %s', async (_what, estimates, price, expected) => {
      service.estimates = estimates;
      await busy(price, { may_report: true, tool_name: 'other' });
      expect(await isAsked('a', price, reporting)).toBe(expected);
      expect(await isAsked('of a tool that cannot report', price)).toBe(false);
    });

    it('waits for its settlement, and lets the next one ask', async () => {
      service.estimated = true;
      const turn = { ...REFUSED, code: 'BUDGET_UNAVAILABLE', scope: 'turn' } as const;
      await reserve('a', 0, reporting);
      service.refusals = [turn, turn];
      const [second, third] = [reserve('b', 0, reporting), reserve('c', 0, reporting)];
      await clock.run(0);
      expect(service.calls).toEqual(['a', 'b', 'c']);
      const confirmed = Promise.withResolvers<void>();
      service.confirmed = confirmed.promise;
      let isSettled = false;
      void Promise.resolve(budget.settle(reported('a', 0, 10))).then(() => (isSettled = true));
      await clock.run(10);
      expect(isSettled).toBe(false);
      confirmed.resolve();
      expect([await second, await third]).toMatchObject([{ admitted: true }, { admitted: true }]);
      expect(isSettled).toBe(true);
    });

    it('waits behind those that wait, and until it is aborted', async () => {
      const turn = { ...REFUSED, code: 'BUDGET_UNAVAILABLE', scope: 'turn' } as const;
      service.refusals = Array.from({ length: 3 }, () => turn);
      const controller = new AbortController();
      const first = budget.reserve(ask('a', 0, reporting), controller.signal);
      await clock.run(0);
      const second = reserve('b', 0, reporting);
      await clock.run(110);
      expect(service.calls).toEqual(['a', 'a', 'a']);
      controller.abort(new Error('too late'));
      await expect(first).rejects.toThrow('too late');
      expect(await second).toMatchObject({ admitted: true });
      expect(service.calls.slice(3)).toEqual(['b']);
    });

    it('is admitted from the lease when it reports nothing, until it reports something, which is settled at once', async () => {
      service.estimates = { micro_usd: true, tokens: true };
      service.estimated = false;
      await busy(0, reporting);
      expect(await isAsked('a', 0, reporting)).toBe(false);
      expect(budget.settle(reported('a', 0, 0))).toBeUndefined();
      expect(await isAsked('b', 0, reporting)).toBe(false);
      expect(budget.settle(reported('b', 0, 3))).toBeInstanceOf(Promise);
      expect(await isAsked('c', 0, reporting)).toBe(true);
    });
  });

  it('waits with a call that fits once leases have ended, and with no other', async () => {
    const inLeases = { ...REFUSED, used_by_leases: 5 };
    service.refusals = [inLeases, inLeases];
    const fits = reserve('a', 5);
    await clock.run(100);
    expect(await fits).toMatchObject({ admitted: true });
    expect(service.calls).toEqual(['a', 'a', 'a']);
    service.refusals = [inLeases, REFUSED];
    expect([await reserve('b', 6), await reserve('c', 1)]).toMatchObject([{ admitted: false }, { admitted: false }]);
    expect(service.calls).toEqual(['a', 'a', 'a', 'b', 'c']);
  });

  it('asks for calls when no lease is granted, and for a lease again half a second later', async () => {
    service.grant = 0;
    await busy();
    await busy();
    expect([service.calls.length, service.leases.length]).toEqual([8, 1]);
    await clock.run(500);
    await busy();
    expect([service.calls.length, service.leases.length]).toEqual([12, 2]);
  });
});
