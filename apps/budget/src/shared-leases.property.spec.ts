/**
 * Two gateways that admit calls from shared leases before one budget: messages are lost, repeated or late, gateways die and the clock
 * jumps. No limit is ever exceeded, and every call that ran is paid for once.
 */
import { ToolError } from '@toolfleet/contracts';
import type { BudgetLimitsReply, ReserveAnswer, ReserveRequest, SettleRequest } from '@toolfleet/contracts/budget';
import { BudgetPort } from '@toolfleet/engine';
import { LeasedBudget } from '@toolfleet/engine-adapters';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { FakeClock, startRedis } from '@toolfleet/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MemoryReservationStore } from '../spec/memory-reservation-store.js';
import { BudgetService } from './budget.js';
import { unlimited, withSettings, type TenantLimits } from './limits.js';
import { RedisReservationStore, type ReservationStore } from './redis-reservation-store.js';
import { DEFAULT_RULES } from './reservation-store.js';
import type { UsageLedger } from './usage-ledger.js';

const CEILINGS: Record<string, number> = {
  tenant: 60_000,
  day: 50_000,
  agent: 25_000,
  request: 1_000,
  'user/total': 20_000,
};
const LIMITS = withSettings(unlimited(), {
  max_cost_per_tenant: 60_000 / 1e6,
  max_cost_per_day: 50_000 / 1e6,
  cost_budget_per_agent: 25_000 / 1e6,
  max_cost_per_request: 1_000 / 1e6,
});
const AGENTS = [undefined, 'g0'];
/** Users by the price of their calls: one has a budget. */
const USERS = ['ann', 'bob', 'ann'];
/** Of calls that share a request, such as calls of one program. */
const REQUESTS = [undefined, 'r0'];
const NAMED = [
  { kind: 'agent', name: 'agent:g0' },
  { kind: 'request', name: 'request:r0' },
  { kind: 'budget', name: 'user/total:ann', limit: { microUsd: 20_000, tokens: null } },
] as const;
const LEASE_MS = 2_000;
/** Longest wait for the store; on a busy machine, Redis needs seconds for 3,000 calls. */
const ANSWER_MS = 30_000;
const never = new AbortController().signal;

type Step =
  | { do: 'burst'; gateway: number; agent: number; request: number; calls: number; price: number }
  | { do: 'program'; gateway: number; calls: number; price: number }
  | { do: 'finish'; gateway: number; cost: number }
  | { do: 'cancel' | 'die'; gateway: number }
  | { do: 'wait' | 'jump'; ms: number }
  | { do: 'deliver' | 'sweep' };

const gateway = fc.constantFrom(0, 0, 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('burst' as const),
      gateway,
      agent: fc.constantFrom(0, 0, 1),
      request: fc.constantFrom(0, 0, 1),
      calls: fc.integer({ min: 2, max: 10 }),
      price: fc.nat({ max: 12 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('program' as const),
      gateway,
      calls: fc.integer({ min: 1, max: 3 }),
      price: fc.nat({ max: 400 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('finish' as const), gateway, cost: fc.nat({ max: 14 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('cancel' as const, 'die' as const), gateway }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 20, 90, 400) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.integer({ min: -5_000, max: 10_000 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('deliver' as const, 'sweep' as const) }) },
);

/** Spent before the run: some runs come near their limits. */
const before = fc.oneof(fc.constant(0), fc.nat({ max: 50_000 }), fc.integer({ min: 49_000, max: 50_000 }));

/** Resolves when messages that are under way have arrived. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** What happens to a message. Most arrive. */
const fate = fc.oneof(
  { weight: 8, arbitrary: fc.constant('fine') },
  { weight: 1, arbitrary: fc.constantFrom('lost', 'reply lost', 'repeated', 'late') },
);

/** The way between a gateway and the budget. */
class LossyBudget extends BudgetPort {
  isDead = false;
  private underway: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly budget: BudgetService,
    private readonly late: (() => Promise<unknown>)[],
    private readonly nextFate: () => string,
  ) {
    super();
  }

  override async reserve(request: ReserveRequest): Promise<ReserveAnswer> {
    const fated = this.nextFate();
    const lost = new ToolError('BUDGET_UNAVAILABLE');
    if (fated === 'lost' || this.isDead) throw lost;
    const [answer] = await this.budget.reserve([request], ANSWER_MS);
    if (fated === 'repeated') this.late.push(() => this.budget.reserve([request], ANSWER_MS));
    if (fated === 'reply lost') throw lost;
    return answer as ReserveAnswer;
  }

  override settle(request: SettleRequest): void | Promise<void> {
    this.send(() => this.budget.settle([request], ANSWER_MS));
  }

  protected async settleNow(request: SettleRequest): Promise<void> {
    await this.budget.settle([request], ANSWER_MS);
  }

  override release(callId: string, scopes: ReserveRequest['scopes']): void {
    this.send(() => this.budget.release([{ call_id: callId, scopes }], ANSWER_MS));
  }

  override limits(): BudgetLimitsReply {
    return { limits: [] };
  }

  private send(message: () => Promise<unknown>): void {
    const fated = this.nextFate();
    if (this.isDead || fated === 'lost') return;
    if (fated === 'late') return void this.late.push(message);
    if (fated === 'repeated') this.late.push(message);
    this.underway = Promise.all([this.underway, message()]);
  }

  /** Sends nothing more; resolves when everything sent has arrived. */
  async close(): Promise<void> {
    this.isDead = true;
    await this.underway;
  }
}

/** A budget that reports nothing, on request with one of user ann. */
async function newBudget(
  store: ReservationStore,
  defaults: TenantLimits,
  clock: Clock,
  microUsd: number | undefined,
): Promise<BudgetService> {
  const limits = { defaults, tenants: new Map<string, TenantLimits>() };
  const ignore = () => undefined;
  const name = { tenant_id: 't', subject: 'user', subject_id: 'ann', period: 'total' } as const;
  const set =
    microUsd === undefined
      ? []
      : [{ ...name, micro_usd: microUsd, tokens: undefined, changed_at: 0, changed_by: 'ops' }];
  const budgets = { all: async () => set };
  const events = { active: ignore, spent: ignore, reached: ignore, budgetsChanged: ignore, drain: async () => 0 };
  const budget = new BudgetService(store, { budgets } as unknown as UsageLedger, limits, clock, events);
  await budget.readBudgets();
  return budget;
}

interface RunningCall {
  callId: string;
  scopes: ReserveRequest['scopes'];
  user_id: string;
  price: number;
}

/** One run of steps. */
class Scene {
  readonly clock = new FakeClock();
  readonly store = new MemoryReservationStore(this.clock, DEFAULT_RULES, async () => []);
  private readonly late: (() => Promise<unknown>)[] = [];
  private budget!: BudgetService;
  private gateways: { line: LossyBudget; leased: LeasedBudget; running: RunningCall[] }[] = [];
  private messages = 0;
  private calls = 0;
  /** What calls cost that have ended, or lost their gateway. */
  ended = 0;
  /** Calls admitted without a message. */
  admittedAtOnce = 0;
  /** The ones that share a request. */
  admittedInRequest = 0;
  /** The ones that a program made. */
  admittedInProgram = 0;
  /** Ids of programs: the requests of their calls. */
  private readonly programs: string[] = [];

  constructor(private readonly fates: string[]) {}

  /** @param isApart a user has a budget, so that each user has its own leases */
  async open(isApart: boolean): Promise<this> {
    this.budget = await newBudget(this.store, LIMITS, this.clock, isApart ? CEILINGS['user/total']! : undefined);
    this.gateways = [this.newGateway(), this.newGateway()];
    return this;
  }

  private newGateway() {
    const line = new LossyBudget(this.budget, this.late, () => this.fates[(this.messages += 1) % this.fates.length]!);
    return { line, leased: new LeasedBudget(line, this.clock), running: [] as RunningCall[] };
  }

  /** Usage from before the run, some of it in the shared request. */
  async spend(microUsd: number): Promise<void> {
    const inRequest = microUsd % 1_000;
    const settlement = (callId: string, request_id: string, spent: number) => ({
      ...{ call_id: callId, scopes: { tenant_id: 't', request_id }, micro_usd: spent, tokens: 0 },
      row: JSON.stringify({ call_id: callId }),
    });
    const rest = settlement('before', 'before', microUsd - inRequest);
    await this.store.settle('t', [rest, settlement('before in request', 'r0', inRequest)]);
    this.ended = microUsd;
  }

  async run(one: Step): Promise<void> {
    if (one.do === 'burst') {
      for (let n = 0; n < one.calls; n += 1) {
        this.start(one.gateway, AGENTS[one.agent], REQUESTS[one.request], one.price);
        // Answers arrive after some calls: the first ones are asked for, the others have a lease.
        if (n === 4) await settled();
      }
    } else if (one.do === 'program') await this.runPrograms(one.gateway, one.calls, one.price);
    else if (one.do === 'finish') this.finish(one.gateway, one.cost);
    else if (one.do === 'cancel') {
      const { leased, running } = this.gateways[one.gateway]!;
      const call = running.shift();
      if (call) leased.release(call.callId, call.scopes);
    } else if (one.do === 'die') this.die(one.gateway);
    else if (one.do === 'wait') await this.clock.run(one.ms);
    else if (one.do === 'jump') this.clock.jumpWall(one.ms);
    else if (one.do === 'deliver') for (const message of this.late.splice(0).toReversed()) void message();
    else await this.store.sweep('t');
    await settled();
  }

  /** Two programs, one after the other, and their calls. The second one may end before them. */
  private async runPrograms(index: number, calls: number, price: number): Promise<void> {
    for (const isLast of [false, true]) {
      const id = `p${this.programs.length}`;
      this.programs.push(id);
      this.start(index, undefined, undefined, 1, { call_id: id, shares_request: true, tool_name: 'run_program' });
      await settled();
      for (let n = 0; n < calls; n += 1) this.start(index, undefined, id, price);
      await settled();
      if (isLast) return;
      const { running } = this.gateways[index]!;
      // Its calls end before it.
      running.sort((a, b) => Number(a.callId === id) - Number(b.callId === id));
      while (running.length > 0) this.finish(index, price);
    }
  }

  private start(
    index: number,
    agent_id: string | undefined,
    request_id: string | undefined,
    price: number,
    more: Partial<ReserveRequest> = {},
  ): void {
    const { leased, running, line } = this.gateways[index]!;
    const callId = more.call_id ?? `c${(this.calls += 1)}`;
    const scopes = { tenant_id: 't', request_id: request_id ?? callId, agent_id };
    const user_id = USERS[price % USERS.length]!;
    const lease_ms = LEASE_MS - Math.min(1_200, 100 * price);
    const request = { call_id: callId, scopes, user_id, micro_usd: price, tokens: 0, lease_ms, ...more };
    const begin = (answer: ReserveAnswer): void => {
      if (answer.admitted && !line.isDead) running.push({ callId, scopes, user_id, price });
    };
    const answer = leased.reserve(request, never);
    if (!(answer instanceof Promise)) {
      this.admittedAtOnce += 1;
      if (request_id?.startsWith('p')) this.admittedInProgram += 1;
      else if (request_id) this.admittedInRequest += 1;
    }
    if (answer instanceof Promise) void answer.then(begin, () => undefined);
    else begin(answer);
  }

  private finish(index: number, cost: number): void {
    const { leased, running } = this.gateways[index]!;
    const call = running.shift();
    if (!call) return;
    const { callId, scopes, user_id, price } = call;
    const micro_usd = Math.min(cost, price);
    this.ended += micro_usd;
    const row = { call_id: callId, user_id } as SettleRequest['row'];
    void leased.settle({ call_id: callId, scopes, micro_usd, tokens: 0, row });
  }

  /** Calls of a gateway that dies may have cost all that was reserved for them. */
  private die(index: number): void {
    const { line, running } = this.gateways[index]!;
    line.isDead = true;
    for (const { price } of running) this.ended += price;
    this.gateways[index] = this.newGateway();
  }

  private counters() {
    const requests = this.programs.map((id) => ({ kind: 'request' as const, name: `request:${id}` }));
    return this.store.counters('t', [...NAMED, ...requests]);
  }

  async expectWithinLimits(): Promise<void> {
    const counters = await this.counters();
    for (const { scope, spentMicroUsd, heldMicroUsd } of counters) {
      const ceiling = CEILINGS[scope.split(':')[0] ?? ''] ?? 0;
      if (heldMicroUsd < 0 || spentMicroUsd + heldMicroUsd > ceiling) {
        expect.fail(`${scope}: ${spentMicroUsd} spent + ${heldMicroUsd} held > ${ceiling}`);
      }
    }
    const running = this.gateways.flatMap((one) => one.running).reduce((sum, call) => sum + call.price, 0);
    const { spentMicroUsd, heldMicroUsd } = counters[0]!;
    expect(spentMicroUsd + heldMicroUsd, 'covers every call').toBeGreaterThanOrEqual(this.ended + running);
  }

  /** At rest nothing is held, all rows together are what was spent, and the rest of a limit is given out to the last micro-USD. */
  async expectAtRest(): Promise<void> {
    for (const index of this.gateways.keys()) this.die(index);
    await this.run({ do: 'deliver' });
    await this.clock.run(60_000);
    await this.store.sweep('t');
    const counters = await this.counters();
    expect(counters.map(({ heldMicroUsd }) => heldMicroUsd)).toEqual(counters.map(() => 0));
    const rows = (await this.store.outbox.read('t', 10_000)).flatMap((entry) => entry.rows);
    const [tenant, day] = counters.map(({ spentMicroUsd }) => spentMicroUsd);
    expect(rows.reduce((sum, row) => sum + row.microUsd, 0)).toBe(tenant);
    expect(tenant).toBeGreaterThanOrEqual(this.ended);
    const ids = rows.map((row) => JSON.parse(row.row).call_id);
    expect(new Set(ids).size, ids.join()).toBe(ids.length);
    const left = (CEILINGS['day'] ?? 0) - (day ?? 0);
    const ask = (call_id: string, micro_usd: number) =>
      this.store.reserve('t', LIMITS, [
        { call_id, scopes: { tenant_id: 't', request_id: call_id }, micro_usd, tokens: 0, lease_ms: LEASE_MS },
      ]);
    expect((await ask('too much', left + 1))[0]?.admitted).toBe(false);
    if (left > 0) expect((await ask('the rest', left))[0]?.admitted).toBe(true);
  }
}

/** The way of a real gateway: settlements that no answer waits for travel together, 25 ms later. */
class BatchedBudget extends LossyBudget {
  override settle(request: SettleRequest, isAwaited = false): void | Promise<void> {
    if (isAwaited) return this.settleNow(request);
    setTimeout(() => void this.settleNow(request), 25);
  }
}

describe('calls that report their usage, from 16 callers of two gateways', () => {
  const CALLERS = 16;
  const CALLS = 1_000;
  /** Of calls in the order in which they begin. */
  const AMOUNTS: Record<string, (n: number) => number> = {
    'all equal': () => 40,
    'of any size': (n) => 1 + ((n * 31) % 40),
    'that grow': (n) => Math.min(40, n),
  };
  const cases = Object.keys(AMOUNTS).flatMap((sizes) =>
    (['tokens', 'micro_usd'] as const).flatMap((unit) => [30, 4_000].map((limit) => ({ sizes, unit, limit }))),
  );
  let server: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  it.each(cases)(
    '$sizes: exceed a limit of $limit $unit by less than the largest call',
    async ({ sizes, unit, limit }) => {
      const clock = new SystemClock();
      const limits = withSettings(unlimited(), { token_budget_per_agent: limit, cost_budget_per_agent: limit / 1e6 });
      const tenant_id = `${sizes.replaceAll(' ', '-')}-${unit}-${limit}`;
      const lines = await Promise.all(
        [0, 1].map(async () => {
          const store = new RedisReservationStore(server.client(), DEFAULT_RULES, async () => []);
          return new BatchedBudget(await newBudget(store, limits, clock, undefined), [], () => 'fine');
        }),
      );
      const gateways = lines.map((line) => new LeasedBudget(line, clock));
      let [next, spent, largest, running] = [0, 0, 0, 0];
      let mostAtOnce = 0;
      const call = async (n: number): Promise<void> => {
        const leased = gateways[n % 2]!;
        const call_id = `${tenant_id}-${n}`;
        const scopes = { tenant_id, request_id: call_id, agent_id: 'a' };
        const shown = { user_id: 'ann', tool_name: 'thinks' };
        const asked = { call_id, scopes, ...shown, micro_usd: 0, tokens: 0, lease_ms: 60_000, may_report: true };
        if (!(await leased.reserve(asked, never)).admitted) return;
        mostAtOnce = Math.max(mostAtOnce, (running += 1));
        await new Promise((resolve) => setTimeout(resolve, 2));
        const amount = AMOUNTS[sizes]!(n);
        const used = { micro_usd: 0, tokens: 0, [unit]: amount };
        const row = { call_id, tenant_id, ...shown, ...used, success: true } as SettleRequest['row'];
        await leased.settle({ call_id, scopes, ...used, row });
        running -= 1;
        spent += amount;
        largest = Math.max(largest, amount);
      };
      const lane = async (): Promise<void> => {
        for (let n = (next += 1); n <= CALLS; n = next += 1) await call(n);
      };
      await Promise.all(Array.from({ length: CALLERS }, lane));
      expect(spent).toBeGreaterThanOrEqual(limit);
      expect(spent, `${spent} of ${limit}`).toBeLessThan(limit + largest);
      // Far from the limit they run at once.
      if (limit === 4_000) expect(mostAtOnce).toBeGreaterThan(CALLERS / 2);
      await Promise.all(lines.map((line) => line.close()));
    },
  );
});

describe('shared leases of two gateways', () => {
  it('never overspend, and pay for every call once: 10,000 runs', async () => {
    let [admittedAtOnce, admittedInRequest, admittedInProgram] = [0, 0, 0];
    const steps = fc.array(step, { minLength: 4, maxLength: 9 });
    const fates = fc.array(fate, { minLength: 7, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(steps, fates, before, fc.boolean(), async (list, some, spent, isApart) => {
        const scene = await new Scene(some).open(isApart);
        await scene.spend(spent);
        for (const one of list) {
          await scene.run(one);
          await scene.expectWithinLimits();
        }
        await scene.expectAtRest();
        admittedAtOnce += scene.admittedAtOnce;
        admittedInRequest += scene.admittedInRequest;
        admittedInProgram += scene.admittedInProgram;
      }),
      { numRuns: 10_000 },
    );
    expect(admittedAtOnce).toBeGreaterThan(5_000);
    expect(admittedInRequest).toBeGreaterThan(500);
    expect(admittedInProgram).toBeGreaterThan(100);
  });

  it.each([
    ['of the tenant', { tenant: 1_000, ann: 5_000, admitted: 1_000 }],
    ['of a user, while another one spends', { tenant: 50_000, ann: 1_000, admitted: 2_000 }],
  ])(
    'spend a limit of 1,000 %s exactly when 3,000 calls race for it on Redis',
    async (_, { tenant, ann, admitted: expected }) => {
      const server = await startRedis();
      const clock = new SystemClock();
      const limits = withSettings(unlimited(), { max_cost_per_tenant: tenant / 1e6 });
      const budgets = await Promise.all(
        [0, 1].map(() => {
          const store = new RedisReservationStore(server.client(), DEFAULT_RULES, async () => []);
          return newBudget(store, limits, clock, ann);
        }),
      );
      const lines = budgets.map((budget) => new LossyBudget(budget, [], () => 'fine'));
      const gateways = lines.map((line) => new LeasedBudget(line, clock));
      try {
        let [admitted, admittedAtOnce] = [0, 0];
        const call = async (number: number): Promise<void> => {
          const call_id = `c${number}`;
          const scopes = { tenant_id: 't', request_id: call_id };
          const leased = gateways[number % 2]!;
          const user_id = USERS[number % USERS.length]!;
          const reserved = leased.reserve(
            { call_id, scopes, user_id, micro_usd: 1, tokens: 0, lease_ms: 60_000 },
            never,
          );
          if (!(await reserved).admitted) return;
          admitted += 1;
          if (!(reserved instanceof Promise)) admittedAtOnce += 1;
          void leased.settle({
            call_id,
            scopes,
            micro_usd: 1,
            tokens: 0,
            row: { call_id, user_id } as SettleRequest['row'],
          });
        };
        const calls: Promise<void>[] = [];
        for (let wave = 0; wave < 100; wave += 1) {
          for (let n = 0; n < 30; n += 1) calls.push(call(wave * 30 + n));
          await settled();
        }
        await Promise.all(calls);
        expect(admitted).toBe(expected);
        expect(admittedAtOnce).toBeGreaterThan(10);
      } finally {
        await Promise.all(lines.map((line) => line.close()));
        await server.stop();
      }
    },
    60_000,
  );
});
