import type { Json } from '@toolfleet/base';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson, fingerprint, identityText, sha256Hex } from './canonical.js';

test('the example of RFC 8785 section 3.2.2', () => {
  const value = JSON.parse(
    '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
  ) as Json;
  expect(canonicalJson(value)).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  );
});

test('keys are sorted by UTF-16 code units (RFC 8785 section 3.2.3)', () => {
  const value = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\ud83d\ude00': 5, '\u0080': 6, '\u00f6': 7 };
  expect(Object.values(JSON.parse(canonicalJson(value)) as object)).toHaveLength(7);
  expect(canonicalJson(value)).toBe('{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\ud83d\ude00":5,"\ufb33":3}');
});

test('NaN and Infinity have no form', () => {
  expect(() => canonicalJson({ x: Number.NaN })).toThrow(TypeError);
});

test('a long string counts by its hash, which no short one has', () => {
  const long = 'ä"'.repeat(3_000);
  const hash = sha256Hex(long);
  expect(identityText({ b: [long], a: 1 })).toBe(`{"a":1,"b":[${hash}]}`);
  expect(identityText({ b: [hash], a: 1 })).toBe(`{"a":1,"b":["${hash}"]}`);
  expect(identityText(long)).not.toBe(identityText(`${long}x`));
  // In UTF-8 these have the same bytes.
  expect(identityText(`${long}\ud800`)).not.toBe(identityText(`${long}\udbff`));
});

/** The same value with the keys of every object in another order. */
function shuffled(value: Json, order: (keys: string[]) => string[]): Json {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, order));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(order(Object.keys(value)).map((key) => [key, shuffled(value[key] as Json, order)]));
}

test('property: order does not matter, the value does, and the text is JSON of the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
      const [a, b] = [JSON.parse(JSON.stringify(left)) as Json, JSON.parse(JSON.stringify(right)) as Json];
      expect(fingerprint(shuffled(a, (keys) => keys.toReversed()))).toBe(fingerprint(a));
      expect(JSON.parse(canonicalJson(a))).toEqual(a);
      expect(canonicalJson(a) === canonicalJson(b)).toBe(
        canonicalJson(shuffled(a, (keys) => keys.toSorted())) === canonicalJson(shuffled(b, (keys) => keys.toSorted())),
      );
    }),
    { numRuns: 2_000 },
  );
});
