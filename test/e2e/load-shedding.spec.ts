/** A call is refused for lack of time only because of the time its own tenant's calls wait, never because of other programs. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const SLOW = 'import time\ntime.sleep(0.6)\n1';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python'],
  });
});
afterAll(() => fleet?.stop());

it('slow Python runs of a tenant refuse neither the fast ones of another tenant nor its own', async () => {
  const run = (tenant: string, code: string, fields = {}) =>
    fleet.call('execute_python', { code, strictness: 'standard' }, { key: fleet.keys[tenant]!, fields });
  for (let index = 0; index < 22; index += 1) {
    const { body } = await run('acme', `${SLOW} + ${index}`);
    expect(body).toMatchObject({ success: true, output: { value: 1 + index } });
  }
  for (const tenant of ['globex', 'acme']) {
    const { status, body } = await run(tenant, '1+1', { timeout_ms: 500 });
    expect([tenant, status, body]).toMatchObject([tenant, 200, { success: true, output: { value: 2 } }]);
  }
});
