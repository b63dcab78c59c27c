import { expect, test } from 'vitest';
import { toCamelCase, toSnakeCase } from './wire.js';

test('toSnakeCase and toCamelCase rename members, keep values, and leave out undefined members', () => {
  const inCode = { callId: 'c', timeoutMs: 5, tenant: 't', scopes: { request_id: 'r' }, dryRun: undefined };
  const onWire = { call_id: 'c', timeout_ms: 5, tenant: 't', scopes: { request_id: 'r' } };
  expect(Object.keys(toSnakeCase(inCode))).toEqual(Object.keys(onWire));
  expect(toSnakeCase(inCode)).toEqual(onWire);
  expect(toSnakeCase(toCamelCase(onWire))).toEqual(onWire);
});
