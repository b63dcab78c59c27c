import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isAuthenticated, narrowGlobs, toolAllowed } from './access.js';

const name = fc.stringMatching(/^[ab_]{0,6}$/);
const glob = fc.stringMatching(/^[ab_*]{1,5}$/);

it.each([
  ['api_key', undefined, true],
  ['jwt', undefined, true],
  ['session', undefined, true],
  ['oauth', undefined, true],
  ['nats_subject', undefined, false],
  ['local', undefined, false],
  ['local', true, true],
  ['delegation', undefined, false],
  ['delegation', false, false],
  ['delegation', true, true],
] as const)('a caller of kind %s, recorded as authenticated: %s -> %s', (via, authenticated, expected) => {
  expect(isAuthenticated({ via, authenticated })).toBe(expected);
});

describe('tool globs', () => {
  it.each([
    [['*'], 'calculator', true],
    [['calculator'], 'calculator', true],
    [['calculator'], 'calculator2', false],
    [['file_*'], 'file_read', true],
    [['file_*'], 'profile_read', false],
    [['*_read'], 'file_read', true],
    [['a*b*c'], 'abc', true],
    [['ab*ba'], 'aba', false],
    [['a.c'], 'abc', false],
    [[], 'calculator', false],
  ])('%j %s -> %s', (globs, tool, expected) => {
    expect(toolAllowed(globs, tool)).toBe(expected);
  });

  it('matches what the equivalent regular expression matches', () => {
    fc.assert(
      fc.property(glob, name, (pattern, tool) => {
        const expected = new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(tool);
        expect(toolAllowed([pattern], tool)).toBe(expected);
      }),
    );
  });

  it('narrows to what both lists allow', () => {
    fc.assert(
      fc.property(fc.array(glob), fc.array(glob), name, (held, wanted, tool) => {
        if (toolAllowed(narrowGlobs(held, wanted), tool)) {
          expect(toolAllowed(held, tool) && toolAllowed(wanted, tool)).toBe(true);
        }
      }),
    );
  });

  it('keeps globs that are wanted and held', () => {
    expect(narrowGlobs(['*'], ['web_search', 'calc*'])).toEqual(['web_search', 'calc*']);
    expect(narrowGlobs(['file_read'], ['*'])).toEqual(['file_read']);
    expect(narrowGlobs(['file_*'], ['web_*'])).toEqual([]);
  });
});
