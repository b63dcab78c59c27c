import { expect, test } from 'vitest';
import { toSnakeCase } from './wire.js';

test('toSnakeCase renames members, keeps values, and leaves out undefined members', () => {
  const inCode = { callId: 'c', timeoutMs: 5, tenant: 't', scopes: { request_id: 'r' }, dryRun: undefined };
  const onWire = { call_id: 'c', timeout_ms: 5, tenant: 't', scopes: { request_id: 'r' } };
  expect(Object.keys(toSnakeCase(inCode))).toEqual(Object.keys(onWire));
  expect(toSnakeCase(inCode)).toEqual(onWire);
});
