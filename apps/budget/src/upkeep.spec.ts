import { sqliteDialect } from '@toolfleet/database';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { MemoryReservationStore } from '../spec/memory-reservation-store.js';
import { BudgetService } from './budget.js';
import { unlimited } from './limits.js';
import { DEFAULT_RULES } from './reservation-store.js';
import { Upkeep } from './upkeep.js';
import { UsageLedger } from './usage-ledger.js';

const TENANTS = Array.from({ length: 12 }, (_, index) => `tenant-${index}`);
const clock = new FakeClock();
const logger = createLogger({ service: 'budget', level: 'silent' });
let ledger: UsageLedger;
let upkeep: Upkeep;

/** Every tenant has a charged row in its outbox. */
beforeEach(async () => {
  ledger = new UsageLedger(sqliteDialect(':memory:'));
  await ledger.open();
  const store = new MemoryReservationStore(clock, DEFAULT_RULES, async () => []);
  for (const tenantId of TENANTS) {
    const call = {
      call_id: `call of ${tenantId}`,
      scopes: { tenant_id: tenantId, request_id: 'r' },
      micro_usd: 5,
      tokens: 0,
    };
    const row = JSON.stringify({ call_id: call.call_id, user_id: 'u', tool_name: 'x', success: true });
    await store.reserve(tenantId, unlimited(), [{ ...call, lease_ms: 1_000 }]);
    await store.settle(tenantId, [{ ...call, row }]);
  }
  const events = {
    active: () => {},
    drain: async () => {},
    budgetsChanged: () => {},
    spent: () => {},
    reached: () => {},
  };
  const budget = new BudgetService(store, ledger, { defaults: unlimited(), tenants: new Map() }, clock, events);
  const host = { clock, logger, metrics: createMetrics({ version: '0', revision: '0' }) };
  upkeep = new Upkeep(budget, store.outbox, ledger, { roundMs: 100, fullRoundMs: 0 }, host);
});
afterEach(() => ledger.close());

const written = async (): Promise<number> => (await ledger.sums({ group_by: [] }))[0]?.calls ?? 0;

it('a round writes the rows of several tenants at the same time', async () => {
  const append = ledger.append.bind(ledger);
  const { promise: together, resolve: meet } = Promise.withResolvers<void>();
  let writing = 0;
  ledger.append = async (rows) => {
    writing += 1;
    if (writing === 3) meet();
    await together;
    await append(rows);
  };
  await upkeep.round();
  expect(await written()).toBe(TENANTS.length);
});

it('a round ends early while the ledger fails for all, and a later one writes every row once', async () => {
  const append = ledger.append.bind(ledger);
  let tries = 0;
  ledger.append = () => {
    tries += 1;
    return Promise.reject(new Error('the disk is full'));
  };
  await upkeep.round();
  expect(tries).toBeLessThanOrEqual(5);
  expect(await written()).toBe(0);
  ledger.append = append;
  await upkeep.round();
  await upkeep.round();
  expect(await written()).toBe(TENANTS.length);
});

it('a tenant that fails does not stop the others', async () => {
  const append = ledger.append.bind(ledger);
  ledger.append = (rows) =>
    rows.some((row) => row.tenant_id === TENANTS[1]) ? Promise.reject(new Error('refused')) : append(rows);
  await upkeep.round();
  expect(await written()).toBe(TENANTS.length - 1);
});
