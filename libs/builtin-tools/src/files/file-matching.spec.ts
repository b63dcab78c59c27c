import { describe, expect, it } from 'vitest';
import { globMatcher } from './file-matching.js';

describe('globMatcher', () => {
  it.each<[string, string, boolean]>([
    ['*.md', 'a.md', true],
    ['*.md', 'docs/a.md', true],
    ['docs/*.md', 'docs/a.md', true],
    ['docs/*.md', 'docs/x/a.md', false],
    ['**/*.md', 'a.md', true],
    ['**/x/**', 'a/x/b/c', true],
    ['a?c', 'abc', true],
    ['[a-c]x', 'bx', true],
    ['[!a-c]x', 'bx', false],
    ['*.{ts,js}', 'm.js', true],
    ['**', 'a/b', true],
    ['a.md', 'xa.md', false],
    ['*', '.hidden', true],
    ['a/**', 'a', true],
    ['a/*/c', 'a/b/c', true],
    ['[!-a]x', '-x', false],
    ['[!-a]x', 'bx', true],
    ['a+(b).md', 'a+(b).md', true],
    ['[^\\]x', '\\x', true],
    ['a?b', 'a/b', false],
    ['[', '[', true],
    ['日?', '日本', true],
  ])('%s on %s is %s', (pattern, path, expected) => {
    expect(globMatcher(pattern)(path.split('/'))).toBe(expected);
  });

  it('is fast for patterns that would explode as regular expressions', () => {
    expect(globMatcher('*a'.repeat(90))(['a'.repeat(250) + 'b'])).toBe(false);
    expect(globMatcher('**/'.repeat(60) + 'x')(Array.from({ length: 32 }, () => 'a'))).toBe(false);
    expect(() => globMatcher('{a,b}'.repeat(10))).toThrow(/alternatives/);
  });
});
