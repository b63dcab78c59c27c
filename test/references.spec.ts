/**
 * A clone is complete: nothing in it refers to a file that is not in it, nor to a numbered rule of a document that is not.
 * Every rule is a function of one file, so that each is also shown to catch a planted fault.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'coverage', 'package-lock.json', 'results']);
const TEXT = /\.(ts|tsx|mjs|js|md|ya?ml|json|rego|conf|template|sh|py|lua|toml|css|html)$|Dockerfile|^\.[a-z]+$/;

interface TextFile {
  /** Path from the repository root, with `/`. */
  path: string;
  text: string;
}

function files(): TextFile[] {
  const found: TextFile[] = [];
  const walk = (dir: string) => {
    for (const entry of readdirSync(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name);
      if (SKIPPED.has(entry.name) || (dir === ROOT && /^\.(git|nx|toolfleet|secrets)$/.test(entry.name))) continue;
      if (entry.isDirectory()) walk(path);
      else if (TEXT.test(entry.name) && statSync(path).size < 1_000_000)
        found.push({ path: relative(ROOT, path), text: readFileSync(path, 'utf8') });
    }
  };
  walk(ROOT);
  return found.filter(({ path }) => path !== 'test/references.spec.ts');
}

/** What comments say, line by line; of a document everything. */
function comments({ path, text }: TextFile): string[] {
  const lines = text.split('\n');
  if (path.endsWith('.md')) return lines;
  return path.endsWith('.json') ? [] : lines.flatMap((line) => /(?:^|\s)(?:\/\/|\/?\*+|#)\s.*/.exec(line)?.[0] ?? []);
}

/** Comments, titles of tests and help texts. */
function prose(file: TextFile): string[] {
  const titles = /\b(describe|it|test)\b.*\(|^\s*\]\)\('|\b(help|description):/;
  const titled = /\.tsx?$/.test(file.path) ? file.text.split('\n').filter((line) => titles.test(line)) : [];
  return [...comments(file), ...titled];
}

const matching =
  (pattern: RegExp, linesOf = prose) =>
  (file: TextFile): string[] =>
    linesOf(file)
      .filter((line) => pattern.test(line))
      .map((line) => `${file.path}: ${line.trim()}`);

const everyLine = ({ text }: TextFile) => text.split('\n');
const exists = (...parts: string[]) => existsSync(join(ROOT, ...parts));
const documents = new Set(
  ['.', 'docs', 'docs/decisions', 'docs/runbooks'].flatMap((dir) =>
    readdirSync(join(ROOT, dir)).filter((name) => name.endsWith('.md')),
  ),
);

const RULES: Record<string, (file: TextFile) => string[]> = {
  'nothing outside the clone': matching(/\.\.\/shared\b|\bshared\/(data|seeds|spec|design)\b/, everyLine),
  // Ids such as A22, K!22 or [!3] of a list elsewhere. I32 and the like are WebAssembly's types, L01 to L48 rules of tools/deploy.
  'no numbered rules of lists elsewhere': matching(
    /\bK!\d|\[!\d+\]|(?<![\w.-])(?!(I32|I64|F32|F64)\b)[A-J]\d{2}(?![\w.-])|\bseeds? #?0\d\d|\brules? \d+(?![\d.])/,
  ),
  'no other lists of requirements': matching(/\bchecklist\b(?! of)|\bshannon-compat\b|\bas designed\b|\bdevset\b/i),
  // Headings of our documents have no numbers.
  'no numbered sections of documents': matching(/\.md\b,? (?:§|sections? )\d/),
  'documents that are named exist': (file) =>
    comments(file).flatMap((line) =>
      [...line.matchAll(/(?<![\w*<}/.-])((?:[\w-]+\/|\.\.?\/)*[\w-]+\.md)\b/g)]
        .map((match) => match[1]!)
        .filter((name) => !exists(dirname(file.path), name) && !exists(name) && !documents.has(name))
        .map((name) => `${file.path}: ${name}`),
    ),
  'links of documents resolve': (file) =>
    !file.path.endsWith('.md')
      ? []
      : [...file.text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g)]
          .map((match) => match[1]!)
          .filter((target) => !exists(dirname(file.path), target))
          .map((target) => `${file.path}: ${target}`),
  'paths of sources that are named exist': (file) =>
    comments(file).flatMap((line) =>
      [
        ...line.matchAll(
          /(?<![\w./@{*-])((?:apps|libs|tools|test|docs|deploy)\/[\w./-]+\.(?:ts|tsx|mjs|md|ya?ml|json|rego))\b(?![*{])/g,
        ),
      ]
        .map((match) => match[1]!)
        .filter((path) => !exists(path))
        .map((path) => `${file.path}: ${path}`),
    ),
};

describe('references', () => {
  const all = files();
  it('reads the repository', () => expect(all.length).toBeGreaterThan(1_000));

  for (const [name, rule] of Object.entries(RULES)) {
    it(name, () => expect(all.flatMap(rule)).toEqual([]));
  }

  it.each([
    ['nothing outside the clone', 'libs/a.ts', "const FILE = resolve('../../../shared/data/x.json');"],
    ['no numbered rules of lists elsewhere', 'libs/a.ts', '/** Refused (A22). */'],
    ['no numbered rules of lists elsewhere', 'libs/a.ts', '// as K!5 says'],
    ['no numbered rules of lists elsewhere', 'libs/a.spec.ts', "it('follows rules 1-6', () => {"],
    ['no other lists of requirements', 'docs/a.md', 'Every default of the checklist.'],
    ['no numbered sections of documents', 'libs/a.ts', '// refused (openapi.md section 9)'],
    ['documents that are named exist', 'libs/a.ts', '// see house.md section 3'],
    ['links of documents resolve', 'docs/a.md', 'See [this](nowhere/at-all.txt).'],
    ['paths of sources that are named exist', 'docs/a.md', 'Read libs/engine/src/nowhere.ts.'],
  ])('%s: catches a planted fault', (rule, path, text) => {
    expect(RULES[rule]!({ path, text })).toHaveLength(1);
  });
});
