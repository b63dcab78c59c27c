import { expect, it } from 'vitest';
import { replaceLabelled } from './labelled-values.js';

const hide = (text: string): string =>
  replaceLabelled(
    text,
    (name) => (/pass$/.test(name) ? 'any' : undefined),
    () => '*',
  );

it.each([
  ['pass=abc, b', 'pass=*, b'],
  ['{"pass": "a\\"b", "c": 1}', '{"pass": "*", "c": 1}'],
  ["{'pass': 'a b'}", "{'pass': '*'}"],
  ['{\\"pass\\": \\"a\\\\\\"b\\", \\"c\\": 1}', '{\\"pass\\": \\"*\\", \\"c\\": 1}'],
  ['"pass":"a\\\\", "b": "c"', '"pass":"*", "b": "c"'],
  ['{"pass": {"a": ["}", 2]}, "c": 1}', '{"pass": *, "c": 1}'],
  ['pass = "no end', 'pass = "*'],
  ['pass=a pass=b my pass: c', 'pass=* pass=* my pass: *'],
  ['a?x=1&pass=b&y=2', 'a?x=1&pass=*&y=2'],
  ['pass: ', 'pass: '],
  ['passing=a, compassed=b', 'passing=a, compassed=b'],
])('%s', (text, expected) => expect(hide(text)).toBe(expected));

it('reads a header to the end of its line', () => {
  const all = (text: string): string =>
    replaceLabelled(
      text,
      (name) => (name.endsWith('Cookie') ? 'any' : undefined),
      () => '*',
    );
  expect(all('Cookie: a=b; c=d\nAccept: x')).toBe('Cookie: *\nAccept: x');
});

it('takes time in proportion to hostile texts', () => {
  const time = (length: number): number => {
    const texts = ['pass:"', '"pass":', 'pass={', 'pass:\\"', '\\', 'a', ':', '": "', 'cookie:', 'key='].map((part) =>
      part.repeat(length / part.length),
    );
    const from = performance.now();
    for (const text of texts) {
      replaceLabelled(
        text,
        () => 'texts',
        () => undefined,
      );
      hide(text);
    }
    return performance.now() - from;
  };
  // Quadratic time would be 64 times as long. The least times of more attempts are truer on a busy machine.
  let [shortMs, longMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let attempt = 0; attempt < 4 || (attempt < 50 && longMs / shortMs >= 40); attempt += 1) {
    shortMs = Math.min(shortMs, time(20_000));
    longMs = Math.min(longMs, time(160_000));
  }
  expect(longMs / shortMs).toBeLessThan(40);
});
