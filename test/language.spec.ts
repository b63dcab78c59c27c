/**
 * What people read (comments, messages, titles of tests, documents) is plain English: none of the phrases that reviews found
 * again and again (`tools/phrases.mjs`). The test names the line and what to write instead.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { countHabits, findPhrases, HABITS, type Habit } from '../tools/phrases.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TEXT = /\.(ts|tsx|mjs|js|md|ya?ml|sh|py|lua|conf|toml|rego|css|html)$/;
/** The patterns themselves, the history, and texts of others: test data and their expectations. */
const SKIPPED = /^(tools\/phrases\.mjs|test\/language\.spec\.ts|CHANGELOG\.md|test\/data\/|test\/load\/results\/)/;

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((path) => TEXT.test(path) && !SKIPPED.test(path) && existsSync(join(ROOT, path)));

describe('language', () => {
  it('has none of the phrases that read like a translation', () => {
    const found = files.flatMap((path) =>
      findPhrases(path, readFileSync(join(ROOT, path), 'utf8')).map(
        ({ line, phrase, advice }) => `${path}:${line}: "${phrase}"; write ${advice}`,
      ),
    );
    expect(found).toEqual([]);
  });

  describe.each([
    ['comments', /\.(ts|tsx|mjs|js)$/],
    ['documents', /\.md$/],
  ])('10,000 words of %s', (_, kind) => {
    const counts = files
      .filter((path) => kind.test(path))
      .map((path) => countHabits(path, readFileSync(join(ROOT, path), 'utf8')));
    const sum = (key: Habit | 'words') => counts.reduce((total, count) => total + count[key], 0);

    it.each(Object.keys(HABITS) as Habit[])('have few %s', (habit) => {
      expect((10_000 * sum(habit)) / sum('words')).toBeLessThanOrEqual(HABITS[habit].limit);
    });
  });

  it.each([
    ['x.ts', '/** What the caller sent, which is kept. */\nconst a = "those of";\n', { words: 7, clauses: 2 }],
    ['x.ts', '/**\n * A call whose\n * key is that\n * of a user.\n */\n', { words: 9, clauses: 2 }],
    ['x.md', 'Ask which of them.\n\n```sh\n# whose\n```\n', { words: 4, clauses: 0 }],
    ['x.ts', '/** Longest wait of its own. */\n', { words: 5, superlatives: 1, 'their own': 1 }],
    ['x.md', 'Most of them have the longest names.\n', { superlatives: 1, 'their own': 0 }],
  ])('counts habits in %s: %s', (path, text, counts) => {
    expect(countHabits(path, text)).toMatchObject(counts);
  });

  it.each([
    ['a comment', 'x.ts', '/** Nobody reads it. */\nconst a = 1;\n', 1],
    ['a message', 'x.ts', "const a = 1;\nthrow new Error('The store is away');\n", 2],
    ['a document', 'x.md', '# Title\n\nWhoever asks gets it.\n', 3],
    ['a comment of a script', 'x.lua', 'local a = 1\n-- Kept for ever.\n', 2],
    ['two lines of a comment', 'x.ts', '/**\n * A name that is no\n * identifier.\n */\nconst a = 1;\n', 3],
    ['a template', 'x.ts', 'const a = `${name} is no ${kind}`;\n', 1],
  ])('finds a phrase in %s', (_, path, text, line) => {
    expect(findPhrases(path, text)).toMatchObject([{ line }]);
  });

  it.each([
    'This is no attribute.',
    'names that are no identifiers',
    'it was no `Error`',
    'is no tool, on no path',
    'a variable that is none of its settings',
  ])('refuses "no" as a negated predicate: %s', (text) => {
    expect(findPhrases('x.md', text)).toHaveLength(1);
  });

  it.each([
    'The key is no longer valid.',
    'There is no limit, and there are no errors.',
    'When there\nis no limit, there\nare none of these errors.',
    'While it is slow, there is no\nanswer.',
    'It is no\nlonger valid.',
    'These are no different: there is no need, and it is no faster than before.',
    'The tool has no schema and needs no network.',
    'It is not an attribute. The default is none.',
  ])('accepts: %s', (text) => {
    expect(findPhrases('x.md', text)).toEqual([]);
  });

  it('leaves code alone', () => {
    expect(findPhrases('x.ts', "const beside = call.door; // `door` of a call\nf('nobody');\n")).toEqual([]);
    expect(findPhrases('x.md', 'Use `input.door`.\n\n```rego\n# beside\n```\n')).toEqual([]);
  });
});
