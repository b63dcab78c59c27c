/** Limits hold over several gateways: 3,000 calls at once admit what the limit says, not one more. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

const CALLS = 3_000;
const RATE = 100;
const PRICE_USD = 0.001;

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['calculator', 'get_weather'],
    config: { budget: { tenants: { globex: { max_cost_per_tenant: 100 * PRICE_USD } } } },
    env: { BUILTIN_COSTS_MICRO_USD: `get_weather=${PRICE_USD * 1e6}`, CALCULATOR_RATE_LIMIT: String(RATE) },
  });
});
afterAll(() => fleet?.stop());

/** All calls at once over both gateways. */
async function flood(tool: string, args: (index: number) => object, key: string) {
  // Who calls is proven before the flood, as it is for callers in the field.
  await Promise.all([0, 1].map((gateway) => fleet.ask({ path: '/tools/list', key, gateway })));
  const startedAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: CALLS }, (_, index) => fleet.call(tool, args(index), { key, gateway: index % 2 })),
  );
  return { answers, seconds: (performance.now() - startedAt) / 1_000 };
}

/** How often each outcome came, e.g. `{"200": 100, "402 BUDGET_EXCEEDED": 2900}`. */
function outcomesOf(answers: readonly Answer[]): Record<string, number> {
  const outcomes: Record<string, number> = {};
  for (const { status, body } of answers) {
    const code = status === 200 ? body.metadata?.code : body?.code;
    const outcome = [status, code].filter(Boolean).join(' ');
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}

/** Calls that a machine too busy to answer refused for that: it may admit less than the limit then, never more. */
function lateOnes(outcomes: Record<string, number>): number {
  for (const outcome of Object.keys(outcomes)) {
    expect(['503 BUDGET_UNAVAILABLE', '503 SERVICE_UNAVAILABLE', '503 QUEUE_FULL']).toContain(outcome);
  }
  return Object.values(outcomes).reduce((sum, times) => sum + times, 0);
}

// No two calls are equal, so that neither the cache nor coalescing answers.
describe('3,000 calls at once over two gateways', () => {
  it('spend a budget for 100 calls exactly', async () => {
    const key = fleet.keys['globex']!;
    const { answers } = await flood('get_weather', (index) => ({ city: `Town ${index}` }), key);
    const { '200': admitted = 0, '402 BUDGET_EXCEEDED': refused = 0, ...others } = outcomesOf(answers);
    const late = lateOnes(others);
    expect(admitted + refused + late).toBe(CALLS);
    expect(admitted).toBeLessThanOrEqual(100);
    expect(admitted).toBeGreaterThanOrEqual(100 - late);

    const { body } = await fleet.ask({ path: '/api/v1/budgets', key });
    const tenant = body.budgets.find((budget: { scope: string }) => budget.scope === 'tenant');
    expect(tenant.limit_usd).toBe(0.1);
    expect(tenant.spent_usd + tenant.held_usd).toBeLessThanOrEqual(0.1 + 1e-9);
    if (late === 0) expect(tenant).toMatchObject({ spent_usd: 0.1, held_usd: 0 });
  });

  it(`get through a limit of ${RATE} a minute as often as it says, and what refills meanwhile`, async () => {
    const key = fleet.keys['acme']!;
    const { answers, seconds } = await flood('calculator', (index) => ({ expression: `${index}+1` }), key);
    const { '200': admitted = 0, '429 RATE_LIMITED': refusals = 0, ...others } = outcomesOf(answers);
    const late = lateOnes(others);
    expect(admitted + refusals + late).toBe(CALLS);
    expect(admitted).toBeGreaterThanOrEqual(RATE - late);
    expect(admitted).toBeLessThanOrEqual(RATE + Math.ceil((seconds * RATE) / 60));
    const refused = answers.find(({ status }) => status === 429)!;
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});
