import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/base/json';
import { errorBody } from '../wire.js';
import { ToolError, toToolError } from './tool-error.js';

const HUGE = 'k'.repeat(4_000_000);
const sizeOf = (error: ToolError): number => JSON.stringify(errorBody(error)).length;

describe('an error that quotes its caller', () => {
  it.each<[string, JsonObject]>([
    ['a huge string', { name: HUGE }],
    ['a huge key', { [HUGE]: 1 }],
    ['many strings', { names: Array.from({ length: 100_000 }, (_, index) => `name ${index}`) }],
    ['many keys', Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key ${index}`, index]))],
    ['faults that quote a huge name', { faults: Array.from({ length: 50 }, () => ({ path: HUGE, [HUGE]: HUGE })) }],
    ['deep nesting', { deep: JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) }],
  ])('is short despite %s', (_what, details) => {
    expect(sizeOf(new ToolError('REQUEST_INVALID', { message: `Unknown ${HUGE}`, details }))).toBeLessThan(128 * 1024);
  });

  it('keeps details and messages of ordinary size unchanged', () => {
    const details = {
      faults: [{ path: '/a', kind: 'missing' }],
      limit: 5,
      none: null,
      nested: { list: ['a', 1, true] },
    };
    const error = new ToolError('ARGUMENTS_INVALID', { message: 'm'.repeat(10_000), details });
    expect(error.details).toBe(details);
    expect(error.message).toHaveLength(10_000);
  });

  it('keeps a key named __proto__ a plain property', () => {
    const details = JSON.parse(`{"__proto__": {"admin": "${'x'.repeat(5_000)}"}}`) as JsonObject;
    const error = new ToolError('REQUEST_INVALID', { details });
    expect(Object.hasOwn(error.details!, '__proto__')).toBe(true);
    expect(Object.getPrototypeOf(error.details)).toBe(Object.prototype);
  });
});

describe('a thrown value of any kind', () => {
  it.each([undefined, null, 1n, Symbol('s'), Object.create(null) as object, () => 1])('becomes INTERNAL', (thrown) => {
    expect(toToolError(thrown).code).toBe('INTERNAL');
  });
});
