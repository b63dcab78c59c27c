/**
 * Two budget services on PostgreSQL that is killed under load and comes back: calls go on meanwhile, because usage waits in
 * the outbox; afterwards every call is in the ledger once, and no limit was passed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { documentedLines, runDocumented } from '../fleet/documented-commands.js';
import { sumOverHttp, unclear } from '../fleet/call-lanes.js';
import { steadyLoad } from '../fleet/steady-load.js';
import { TestFleet } from '../fleet/test-fleet.js';

const LANES = 4;
/** Price of a call, and what the tenant `globex` may spend in all: so many calls. */
const PRICE_MICRO_USD = 1_000;
const AFFORDABLE = 300;

let postgres: PostgresServer;
let ledgerUrl: string;
let fleet: TestFleet;
describe.skipIf(!POSTGRES_PROGRAMS)('the ledger in PostgreSQL', () => {
  beforeAll(async () => {
    postgres = await startPostgres();
    ledgerUrl = await postgres.createDatabase('ledger');
    fleet = await TestFleet.start({
      services: { gateway: 2, registry: 1, budget: 2, 'builtin-executor': 1 },
      tools: ['calculator'],
      config: { budget: { tenants: { globex: { max_cost_per_tenant: (AFFORDABLE * PRICE_MICRO_USD) / 1e6 } } } },
      env: { BUILTIN_COSTS_MICRO_USD: `calculator=${PRICE_MICRO_USD}`, MAX_COST_PER_REQUEST: '1' },
      envOf: { budget: { DATABASE_URL: ledgerUrl } },
    });
  });
  afterAll(async () => {
    await fleet?.stop();
    await postgres?.stop();
  });

  /** Calls of a tenant in the ledger. */
  async function charged(key: string): Promise<number> {
    const { status, body } = await fleet.ask({ path: '/api/v1/usage', key });
    if (status !== 200) return -1;
    return body.rows.reduce((sum: number, row: { calls: number }) => sum + row.calls, 0);
  }

  it('killed and started again under load: nothing is lost, nothing is charged twice', async () => {
    const before = await charged(fleet.adminKey);
    const load = steadyLoad([sumOverHttp(fleet)], LANES);
    await load.flows(100);
    await postgres.kill();
    await load.flows(300);
    await fleet.kill('budget');
    await load.flows(50);
    await postgres.restart();
    await fleet.launch('budget');
    await load.flows(100);
    await load.stop();
    expect(unclear(load.failures)).toEqual([]);
    // Only the killed budget service can have failed calls: those that were asking it.
    expect(load.failures.length, load.failures.join()).toBeLessThanOrEqual(LANES);
    const made = load.right();
    await eventually('every call is in the ledger', async () => (await charged(fleet.adminKey)) >= before + made, {
      everyMs: 200,
    });
    expect(await charged(fleet.adminKey)).toBeLessThanOrEqual(before + made + load.failures.length);
  });

  it('killed while a limit is being reached: exactly what the limit affords is admitted', async () => {
    const key = fleet.keys['globex']!;
    let admitted = 0;
    const spend = async (number: number): Promise<string | undefined> => {
      const { status, text } = await fleet.call(
        'calculator',
        { expression: `${number}*2` },
        { key, gateway: number % 2 },
      );
      if (status === 200) admitted += 1;
      else if (status !== 402) return `${status} ${text}`;
      return undefined;
    };
    const load = steadyLoad([spend], 2 * LANES);
    await load.flows(AFFORDABLE / 3);
    await postgres.kill();
    await load.flows(AFFORDABLE / 3);
    await postgres.restart();
    await load.flows(AFFORDABLE);
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(admitted).toBe(AFFORDABLE);
    await eventually('every admitted call is in the ledger', async () => (await charged(key)) >= AFFORDABLE, {
      everyMs: 200,
    });
    expect(await charged(key)).toBe(AFFORDABLE);
  });

  it('lost and restored by the documented commands: every bill is as it was', async () => {
    const before = await charged(fleet.adminKey);
    const [dump, restore] = documentedLines('ledger');
    const backup = await mkdtemp(join(tmpdir(), 'toolfleet-backup-'));
    const variables = { BACKUP: backup, DATABASE_URL: ledgerUrl, PGOPTIONS: '-c client_min_messages=error' };
    try {
      await runDocumented([dump!], variables);
      for (const budget of [1, 0]) await fleet.kill('budget', budget);
      const client = new pg.Client({ connectionString: ledgerUrl });
      await client.connect();
      await client.query('DROP SCHEMA public CASCADE');
      await client.query('CREATE SCHEMA public');
      await client.end();
      await runDocumented([restore!], variables);
    } finally {
      await rm(backup, { recursive: true });
    }
    await Promise.all([fleet.launch('budget'), fleet.launch('budget')]);
    expect(before).toBeGreaterThan(0);
    expect(await charged(fleet.adminKey)).toBe(before);
  });
});
