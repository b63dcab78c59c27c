import { describe, expect, it } from 'vitest';
import { CALL_FIELDS, callFieldSchemas, readCallFields, type CallEntry } from './call-fields.js';
import type { JsonObject } from '@toolfleet/base/json';

const ENTRIES: CallEntry[] = ['http', 'nats', 'mcp', 'http-batch', 'nats-batch', 'batch-item'];
const GOOD: Record<string, unknown> = { string: 'x', integer: 5, boolean: true, object: { a: 1 } };
const WRONG: Record<string, unknown[]> = {
  string: ['', 'x'.repeat(1_001), 'a\u0000b', 'a\u2028b', 5, null],
  integer: [0, 1.5, 600_001, '5', null],
  boolean: ['true', 1, null],
  object: [[], 'x', null],
};

describe.each(ENTRIES)('fields of a call on %s', (entry) => {
  const schemas = callFieldSchemas(entry) as Record<string, JsonObject & { type?: string; enum?: string[] }>;

  it('accepts valid values and names the invalid ones', () => {
    for (const [name, { type = 'enum', enum: values }] of Object.entries(schemas)) {
      const good = values ? values[0] : GOOD[type];
      expect(readCallFields({ [name]: good } as JsonObject, entry)).toEqual({ [name]: good });
      for (const wrong of values ? ['other', 5, null] : WRONG[type]!) {
        expect(() => readCallFields({ [name]: wrong } as JsonObject, entry)).toThrow(
          expect.objectContaining({ code: 'REQUEST_INVALID', details: expect.objectContaining({ fields: [name] }) }),
        );
      }
    }
  });

  it('rejects fields of other entry points, except in _meta', () => {
    const foreign = Object.keys(CALL_FIELDS).find((name) => !(name in schemas));
    if (foreign === undefined) return;
    const read = () => readCallFields({ [foreign]: 'x' }, entry);
    if (entry === 'mcp') expect(read()).toEqual({});
    else expect(read).toThrow(`Unknown field '${foreign}'`);
  });
});

it('an error quotes at most ten short names', () => {
  const source = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`${n}${'n'.repeat(1_000)}`, 1]));
  const refusal = (() => {
    try {
      readCallFields(source, 'http');
      return '';
    } catch (error) {
      return JSON.stringify({ ...(error as object), message: (error as Error).message });
    }
  })();
  expect(refusal.length).toBeLessThan(2_000);
});
