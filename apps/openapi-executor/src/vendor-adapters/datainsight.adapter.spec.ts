import { describe, expect, it } from 'vitest';
import { adapterFaults, type AdapterCase } from '../../spec/adapter-test-kit.js';
import { DataInsightAdapter } from './datainsight.adapter.js';
import type { VendorAdapter } from './vendor-adapter.js';

const cases: AdapterCase[] = [
  {
    hook: 'transformBody',
    operationId: 'query',
    promptParams: { account_id: 'acc', other: 1 },
    input: { metrics: ['users', 'sessions', 'bounce_rate', 3], timeRange: { start: 'a', end: 'b', zone: 'z' } },
    expected: {
      metrics: ['di:unique_users', 'di:total_sessions', 'bounce_rate', 3],
      timeRange: { zone: 'z', startTime: 'a', endTime: 'b' },
      account_id: 'acc',
    },
  },
  {
    hook: 'transformBody',
    operationId: 'query',
    input: { timeRange: { start: 'a' } },
    expected: { timeRange: { startTime: 'a' } },
  },
  { hook: 'transformBody', operationId: 'query', input: { account_id: 'own' }, expected: { account_id: 'own' } },
];

describe('datainsight', () => {
  it('passes the test kit', () => expect(adapterFaults(new DataInsightAdapter(), cases)).toEqual([]));
});

describe('the test kit', () => {
  it('finds adapters that change their input, throw, or answer with something else than JSON', () => {
    const careless: VendorAdapter = {
      name: 'Careless',
      transformBody: (body) => {
        (body as { a: unknown }).a = 1;
        return body;
      },
      transformResponse: () => new Date() as never,
    };
    const faults = adapterFaults(careless, [
      { hook: 'transformHeaders', operationId: 'x', input: {}, expected: {} },
    ]).join('\n');
    expect(faults).toMatch(/lower case/);
    expect(faults).toMatch(/no such hook/);
    expect(faults).toMatch(/changed its input/);
    expect(faults).toMatch(/Cannot set properties/);
    expect(faults).toMatch(/not plain JSON/);
  });
});
