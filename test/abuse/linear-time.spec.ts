/**
 * Functions that handle text of others take time in proportion to it: a doubled input may take three times as long, not four.
 * Ratios within one run only, each of the fastest of several runs, so that a busy machine makes no difference.
 */
import { hash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { describe, expect, it } from 'vitest';
import { FULL_LENGTH } from './abused-fleet.js';
import { CALLER_TEXT, ENDS, repeated, STARTS, UNITS, type CallerTextRow } from './caller-text.js';

// Work that allocates waits for the threads that collect garbage; on a busy machine these wait for their turn, at one length and not at another.
setFlagsFromString('--single-threaded-gc');

/** Long enough to be measured. Inputs grow until the work takes that long, or until `MOST`. */
const MEASURABLE_MS = FULL_LENGTH ? 3 : 1.5;
const LEAST = 64;
const MOST = FULL_LENGTH ? 4_000_000 : 150_000;
const MOST_HUNTED = 60_000;
/** How many of about 600 texts the hunt tries on each function; another seed tries others. */
const HUNTED = Number(process.env['ABUSE_SHAPES'] ?? 60);
const SEED = Number(process.env['ABUSE_SEED'] ?? 1);
const MOST_RATIO = 3;
/** Most measurements of one length: their least approaches the time without noise, so more of them make the ratio truer. */
const ATTEMPTS = 100;
/** From this many attempts on, the median of their ratios counts too. */
const PAIRED_ATTEMPTS = 9;
/** After these attempts each measurement waits first: what has slept gets a whole turn on a busy core. */
const QUICK_ATTEMPTS = 10;
const REST_MS = 25;
const RUNS = 3;

function fastest(work: () => unknown, runs = RUNS): number {
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run += 1) {
    const from = performance.now();
    work();
    best = Math.min(best, performance.now() - from);
  }
  return best;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

/**
 * How many times as long a doubled input takes; 1 for work that stays too short to be measured. Quadratic work quadruples at
 * every length. The ratio is of the least times seen so far, at two lengths in turn; or the median of the ratios of single
 * attempts, for a machine that becomes slower for good after it has measured the shorter input.
 */
function growth(prepare: (length: number) => () => unknown, most: number): { ratio: number; length: number } {
  let length = LEAST;
  while (2 * length < most && fastest(prepare(length), 2) < MEASURABLE_MS) length *= 2;
  const onceMs = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const twiceMs = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const paired: number[] = [];
  let ratio = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS && ratio > MOST_RATIO; attempt += 1) {
    const at = attempt % 2;
    const measure = (size: number): number => {
      const work = prepare(size);
      if (attempt >= QUICK_ATTEMPTS) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, REST_MS);
      return fastest(work);
    };
    const base = length >> at;
    const once = measure(base);
    onceMs[at] = Math.min(onceMs[at]!, once);
    // As long as the input may be, and still nothing to measure.
    if (attempt === 0 && onceMs[at] < MEASURABLE_MS / 4) return { ratio: 1, length };
    const twice = measure(2 * base);
    twiceMs[at] = Math.min(twiceMs[at]!, twice);
    paired.push(twice / once);
    ratio = twiceMs[at] / onceMs[at];
    if (paired.length >= PAIRED_ATTEMPTS) ratio = Math.min(ratio, median(paired));
  }
  return { ratio, length };
}

describe.each(CALLER_TEXT)('$name', ({ worst, most = MOST }: CallerTextRow) => {
  // Measured again where another program came between: quadratic work fails each time.
  it.each(Object.entries(worst))('of %s', { retry: 2 }, (_, prepare) => {
    expect(growth(prepare, most).ratio).toBeLessThanOrEqual(MOST_RATIO);
  });
});

// The short set of `npm test` has the worst cases only; the hunt belongs to `npm run test:abuse`.
const hunted = FULL_LENGTH ? CALLER_TEXT.flatMap((row) => (row.run ? [{ ...row, run: row.run }] : [])) : [];

const shapes = UNITS.flatMap((unit) => ENDS.flatMap((end) => STARTS.map((start) => ({ unit, end, start }))));
it.each(hunted)('any repetition: $name', ({ name, run, most = MOST }) => {
  const slow: string[] = [];
  const order = new Map(shapes.map((shape) => [shape, hash('sha1', `${SEED} ${name} ${JSON.stringify(shape)}`)]));
  const tried = shapes.toSorted((a, b) => ((order.get(a) ?? '') < (order.get(b) ?? '') ? -1 : 1)).slice(0, HUNTED);
  for (const { unit, end, start } of tried) {
    const prepare = (size: number): (() => unknown) => {
      const text = repeated(unit, size, end, start);
      return () => run(text);
    };
    const { ratio, length } = growth(prepare, Math.min(most, MOST_HUNTED));
    if (ratio > MOST_RATIO) slow.push(`${JSON.stringify([start, unit, end])} at ${length}: ${ratio.toFixed(1)}`);
  }
  expect(slow).toEqual([]);
});
