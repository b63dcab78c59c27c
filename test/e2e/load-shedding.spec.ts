/** A call is refused for lack of time only because of the time its own tenant's calls wait, never because of other programs. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

/** Longer than the time that the fast runs have. */
const SLOW = 'import time\ntime.sleep(1.2)\n1';
const FAST_WITHIN_MS = 1_000;
/** Slow runs at once, so that none waits in the queue. */
const THREADS = 4;
/** More slow runs than it takes until the gateway knows a usual time. */
const ROUNDS = 6;

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python'],
    env: { PYTHON_SANDBOX_THREADS: String(THREADS), WASI_MEMORY_LIMIT_MB: '128' },
  });
});
afterAll(() => fleet?.stop());

it('slow Python runs of a tenant refuse neither the fast ones of another tenant nor its own', async () => {
  const run = (tenant: string, code: string, fields = {}) =>
    fleet.call('execute_python', { code, strictness: 'standard' }, { key: fleet.keys[tenant]!, fields });
  for (let round = 0; round < ROUNDS; round += 1) {
    const numbers = Array.from({ length: THREADS }, (_, index) => round * THREADS + index);
    const answers = await Promise.all(numbers.map((number) => run('acme', `${SLOW} + ${number}`)));
    expect(answers.map(({ body }) => body)).toMatchObject(
      numbers.map((number) => ({ success: true, output: { value: 1 + number } })),
    );
  }
  for (const tenant of ['globex', 'acme']) {
    const { status, body } = await run(tenant, '1+1', { timeout_ms: FAST_WITHIN_MS });
    expect([tenant, status, body]).toMatchObject([tenant, 200, { success: true, output: { value: 2 } }]);
  }
});
