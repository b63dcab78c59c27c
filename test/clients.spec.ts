/**
 * Checks docs/clients.md without running a client: its recipes are regions of the files that `npm run test:clients` runs, and its tables
 * name the versions that are installed for it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { TOOL_FORMATS } from '@toolfleet/catalog';
import { CATALOGUE } from '@toolfleet/contracts';
import { callFieldSchemas } from '@toolfleet/contracts/call-fields';
import { RESULT_FORMATS } from '@toolfleet/contracts/resources';
import { describe, expect, it } from 'vitest';
import { COLUMNS, RUNS, type Exchange, type Observed } from './clients/checks.mjs';
import { CLIENTS, countLines, readRecipe, renderRecipes } from './clients/recipes.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGE = readFileSync(`${ROOT}docs/clients.md`, 'utf8');
const { dependencies } = JSON.parse(readFileSync(`${ROOT}test/clients/package.json`, 'utf8')) as {
  dependencies: Record<string, string>;
};
const part = (name: string) => PAGE.split(`<!-- ${name} -->\n`)[1]!.split(`<!-- end of ${name} -->`)[0]!.trim();

describe('docs/clients.md', () => {
  it('has the recipes that are run; after a change: npm run test:clients', () => {
    expect(part('recipes')).toBe(renderRecipes());
  });

  it('has a row without a failure for every client, in the installed version', () => {
    const rows = part('matrix').split('\n\n')[0]!.split('\n').slice(2);
    expect(rows).toHaveLength(Object.keys(CLIENTS).length);
    for (const { packages, python } of Object.values(CLIENTS)) {
      const name = packages[0]!;
      expect(
        rows.filter((row) => row.includes(`\`${name}\` ${python ?? dependencies[name]}`)),
        name,
      ).not.toEqual([]);
    }
    expect(PAGE).not.toContain('**failed**');
    expect(part('nats')).not.toContain('failed');
  });
});

describe('the Python client', () => {
  const source = (name: string) => readFileSync(`${ROOT}clients/python/src/toolfleet/${name}.py`, 'utf8');
  const stringsIn = (text: string, from: string, to: string) =>
    [
      ...text
        .split(from)[1]!
        .split(to)[0]!
        .matchAll(/"([^"]+)"/g),
    ]
      .map(([, value]) => value!)
      .toSorted();

  it('repeats refusals that the catalogue calls retryable', () => {
    const codes = Object.entries(CATALOGUE).filter(([, row]) => row.origin === 'request' && row.retryable);
    expect(stringsIn(source('errors'), 'TRANSIENT_CODES = frozenset(', ')')).toEqual(
      codes.map(([code]) => code).toSorted(),
    );
  });

  it('has the fields of a call, and the formats of lists and results', () => {
    const [, fields] = /class CallFields[^\n]*\n\s+""".*?"""\n\n(.*?)\n\n/s.exec(source('client'))!;
    const named = [...fields!.matchAll(/^ {4}(\w+): /gm)].map(([, name]) => name);
    expect(named.toSorted()).toEqual(
      Object.keys(callFieldSchemas('http'))
        .filter((name) => name !== 'mode')
        .toSorted(),
    );
    expect(stringsIn(source('client'), 'ProviderFormat = Literal[', ']')).toEqual([...RESULT_FORMATS].toSorted());
    expect(stringsIn(source('client'), 'ListFormat = Literal[', ']')).toEqual(
      TOOL_FORMATS.filter((format) => format !== 'native').toSorted(),
    );
  });

  it('has the version and licence of the packages', () => {
    const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
    expect(readFileSync(`${ROOT}clients/python/pyproject.toml`, 'utf8')).toContain(`\nversion = "${version}"\n`);
    expect(readFileSync(`${ROOT}clients/python/LICENSE`, 'utf8')).toBe(readFileSync(`${ROOT}LICENSE`, 'utf8'));
  });
});

describe('recipes', () => {
  it('exist for every client that is run', () => {
    const files = readdirSync(`${ROOT}test/clients/clients`).filter((file) => file.endsWith('.mjs'));
    expect(files.map((file) => file.replace('.mjs', '')).toSorted()).toEqual(Object.keys(CLIENTS).toSorted());
  });

  it.each(Object.keys(CLIENTS))('%s takes at most ten lines', (client) => {
    expect(countLines(client)).toBeGreaterThan(0);
    expect(countLines(client)).toBeLessThanOrEqual(10);
  });

  it('import only packages that they name', () => {
    for (const [client, { packages }] of Object.entries(CLIENTS)) {
      for (const line of readRecipe(client).lines) {
        const from = /^import .* from '(@[\w-]+\/[\w-]+|[\w-]+)/.exec(line)?.[1];
        if (from) expect(packages, client).toContain(from);
      }
    }
  });

  it.each(['ai-sdk', 'openai-agents'])('of examples/%s have the installed versions', (example) => {
    const manifest = readFileSync(`${ROOT}examples/${example}/package.json`, 'utf8');
    const own = (JSON.parse(manifest) as { dependencies: Record<string, string> }).dependencies;
    expect(own).toEqual(Object.fromEntries(Object.keys(own).map((name) => [name, dependencies[name]])));
  });

  it('are installed in exact versions', () => {
    for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe('a cell', () => {
  const call = (more: Partial<Exchange> = {}, _meta = {}): Exchange => ({
    method: 'POST',
    message: { method: 'tools/call', params: { _meta } },
    status: 200,
    answer: '',
    closedEarly: false,
    ...more,
  });
  const observed = (more: Partial<Observed>): Observed => ({
    tools: [],
    shown: [],
    printed: '',
    progress: 0,
    exchanges: [call()],
    ...more,
  });
  const cells = (seen: Observed) => Object.assign({}, ...RUNS.map((run) => run.judge(seen)));
  const refusal = call({ status: 401, answer: '{"hint":"Send a valid key"}' });

  it('has failed where nothing was observed', () => {
    const all = cells(observed({ exchanges: [], error: 'Error: no tools' }));
    expect(Object.keys(all).toSorted()).toEqual(COLUMNS.toSorted());
    expect(Object.values(all)).toEqual(COLUMNS.map(() => expect.objectContaining({ outcome: 'failed' })));
  });

  it.each<[string, string, string, Partial<Observed>]>([
    ['progress', 'passed', 'reports', { shown: ['counted to 8'], progress: 3 }],
    ['progress', 'not offered', 'no token in the call', { shown: ['counted to 8'] }],
    [
      'progress',
      'failed',
      'a token and no report',
      { shown: ['counted to 8'], exchanges: [call({}, { progressToken: 1 })] },
    ],
    ['401', 'passed', 'the hint in the error', { error: 'Error: Send a valid key', exchanges: [refusal] }],
    ['401', 'not offered', 'an error without the hint', { error: 'Error: 401', exchanges: [refusal] }],
    ['401', 'failed', 'a refusal without a hint', { error: 'Error: 401', exchanges: [call({ status: 401 })] }],
    ['cancel', 'passed', 'a call that ended as cancelled', { ended: { code: 'CANCELLED' } }],
    ['cancel', 'not offered', 'a call that goes on, and nothing said', {}],
    ['cancel', 'failed', 'a closed request and a call that goes on', { exchanges: [call({ closedEarly: true })] }],
    [
      'cancel',
      'failed',
      'a call that succeeded after its request was closed',
      { exchanges: [call({ closedEarly: true })], ended: {} },
    ],
  ])('%s: %s with %s', (column, outcome, _what, seen) => {
    expect(cells(observed(seen))[column]).toMatchObject({ outcome });
  });
});
