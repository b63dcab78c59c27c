import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseModule } from './parse.js';
import { Program } from './program.js';
import { RegoError } from './rego-error.js';
import { compare, equal, toKey, RegoObject, RegoSet, type RegoValue } from './value.js';

const SEEDS = [
  readFileSync(new URL('../../../../deploy/policies/tools.rego', import.meta.url), 'utf8'),
  `package a.b
import data.x as y
default p := {"a": [1, 2.5e3, null]}
p := {k: v | some k, v in input.m; not v in {1, -2}} if { every i, e in input.l { e > i } }
q[x].r contains z if { x := input.l[_]; z = [x, {"k": f(x)}] with input.z as 1 }
f(x) := count(x) | {1} if is_set(x) else := x if { [a, _] = x; a == 1 }
s := \`raw\` if p == set()
deny[msg] { msg := sprintf("%v", [input.a.b["c"]]) }
`,
];
const FRAGMENTS = [
  '{',
  '}',
  '[',
  ']',
  '(',
  ')',
  '|',
  ':',
  ':=',
  '=',
  ',',
  '\n',
  ' ',
  '"',
  '`',
  '.',
  '_',
  'x',
  'if',
  'in',
  'some',
  'not',
  'with',
  'as',
  'else',
  'every',
  'contains',
  'set()',
  '0',
  '-1',
  '1e9',
  'input',
  'data',
  '#',
  '\\',
  '\0',
  '𝒳',
];

/** Whatever the text: it loads, or it is refused by a RegoError. */
function loads(text: string): boolean {
  try {
    void new Program([parseModule(text, 'fuzz.rego')]);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(RegoError);
    return false;
  }
}

describe('mutated policies', () => {
  it('the seeds load', () => {
    expect(SEEDS.map(loads)).toEqual([true, true]);
  });

  it('load or are refused, and never evaluate to another kind of fault', () => {
    const edit = fc.record({
      at: fc.nat(),
      cut: fc.nat(12),
      put: fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.constantFrom(...SEEDS), fc.array(edit, { minLength: 1, maxLength: 4 }), (seed, edits) => {
        const text = edits.reduce((whole, { at, cut, put }) => {
          const from = at % (whole.length + 1);
          return whole.slice(0, from) + put.join('') + whole.slice(from + cut);
        }, seed);
        loads(text);
      }),
      { numRuns: 3_000 },
    );
  });

  it.each(['[', '{', '(', '[a|', '{a|', '{a:', '{a:b|', 'f(', 'a[', '-', 'not ', '[x|x:=', '{x|x:={'])(
    'many %j in a row end soon',
    (part) => {
      expect(loads(`package a\np := ${part.repeat(2_000)}`)).toBe(false);
      expect(loads(`package a\np if ${part.repeat(2_000)}`)).toBe(false);
    },
  );
});

describe('values', () => {
  const scalar = fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.integer({ min: -3, max: 3 }),
    fc.double({ noNaN: true, min: -2, max: 2 }).map((n) => n + 0),
    fc.string({ maxLength: 2 }),
    fc.constantFrom('\ud83d\ude00', '\uffee', '__proto__'),
  );
  const value = fc.letrec<{ any: RegoValue }>((tie) => ({
    any: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      scalar as fc.Arbitrary<RegoValue>,
      fc.array(tie('any'), { maxLength: 3 }),
      fc.array(tie('any'), { maxLength: 3 }).map((items) => new RegoSet(items)),
      fc.array(fc.tuple(tie('any'), tie('any')), { maxLength: 3 }).map((fields) => {
        const object = new RegoObject();
        for (const [key, item] of fields) object.set(key, item);
        return object;
      }),
      fc.dictionary(fc.string({ maxLength: 2 }), tie('any'), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).any;

  it('have one total order, and one key for equal values', () => {
    fc.assert(
      fc.property(value, value, value, (a, b, c) => {
        expect(Math.sign(compare(a, b))).toBe(-Math.sign(compare(b, a)) + 0);
        expect(equal(a, b)).toBe(compare(a, b) === 0);
        expect(toKey(a) === toKey(b)).toBe(compare(a, b) === 0);
        if (compare(a, b) <= 0 && compare(b, c) <= 0) expect(compare(a, c)).toBeLessThanOrEqual(0);
      }),
      { numRuns: 2_000 },
    );
  });
});
