import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { isToolError } from '@toolfleet/contracts';
import { runTool } from '../../spec/run-tool.fixture.js';
import { Big } from './big-number.js';
import { calculator } from './calculator.tool.js';

const answer = async (expression: string) =>
  (await runTool(calculator, { expression })).output as { result: number | string; value: string };

describe('calculator', () => {
  it.each<[string, number | string]>([
    ['1 + 2 * 3', 7],
    ['(1 + 2) * 3', 9],
    ['2 ^ 3 ^ 2', 512],
    ['2 ** 10', 1024],
    ['-2 ^ 2', -4],
    ['2 ^ -1', 0.5],
    ['0.1 + 0.2', 0.3],
    ['10 - 4 - 3', 3],
    ['7 / 2', 3.5],
    ['7 // 2', 3],
    ['-7 // 2', -4],
    ['7 % 3', 1],
    ['-7 % 3', 2],
    ['-7 mod 3', 2],
    ['50%', 0.5],
    ['200 + 10%', 220],
    ['200 - 10%', 180],
    ['200 * 10%', 20],
    ['20% of 50', 10],
    ['(5 + 5)% of 200', 20],
    ['5!', 120],
    ['3!!', 720],
    ['1_000_000 * 3', 3_000_000],
    ['0xff + 0b11 + 0o17', 273],
    ['1.5e3', 1500],
    ['2 × 3 ÷ 4 − 1', 0.5],
    ['sqrt(16) + cbrt(27)', 7],
    ['root(27, 3)', 3],
    ['root(-8, 3)', -2],
    ['√(9)', 3],
    ['log(8, 2)', 3],
    ['log10(1000)', 3],
    ['ln(e)', 1],
    ['round(2.345, 2)', 2.35],
    ['round(1234, -2)', 1200],
    ['floor(-2.5)', -3],
    ['ceil(2.1)', 3],
    ['max(1, 7, 3) - min(4, 2)', 5],
    ['mean(1, 2, 3, 4)', 2.5],
    ['median(5, 1, 3)', 3],
    ['stdev(2, 4, 4, 4, 5, 5, 7, 9)', 2.138089935299395],
    ['gcd(12, 18) + lcm(4, 6)', 18],
    ['comb(49, 6)', 13983816],
    ['perm(5, 2)', 20],
    ['percent_change(80, 100)', 25],
    ['degrees(pi)', 180],
    ['hypot(3, 4)', 5],
    ['tanh(100000)', 1],
    ['2^64', '18446744073709551616'],
    ['2^200', '1606938044258990275541962092341162602522202993782792835301376'],
    ['25!', '15511210043330985984000000'],
    ['2^200 / 2^199', 2],
    ['2^200 % 1000', 376],
    ['10^100', '1e+100'],
    ['exp(200)', '7.225973768125749258177477042189306e+86'],
  ])('%s = %s', async (expression, expected) => {
    expect((await answer(expression)).result).toBe(expected);
  });

  it('shows 34 digits of inexact results', async () => {
    expect((await answer('1/3')).value).toBe('0.3333333333333333333333333333333333');
    expect((await answer('pi')).value).toBe('3.141592653589793238462643383279503');
    expect((await answer('sin(pi)')).result).toBeCloseTo(0, 30);
  });

  it.each<[string, RegExp, number]>([
    ['', /empty/, 1],
    ['   ', /empty/, 1],
    ['1 +', /ends too early/, 4],
    ['(1 + 2', /never closed/, 1],
    ['1 + 2)', /Unexpected "\)"/, 6],
    ['2(3)', /write \* to multiply/, 2],
    ['2 pi', /write \* to multiply/, 3],
    ['1 / 0', /Division by zero/, 3],
    ['5 % 0', /Division by zero/, 3],
    ['0 ^ -1', /Division by zero/, 3],
    ['sqrt(-1)', /not defined/, 1],
    ['ln(0)', /not defined/, 1],
    ['asin(2)', /not defined/, 1],
    ['foo(1)', /Unknown function "foo"/, 1],
    ['1 + bar', /Unknown name "bar"/, 5],
    ['sqrt', /is a function/, 1],
    ['sqrt(1, 2)', /takes 1 argument/, 1],
    ['1 $ 2', /Unexpected character "\$"/, 3],
    ['(-5)!', /integer from 0 to 3000/, 5],
    ['2.5!', /integer from 0 to 3000/, 4],
  ])('%s is a fault with its place', async (expression, message, position) => {
    const fault = await answer(expression).catch((error: unknown) => error);
    expect(isToolError(fault) && fault.code).toBe('TOOL_ERROR');
    expect((fault as Error).message).toMatch(message);
    expect((fault as { details?: object }).details).toEqual({ position });
  });

  it.each([
    'constructor("return process")()',
    '__proto__',
    'this',
    'process.exit(1)',
    'globalThis["x"]',
    'require("fs")',
    'toString()',
    'hasOwnProperty(1)',
    '`${1}`',
    '1;2',
    'x=1',
    '[].constructor',
    "''",
  ])('%s runs no code', async (expression) => {
    await expect(answer(expression)).rejects.toThrow(/Unknown|Unexpected|is a function/);
  });

  it.each([
    '9^9^9^9',
    '9^9^9',
    '10^1000000',
    '1e999999999',
    '1e10000 * 1e10000',
    '3000!!',
    'exp(1e300)',
    `${'('.repeat(4000)}1`,
    `${'-'.repeat(4000)}1`,
    `${'2^'.repeat(2000)}2`,
    Array.from({ length: 240 }, () => '3000!').join('*'),
    Array.from({ length: 800 }, () => '1!').join('*'),
    '2^33219 * 2^33219',
  ])('bomb %.40s ends fast with a fault', async (expression) => {
    const startedAt = performance.now();
    await expect(answer(expression)).rejects.toThrow(/Result|costs|Nested|Exponent|parts|Factorial|Unexpected/);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });

  it('agrees with integer arithmetic of any size', async () => {
    const operand = fc.bigInt({ min: -(10n ** 60n), max: 10n ** 60n });
    await fc.assert(
      fc.asyncProperty(operand, operand, async (a, b) => {
        expect(new Big((await answer(`(${a}) + (${b})`)).value).toFixed()).toBe(`${a + b}`);
        expect(new Big((await answer(`(${a}) - (${b})`)).value).toFixed()).toBe(`${a - b}`);
        expect(new Big((await answer(`(${a}) * (${b})`)).value).toFixed()).toBe(`${a * b}`);
      }),
      { numRuns: 60 },
    );
  });

  it('throws only tool errors, whatever the text', async () => {
    const piece = fc.constantFrom(
      '1',
      '2.5',
      '(',
      ')',
      '+',
      '-',
      '*',
      '/',
      '^',
      '!',
      '%',
      ',',
      'pi',
      'sqrt',
      'of',
      'mod',
      ' ',
      'e',
      '.',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 14 }), async (pieces) => {
        const outcome = await answer(pieces.join('')).catch((error: unknown) => error);
        expect(outcome instanceof Error ? isToolError(outcome) : typeof (outcome as { value: string }).value).toBe(
          outcome instanceof Error ? true : 'string',
        );
      }),
      { numRuns: 300 },
    );
  });
});
