import fc from 'fast-check';
import { dump, loadAll } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import { parseInParts } from './yaml-parts.js';

const TINY = { text: 0, part: 25, batch: 60 };
const parse = (text: string) => loadAll(text);
const inParts = (text: string) => parseInParts(text, parse, TINY);

const texts = fc.constantFrom(
  'plain',
  'two\nlines\n',
  '  indented\n\n\nkey: like an entry\n',
  "it's: quoted",
  '# no comment',
  '- item',
  '---\n',
  'x'.repeat(40),
  'words that are folded over several lines',
  '*a &a <<',
  '\u2028key: after a separator',
  '\u{1f600}',
  '12',
  '',
);
const keys = fc.constantFrom('a', 'b', 'paths', '/things/{id}', '200', 'x y', "'", '', '__proto__', '? c', 'é', '- d');
const leaf = fc.oneof(texts, fc.integer(), fc.constantFrom(0.5, 1e21, true, null, [], {}, [{ a: 1 }, 'b']));
const { mapping } = fc.letrec<{ value: unknown; mapping: Record<string, unknown> }>((tie) => ({
  value: fc.oneof({ maxDepth: 5 }, leaf, tie('mapping'), fc.array(tie('value'), { maxLength: 3 })),
  mapping: fc.dictionary(keys, tie('value'), { minKeys: 1, maxKeys: 6, noNullPrototype: true }),
}));
const style = fc.record({
  indent: fc.integer({ min: 1, max: 4 }),
  noArrayIndent: fc.boolean(),
  flowLevel: fc.constantFrom(-1, -1, -1, 2, 4),
  lineWidth: fc.constantFrom(-1, 20, 80),
  forceQuotes: fc.boolean(),
  quotingType: fc.constantFrom<("'" | '"')[]>("'", '"'),
  noRefs: fc.constant(true),
});
/** Edits of lines: where, and what becomes of the line. */
const edits = fc.array(
  fc.tuple(
    fc.nat(60),
    fc.constantFrom<((line: string) => string[])[]>(
      () => [],
      (line) => [line, line],
      (line) => [` ${line}`],
      (line) => [line.slice(1)],
      (line) => [line, '# comment', ''],
      (line) => [line, '---'],
      (line) => [line, '  '],
      (line) => [`${line}\r`],
      (line) => [line.replace(/: .*/, ': "open')],
      (line) => [line.replace(/: .*/, ': |+')],
      (line) => [line.replace(/: .*/, ': {a: 1,')],
      (line) => [line.replace(/: .*/, ': &a b'), 'z: *a'],
      (line) => [line.replace(/: .*/, ': .inf')],
      (line) => [line.replace(/: .*/, ':')],
      (line) => [line.replace(/:.*/, ': ~ # c:')],
      (line) => [line.replace(/:.*/, ': # c')],
      (line) => [line.replace(/:.*/, ': !t &b')],
    ),
  ),
  { maxLength: 4 },
);

describe('parseInParts', () => {
  it('gives what parsing at once gives', () => {
    let separated = 0;
    fc.assert(
      fc.property(mapping, style, edits, (value, options, changes) => {
        const lines = dump(value, options).split('\n');
        for (const [place, change] of changes) {
          const at = place % lines.length;
          lines.splice(at, 1, ...change(lines[at] ?? ''));
        }
        const text = lines.join('\n');
        const parts = inParts(text);
        if (parts === undefined) return;
        separated += 1;
        const whole = loadAll(text);
        expect(whole).toHaveLength(1);
        expect(parts).toEqual(whole[0]);
        expect(JSON.stringify(parts)).toBe(JSON.stringify(whole[0]));
      }),
      { numRuns: 3_000 },
    );
    expect(separated).toBeGreaterThan(500);
  });

  it('takes mappings below others apart, comments and a document marker included', () => {
    const lengths: number[] = [];
    const text = `# head\n---\nopenapi: 3.1.0\n# c\npaths: # all\n  # first\n  /a:\n${'    get: {}\n    put: {}\n'.replace(/\{\}/g, 'some long text here')}  "/b": 1\n`;
    const parts = parseInParts(
      text,
      (part) => {
        lengths.push(part.length);
        return loadAll(part);
      },
      TINY,
    );
    expect(parts).toEqual(loadAll(text)[0]);
    expect(lengths.length).toBeGreaterThan(4);
    expect(Math.max(...lengths)).toBeLessThan(60);
  });

  it.each([
    ['an alias', 'a: &x 1\nb: *x\n'],
    ['a merge key', 'a: {b: 1}\nc:\n  <<: {d: 1}\n'],
    ['two documents', 'a: 1\n...\nb: 2\n'],
    ['a directive', '%YAML 1.2\n---\na: 1\n'],
    ['a key twice in two parts', `a: 1\nb: ${'x'.repeat(30)}\na: 2\n`],
    ['a sequence', '- a\n- b\n'],
    ['a number that JSON does not have', 'a: .nan\n'],
    ['line breaks of old systems', 'a: 1\rb: 2\r'],
    ['a fault', 'a: "b\n'],
  ])('leaves text with %s alone', (_what, text) => {
    expect(inParts(text)).toBeUndefined();
  });
});
