import { describe, expect, it } from 'vitest';
import { createLogger } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { toLedgerRow } from './drain-outbox.js';
import { drainOutbox } from './drain-outbox.js';
import { sqliteDialect } from '@toolfleet/database';
import { unlimited } from './limits.js';
import { MemoryReservationStore } from '../spec/memory-reservation-store.js';
import { DEFAULT_RULES } from './reservation-store.js';
import type { UsageOutbox } from './redis-usage-outbox.js';
import { UsageLedger } from './usage-ledger.js';

const logger = createLogger({ service: 'budget', level: 'silent' });
const scopes = { tenant_id: 't', request_id: 'r' };
const row = (callId: string) =>
  JSON.stringify({
    call_id: callId,
    tenant_id: 't',
    user_id: 'u',
    tool_name: 'x',
    tokens: 100,
    real_tokens: 0,
    success: true,
  });

async function settledCalls(count: number): Promise<UsageOutbox> {
  const store = new MemoryReservationStore(new FakeClock(), DEFAULT_RULES, async () => []);
  for (let index = 0; index < count; index += 1) {
    const callId = `c${index}`;
    await store.reserve('t', unlimited(), [{ call_id: callId, scopes, micro_usd: 5, tokens: 0, lease_ms: 1_000 }]);
    await store.settle('t', [{ call_id: callId, scopes, micro_usd: 3, tokens: 0, row: row(callId) }]);
  }
  return store.outbox;
}

describe('drainOutbox', () => {
  it('moves every row once, although it dies between writing and acknowledging', async () => {
    const outbox = await settledCalls(150);
    const ledger = new UsageLedger(sqliteDialect(':memory:'));
    await ledger.open();
    const acknowledge = outbox.acknowledge.bind(outbox);
    let crashes = 2;
    outbox.acknowledge = (tenantId, entries) => {
      crashes -= 1;
      return crashes >= 0 ? Promise.reject(new Error('crash')) : acknowledge(tenantId, entries);
    };
    await expect(drainOutbox('t', outbox, ledger, logger)).rejects.toThrow('crash');
    await expect(drainOutbox('t', outbox, ledger, logger)).rejects.toThrow('crash');
    expect(await drainOutbox('t', outbox, ledger, logger)).toBe(150);
    expect(await ledger.sums({ group_by: [] })).toEqual([{ calls: 150, tokens: 0, micro_usd: 450 }]);
    expect(await drainOutbox('t', outbox, ledger, logger)).toBe(0);
    await ledger.close();
  });

  it('writes small entries in groups of about 1,024 rows', async () => {
    const outbox = await settledCalls(1_200);
    const ledger = new UsageLedger(sqliteDialect(':memory:'));
    await ledger.open();
    const groups: number[] = [];
    const append = ledger.append.bind(ledger);
    ledger.append = (rows) => (groups.push(rows.length), append(rows));
    expect(await drainOutbox('t', outbox, ledger, logger)).toBe(1_200);
    expect(groups).toEqual([1_024, 176]);
    expect(await ledger.sums({ group_by: [] })).toEqual([{ calls: 1_200, tokens: 0, micro_usd: 3_600 }]);
    await ledger.close();
  });

  it('keeps everything while the ledger is unavailable', async () => {
    const outbox = await settledCalls(3);
    const ledger = new UsageLedger(sqliteDialect(':memory:'));
    await ledger.open();
    const append = ledger.append.bind(ledger);
    ledger.append = () => Promise.reject(new Error('disk full'));
    await expect(drainOutbox('t', outbox, ledger, logger)).rejects.toThrow('disk full');
    ledger.append = append;
    expect(await drainOutbox('t', outbox, ledger, logger)).toBe(3);
    await ledger.close();
  });
});

describe('toLedgerRow', () => {
  const charged = { kind: 'settled', microUsd: 3, tokens: 0, at: 1_790_000_000_000 } as const;

  it('takes amounts from the charge and the rest from the report', () => {
    expect(toLedgerRow({ ...charged, row: row('c') }, '1-0', 't')).toMatchObject({
      call_id: 'c',
      micro_usd: 3,
      tokens: 100,
      success: true,
    });
    const capped = JSON.stringify({ call_id: 'c', tool_name: 'x', user_id: 'u', tokens: 900, real_tokens: 900 });
    expect(toLedgerRow({ ...charged, tokens: 500, row: capped }, '1-0', 't')).toMatchObject({
      tokens: 500,
      real_tokens: 500,
    });
  });

  it('records a lease without a report, and keeps a charge whose row is unreadable', () => {
    const expired = toLedgerRow({ ...charged, kind: 'expired', microUsd: 4_000, row: '{"call_id":"c"}' }, '1-0', 't');
    expect(expired).toMatchObject({
      call_id: 'c',
      tool_name: 'unknown',
      success: false,
      provenance: 'unknown',
      tokens: 2_000,
    });
    expect(toLedgerRow({ ...charged, row: 'not json' }, '7-0', 't')).toMatchObject({
      call_id: 'unreadable:7-0',
      micro_usd: 3,
    });
  });
});
