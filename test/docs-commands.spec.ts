/**
 * Commands of the documentation. Those of tutorials and of pages with answers are run by `test/e2e/tutorials.spec.ts`; of every page,
 * commands, verbs and options of fleetctl and scripts of npm must exist. Any other block says `not run: <reason>`, or its page is here.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { main } from '../tools/fleetctl/src/main.js';
import { terminalOn } from '../tools/fleetctl/src/terminal.js';
import { isAnswerAsShown, isAsShown, PAGES_WITH_ANSWERS, stepsOf } from './tutorials/run-page.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  ...globSync('docs/**/*.md', { cwd: ROOT }),
  ...globSync('{libs,libs/kits,tools}/*/README.md', { cwd: ROOT }),
].toSorted();
const SCRIPTS = Object.keys((JSON.parse(read('package.json')) as { scripts: Record<string, string> }).scripts);

/** How commands of a page are tested, as a spec or as the reason why they are not run. */
const TESTED: Record<string, string> = {
  'README.md': 'test/e2e/npm-start.spec.ts',
  'CONTRIBUTING.md': 'scripts for developers, which CI runs',
  'docs/clients.md': 'test/clients.spec.ts',
  'docs/nats-api.md': 'test/clients.spec.ts',
  'docs/operations/backup.md': 'test/failure/backup-restore.spec.ts',
  'libs/client/README.md': 'test/e2e/packages.spec.ts',
  'tools/fleetctl/README.md': 'test/e2e/packages.spec.ts',
};
const RUN = new Set([
  ...globSync('docs/tutorials/*.md', { cwd: ROOT }),
  ...PAGES_WITH_ANSWERS.map((name) => `docs/${name}.md`),
]);
const testOf = (page: string): string | undefined => {
  if (TESTED[page]) return TESTED[page];
  if (page.startsWith('docs/runbooks/')) return 'test/runbooks.spec.ts';
  return undefined;
};

/** Command lines of `sh` blocks and of code in sentences, from the word `fleetctl` to their end. */
function fleetctlLines(text: string): string[] {
  const blocks = stepsIn(text).flatMap((commands) => commands.replaceAll('\\\n', ' ').split('\n'));
  const inline = [...text.replaceAll(/^```[^]*?^```/gm, '').matchAll(/`([^`\n]*)`/g)].map(([, code]) => code!);
  return [...blocks, ...inline]
    .map((line) => line.split(/\s#\s/)[0]!.replaceAll(/'[^']*'|"[^"]*"/g, 'text'))
    .flatMap((line) =>
      [...line.matchAll(/(?:^|npx |[|(;&] ?)fleetctl ([a-z][^|)>&;]*)/g)].map(([, words]) => words!.trim()),
    );
}

const stepsIn = (text: string): string[] =>
  [...text.matchAll(/^ *```sh\b.*\n([^]*?)^ *```$/gm)].map(([, commands]) => commands!);

/** What `fleetctl <words> --help` prints; undefined for an unknown command. */
async function helpOf(words: readonly string[]): Promise<string | undefined> {
  let printed = '';
  const terminal = terminalOn({
    out: (data) => (printed += String(data)),
    error: () => {},
    readInput: () => Promise.resolve(''),
  });
  const code = await main([...words, '--help'], terminal, { env: {}, cwd: ROOT });
  return code === 0 ? printed : undefined;
}

/** What is wrong with a command line; undefined if nothing is. */
async function faultOf(line: string): Promise<string | undefined> {
  const words = line.split(/\s+/);
  const name = ['user', 'tool'].includes(words[0]!) ? words.slice(0, 2) : words.slice(0, 1);
  if (name[0] === 'help' || name[0]!.startsWith('-')) return undefined;
  const help = await helpOf(name);
  if (help === undefined) return `fleetctl ${name.join(' ')}: unknown command`;
  const verb = words[name.length];
  const verbs = [...help.matchAll(new RegExp(`^  fleetctl ${name.join(' ')} \\[?([a-z]+)`, 'gm'))].map(
    ([, each]) => each!,
  );
  if (
    verb &&
    /^[a-z]+$/.test(verb) &&
    verbs.length > 1 &&
    !verbs.some((each) => each === verb) &&
    !help.includes(`|${verb}`)
  )
    return `fleetctl ${name.join(' ')} ${verb}: unknown verb`;
  if (name[0] === 'call') return undefined;
  const unknown = [...line.matchAll(/\s(--[a-z][a-z-]*)/g)]
    .map(([, option]) => option!)
    .filter((option) => !help.includes(option));
  return unknown.length > 0 ? `fleetctl ${line}: unknown ${unknown.join(', ')}` : undefined;
}

describe('commands of the documentation', () => {
  it.each(PAGES.filter((page) => stepsIn(read(page)).length > 0))('%s: is run, or says why not', (page) => {
    const test = testOf(page);
    if (test !== undefined) {
      if (test.endsWith('.ts')) expect(existsSync(join(ROOT, test))).toBe(true);
      return;
    }
    const steps = stepsOf(read(page));
    expect(steps.length).toBe(stepsIn(read(page)).length);
    if (RUN.has(page)) return;
    expect(steps.filter(({ skipped }) => skipped === undefined).map(({ commands }) => commands)).toEqual([]);
  });

  it('uses commands, verbs and options that fleetctl has', async () => {
    const lines = PAGES.flatMap((page) => fleetctlLines(read(page)).map((line) => ({ page, line })));
    expect(lines.length).toBeGreaterThan(100);
    const faults: string[] = [];
    for (const { page, line } of lines) {
      const fault = await faultOf(line);
      if (fault) faults.push(`${page}: ${fault}`);
    }
    expect(faults).toEqual([]);
  });

  it.each([
    ['keyz create x', 'unknown command'],
    ['keys invent x', 'unknown verb'],
    ['keys create x --colour red', 'unknown --colour'],
  ])('finds the mistake in: fleetctl %s', async (line, fault) => {
    expect(await faultOf(line)).toContain(fault);
  });

  it('runs scripts of npm that exist', () => {
    const named = PAGES.flatMap((page) =>
      stepsIn(read(page)).flatMap((text) =>
        [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map((match) => `${page}: ${match[1]}`),
      ),
    );
    expect(named.filter((name) => !SCRIPTS.includes(name.split(': ')[1]!))).toEqual([]);
  });
});

it('the site has every page of the documentation once', async () => {
  const { PAGES: onSite } = (await import(pathToFileURL(join(ROOT, 'site/.vitepress/pages.mjs')).href)) as {
    PAGES: string[];
  };
  const documents = globSync('docs/**/*.md', { cwd: ROOT });
  expect(onSite.filter((page) => page.startsWith('docs/')).toSorted()).toEqual(documents.toSorted());
});

describe('the runner of pages', () => {
  it('reads blocks, their words and what they print', () => {
    const page = 'a\n\n```sh until exits 4\nx\n```\n\nb\n\n```text\ny\n```\n\n```sh not run: no cluster\nz\n```\n';
    expect(stepsOf(page)).toEqual([
      { line: 4, commands: 'x\n', expected: 'y\n', isJson: false, exits: 4, until: true, skipped: undefined },
      { line: 14, commands: 'z\n', expected: undefined, isJson: false, exits: 0, until: false, skipped: 'no cluster' },
    ]);
    expect(() => stepsOf('```sh perhaps\nx\n```\n')).toThrow('unknown words "perhaps"');
    expect(() => stepsOf('```sh not run:\nx\n```\n')).toThrow('unknown words');
  });

  it.each([
    ['a  1\n', 'a 1', true],
    ['a 12 b\n', 'a … b', true],
    ['a\nb\nc\nd\n', 'a\n…\nd', true],
    ['a\nd\n', 'a\n…\nd', true],
    ['a\nb\n', 'a', false],
    ['a.c', 'a.c', true],
    ['abc', 'a.c', false],
    ['', 'a', false],
  ])('%j as %j: %s', (printed, expected, same) => {
    expect(isAsShown(printed, expected)).toBe(same);
  });

  it.each([
    ['{"a": 1, "b": [1, {"c": "x-1"}]}', '{"b": [1, {"c": "x-…"}], "a": "…"}', true],
    ['{"a": 1, "b": 2}', '{"a": 1}', false],
    ['{"a": 1, "b": 2}', '{"a": 1, "…": "…"}', true],
    ['{"b": 2}', '{"a": "…", "…": "…"}', false],
    ['[1, 2]', '[1]', false],
    ['[1]', '{"0": 1}', false],
    ['{"a": "xy"}', '{"a": "x"}', false],
    ['no JSON', '"…"', false],
  ])('the answer %s as %s: %s', (printed, expected, same) => {
    expect(isAnswerAsShown(printed, expected)).toBe(same);
  });
});
