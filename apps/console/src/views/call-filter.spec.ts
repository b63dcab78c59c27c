import { expect, it } from 'vitest';
import type { FinishedCall } from '@toolfleet/client';
import { matchesQuery, toCallQuery } from './call-filter.js';

const NOW = Date.parse('2026-01-31T12:00:00Z');

it('asks for what the address says, with a period as an instant and without other parameters', () => {
  const filter = { tool: ' calculator ', from: '2h', slower_than_ms: '250', status: 'failure', theme: 'x' };
  expect(toCallQuery(filter, NOW)).toEqual({
    tool: 'calculator',
    from: '2026-01-31T10:00:00.000Z',
    slower_than_ms: 250,
    status: 'failure',
  });
  const { from, to } = toCallQuery({ from: '2026-01-30', to: '2026-01-31T12:00:00Z' }, NOW);
  expect([from, to]).toEqual(['2026-01-30', '2026-01-31T12:00:00Z']);
});

it('decides for a call of the stream as the service does for stored calls', () => {
  const call = {
    call_id: 'c1-2',
    tool: 'calculator',
    user_id: 'ann',
    key_id: 'k1',
    status: 'refused',
    code: 'RATE_LIMITED',
    duration_ms: 20,
    ended_at: '2026-01-31T12:00:00.000Z',
  } as FinishedCall;
  const matching = [
    {},
    { id: 'c1', tool: 'calculator', user_id: 'ann', key_id: 'k1', code: 'RATE_LIMITED' },
    { status: 'failure', slower_than_ms: 20 },
    { status: 'success,refused', from: '2026-01-31T12:00:00Z', to: '2026-01-31T12:00:01Z' },
  ];
  const other = [
    { id: '1-2' },
    { tool: 'calc' },
    { user_id: 'bob' },
    { key_id: 'k2' },
    { code: 'TOOL_ERROR' },
    { tenant_id: 'globex' },
    { status: 'success' },
    { slower_than_ms: 21 },
    { from: '2026-01-31T12:00:01Z' },
    { to: '2026-01-31T12:00:00Z' },
  ];
  expect(matching.filter((query) => !matchesQuery(call, query))).toEqual([]);
  expect(other.filter((query) => matchesQuery(call, query))).toEqual([]);
});
