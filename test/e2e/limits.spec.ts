/** Limits hold over several gateways: 3,000 calls at once admit what the limit says, not one more. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

const CALLS = 3_000;
const RATE = 100;
const PRICE_MICRO_USD = 1_000;

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['calculator'],
    config: { budget: { tenants: { globex: { max_cost_per_tenant: (100 * PRICE_MICRO_USD) / 1e6 } } } },
    env: { BUILTIN_COSTS_MICRO_USD: `calculator=${PRICE_MICRO_USD}` },
  });
});
afterAll(() => fleet?.stop());

/** All calls at once over both gateways; no two are equal, so that neither cache nor coalescing answers. */
async function flood(key: string, from: number): Promise<{ answers: Answer[]; seconds: number }> {
  const startedAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: CALLS }, (_, index) =>
      fleet.call('calculator', { expression: `${from + index}+1` }, { key, gateway: index % 2 }),
    ),
  );
  return { answers, seconds: (performance.now() - startedAt) / 1_000 };
}

const count = (answers: readonly Answer[], status: number) =>
  answers.filter((answer) => answer.status === status).length;

describe('3,000 calls at once over two gateways', () => {
  it('spend a budget for 100 calls exactly', async () => {
    const { answers } = await flood(fleet.keys['globex']!, 0);
    expect(count(answers, 200)).toBe(100);
    expect(count(answers, 402)).toBe(CALLS - 100);
    const refused = answers.find(({ status }) => status === 402)!;
    expect(refused.body).toMatchObject({ code: 'BUDGET_EXCEEDED' });

    // Answers do not wait for their settlement.
    const tenant = async () => {
      const { body } = await fleet.ask({ path: '/api/v1/budgets', key: fleet.keys['globex']! });
      return body.budgets.find((budget: { scope: string }) => budget.scope === 'tenant');
    };
    await expect.poll(tenant).toMatchObject({ limit_usd: 0.1, spent_usd: 0.1, held_usd: 0 });
  });

  it(`get through a limit of ${RATE} a minute as often as it says, and what refills meanwhile`, async () => {
    // The limit is a gateway's setting: these two replace the first ones.
    await Promise.all([fleet.terminate('gateway'), fleet.terminate('gateway')]);
    const limit = { CALCULATOR_RATE_LIMIT: String(RATE) };
    await Promise.all([fleet.launch('gateway', limit), fleet.launch('gateway', limit)]);
    await fleet.untilListed(['calculator']);

    const { answers, seconds } = await flood(fleet.keys['acme']!, 10_000);
    const admitted = count(answers, 200);
    expect(admitted).toBeGreaterThanOrEqual(RATE);
    expect(admitted).toBeLessThanOrEqual(RATE + Math.ceil((seconds * RATE) / 60));
    expect(count(answers, 429)).toBe(CALLS - admitted);
    const refused = answers.find(({ status }) => status === 429)!;
    expect(refused.body).toMatchObject({ code: 'RATE_LIMITED' });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});
