import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { findSuspicions } from './suspicious-text.js';

const read = <T>(name: string): T =>
  JSON.parse(readFileSync(new URL(`../../../../test/data/${name}.json`, import.meta.url), 'utf8')) as T;
const { descriptions: hostile } = read<{ descriptions: { how: string; text: string }[] }>('hostile-descriptions');
const ordinary = read<{ openings: string[]; things: string[]; details: string[] }>('ordinary-descriptions');

/** Every opening with every thing, followed by one or two details: the same texts in each run. */
function* ordinaryDescriptions(count: number): Generator<string> {
  const { openings, things, details } = ordinary;
  for (let index = 0; index < count; index += 1) {
    const opening = openings[index % openings.length]!;
    const thing = things[Math.floor(index / openings.length) % things.length]!;
    const round = Math.floor(index / (openings.length * things.length));
    const [first, second] = [index + round, index + 3 * round + 7].map((at) => details[at % details.length]);
    yield `${opening.replace('{x}', thing)}${index % 3 === 0 ? '\n\n' : ' '}${first}${index % 2 === 0 ? ` ${second}` : ''}`;
  }
}

const ORDERS = 'text that instructs the model';

describe('the check of texts', () => {
  it('finds every hostile description of the corpus', () => {
    expect(hostile.length).toBeGreaterThan(120);
    expect(hostile.filter(({ text }) => findSuspicions(text).size === 0)).toEqual([]);
  });

  it('reads through spelling: the order itself is found, not only the means that hide it', () => {
    const spelled = new Set([
      'plain',
      'line breaks',
      'compatibility forms',
      'look-alike letters',
      'hidden inside words',
      'spelling',
      'references',
      'other languages',
    ]);
    const found = hostile.filter(({ how }) => spelled.has(how));
    expect(found.length).toBeGreaterThan(80);
    expect(found.filter(({ text }) => !findSuspicions(text).has(ORDERS))).toEqual([]);
  });

  it('lets at least 99.5 % of 5,000 ordinary descriptions pass', () => {
    const texts = new Set(ordinaryDescriptions(5_000));
    expect(texts.size).toBeGreaterThan(4_900);
    const alarms = [...texts].filter((text) => findSuspicions(text).size > 0);
    expect(alarms.length, alarms.slice(0, 3).join('\n')).toBeLessThan(texts.size * 0.005);
  });

  it.each([
    ['emoji with joiners, selectors, skin tones and keycaps', 'Family 👨‍👩‍👧, thumbs 👍🏽, heart ❤️, step 1️⃣, #️⃣'],
    ['Persian with its joiner', 'نمی‌دانم می‌خواهم'],
    ['Hindi with its joiners', 'क्‍ष और र्‌य'],
    ['Hebrew with direction marks', 'שלום\u200f (abc)'],
    ['Greek letters and units', 'Δt in µs, 5 kΩ, λ = 3, αβ-test'],
    ['a foreign word with a Latin stem', 'PDF-файл и API-запрос, JSON’ом'],
  ])('passes %s', (_what, text) => expect([...findSuspicions(text)]).toEqual([]));

  it('takes time linear in the text, also for texts made to be slow', () => {
    const units = [
      'ignore ',
      'do not tell ',
      'before using any ',
      'i ',
      '\u200b',
      'ignоre ',
      '&#105;',
      "l'",
      '👨\u200d',
      '忽略',
      'a\u0301',
      '. ',
      'the model must ',
      '<',
    ];
    // CPU time in ms: what else the machine does is not counted.
    const timeOf = (text: string) => {
      const runs = Array.from({ length: 3 }, () => {
        const before = process.cpuUsage();
        findSuspicions(text);
        const { user, system } = process.cpuUsage(before);
        return (user + system) / 1_000;
      });
      return Math.min(...runs);
    };
    for (const unit of units) {
      const text = unit.repeat(Math.ceil(8_000 / unit.length));
      timeOf(text);
      // Sixteen times the text: linear is 16, quadratic 256.
      expect(timeOf(text.repeat(16)) / (timeOf(text) + 1), JSON.stringify(unit)).toBeLessThan(100);
    }
  });
});
