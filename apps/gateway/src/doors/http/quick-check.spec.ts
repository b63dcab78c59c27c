import {
  IsArray,
  IsIn,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  validateSync,
  ValidateIf,
} from 'class-validator';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { quickCheckOf } from './quick-check.js';

class Base {
  @IsOptional()
  @IsString()
  @MaxLength(3)
  name?: unknown;
}
class Body extends Base {
  @IsObject()
  arguments?: unknown;

  @IsOptional()
  @IsInt()
  @Max(9)
  size?: unknown;

  @IsOptional()
  @IsIn(['a', 'b'])
  mode?: unknown;
}
class WithItems {
  @IsArray()
  @IsString({ each: true })
  items?: unknown;
}
class Sometimes {
  @ValidateIf(() => false)
  @IsString()
  text?: unknown;
}
class WithoutRules {}

const isQuicklyValid = quickCheckOf(Body);

test('agrees with class-validator', () => {
  const value = fc.oneof(
    fc.constant(undefined),
    fc.constantFrom('a', 'b', 'toolong'),
    fc.integer({ max: 12 }),
    fc.anything(),
  );
  fc.assert(
    fc.property(
      fc.record({
        arguments: fc.oneof(fc.dictionary(fc.string(), fc.anything()), value),
        name: value,
        size: value,
        mode: value,
      }),
      (fields) => {
        const body = Object.assign(new Body(), fields);
        expect(isQuicklyValid(body)).toBe(validateSync(body).length === 0);
      },
    ),
    { numRuns: 1_000 },
  );
});

test('takes a body with what is required alone', () => {
  expect(isQuicklyValid(Object.assign(new Body(), { arguments: {} }))).toBe(true);
  expect(isQuicklyValid(new Body())).toBe(false);
});

test('leaves rules it does not know, and classes without rules, to class-validator', () => {
  expect(quickCheckOf(WithItems)(Object.assign(new WithItems(), { items: ['x'] }))).toBe(false);
  expect(quickCheckOf(Sometimes)(Object.assign(new Sometimes(), { text: 'x' }))).toBe(true);
  expect(quickCheckOf(WithoutRules)(new WithoutRules())).toBe(false);
});
