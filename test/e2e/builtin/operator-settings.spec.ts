/** Limits that an operator sets for builtin tools: the same in the definition, on every gateway and in every list. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../../fleet/test-fleet.js';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    together: ['gateway', 'registry', 'budget'],
    tools: ['calculator', 'json_process', 'text_process', 'get_weather'],
    // All services get the same environment, as under npm start.
    env: {
      CALCULATOR_RATE_LIMIT: '0',
      PYTHON_EXECUTOR_RATE_LIMIT: '0',
      WEB_SEARCH_RATE_LIMIT: '0',
      BUILTIN_RATE_LIMITS: 'json_process=0,get_weather=3',
    },
  });
});
afterAll(() => fleet?.stop());

const rateLimit = async (tool: string, gateway: number) =>
  (await fleet.ask({ path: `/tools/${tool}/metadata`, gateway })).body.rate_limit;

/** Statuses of calls that no cache answers, over both gateways. */
async function statuses(tool: string, calls: number, args: (index: number) => object): Promise<number[]> {
  const answers = await Promise.all(
    Array.from({ length: calls }, (_, index) => fleet.call(tool, args(index), { gateway: index % 2 })),
  );
  return answers.map(({ status }) => status);
}

describe('the rate limit of a builtin tool', () => {
  it('of 0 means none, for variables of a single tool and for BUILTIN_RATE_LIMITS', async () => {
    for (const gateway of [0, 1]) {
      expect(await rateLimit('calculator', gateway)).toBe(0);
      expect(await rateLimit('json_process', gateway)).toBe(0);
    }
    const sums = await statuses('calculator', 80, (index) => ({ expression: `${index}+1` }));
    expect(sums.every((status) => status === 200)).toBe(true);
    const documents = await statuses('json_process', 80, (index) => ({ operation: 'validate', data: `[${index}]` }));
    expect(documents.filter((status) => status === 429)).toEqual([]);
  });

  it('set by BUILTIN_RATE_LIMITS holds over all gateways and shows in the metadata', async () => {
    expect(await rateLimit('get_weather', 1)).toBe(3);
    const found = await statuses('get_weather', 8, (index) => ({ city: `City ${index}` }));
    expect(found.filter((status) => status === 200)).toHaveLength(3);
    expect(found.filter((status) => status === 429)).toHaveLength(5);
  });

  it('set by BUILTIN_RATE_LIMITS takes precedence over the variable of the tool', async () => {
    await fleet.terminate('builtin-executor');
    await fleet.launch('builtin-executor', { CALCULATOR_RATE_LIMIT: '500', BUILTIN_RATE_LIMITS: 'calculator=2' });
    for (const gateway of [0, 1]) await expect.poll(() => rateLimit('calculator', gateway)).toBe(2);
    const answered = await statuses('calculator', 6, (index) => ({ expression: `${index} * 3` }));
    expect(answered.filter((status) => status === 200)).toHaveLength(2);
  });
});
