import { aTool } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { HISTORY_WEIGHT, ToolRanker } from './rank-tools.js';

const properties = (texts: Record<string, string>) => ({
  type: 'object',
  properties: Object.fromEntries(
    Object.entries(texts).map(([name, description]) => [name, { type: 'string', description }]),
  ),
});
const TOOLS = [
  aTool({
    name: 'web_search',
    description: 'Searches the web and returns the best results',
    category: 'search',
    tags: ['crawler'],
  }),
  aTool({ name: 'calculator', description: 'Evaluates arithmetic expressions', category: 'data' }),
  aTool({ name: 'get_weather', description: 'Current weather of a city', category: 'data', tags: ['weather'] }),
  aTool({ name: 'file_write', description: 'Writes a file of the workspace', category: 'file' }),
  aTool({ name: 'createOrder', description: 'Places an order in the shop', category: 'data' }),
  aTool({
    name: 'listPullRequests',
    description: 'Open changes of a repository',
    category: 'dev',
    input_schema: properties({ reviewer: 'Login of the person who looks at them' }),
  }),
  aTool({
    name: 'fx',
    description: 'Amount in another unit',
    category: 'finance',
    tags: ['currency'],
    input_examples: [{ pair: 'krypton' }],
  }),
];
const ranker = new ToolRanker(TOOLS);
const names = (task: string, ...rest: [limit?: number, evidence?: Parameters<ToolRanker['rank']>[2]]) =>
  ranker.rank(task, rest[0] ?? 3, rest[1]).map(({ name }) => name);

describe('ToolRanker', () => {
  test.each<[string, string, string]>([
    ['words of the description', 'What is the weather like in Berlin?', 'get_weather'],
    ['words of the name', 'please search the web for the latest AI news', 'web_search'],
    ['an expression', 'how much is 17 * 23', 'calculator'],
    ['stems', 'do some calculations', 'calculator'],
    ['related words', 'save this', 'file_write'],
    ['a file name', 'put it into notes.md', 'file_write'],
    ['typos', 'wether in Paris', 'get_weather'],
    ['swapped letters', 'serach', 'web_search'],
    ['the start of a word', 'calc', 'calculator'],
    ['parts of a name', 'create an order for two books', 'createOrder'],
    ['a pair of words', 'merge requests', 'listPullRequests'],
    ['a plural abbreviation', 'PRs of the week', 'listPullRequests'],
    ['arguments', 'reviewer', 'listPullRequests'],
    ['examples', 'krypton', 'fx'],
    ['tags', 'crawler', 'web_search'],
    ['the code of a currency', '20 EUR', 'fx'],
  ])('finds a tool by %s', (_, task, name) => {
    expect(names(task)[0]).toBe(name);
  });

  test('returns nothing for a task without a known word, and at most the requested number', () => {
    expect(names('qqqq zzzz')).toEqual([]);
    expect(names('')).toEqual([]);
    expect(names('17 of the')).toEqual([]);
    expect(names('weather search file order', 2)).toHaveLength(2);
    expect(names('weather', 0)).toEqual([]);
    expect(new ToolRanker([]).rank('weather', 5)).toEqual([]);
  });

  test('does not depend on pauses while the index is built, or on other rankings', async () => {
    const built = await ToolRanker.build(TOOLS);
    const first = ranker.rank('save the weather of the web', 5);
    ranker.rank('order', 5);
    expect(ranker.rank('save the weather of the web', 5)).toEqual(first);
    expect(built.rank('save the weather of the web', 5)).toEqual(first);
  });

  test('history decides between close tools, and adds at most its weight', () => {
    const called = new Map([
      ['fx', 1],
      ['unknown', 1],
    ]);
    expect(names('weather', 3, called)).toEqual(['get_weather', 'fx']);
    expect(ranker.rank('qqqq', 3, called)).toEqual([{ name: 'fx', score: HISTORY_WEIGHT }]);
    expect(ranker.rank('weather', 3, new Map([['fx', 1e9]]))[1]?.score).toBe(HISTORY_WEIGHT);
    expect(names('weather', 3, new Map([['fx', -1]]))[0]).toBe('get_weather');
  });

  test('reads long tasks of arbitrary text in little time', () => {
    const long = `${'x'.repeat(300)}@${'y'.repeat(300)} ${'1+'.repeat(2_000)} ${'a-'.repeat(3_000)}`;
    const started = process.cpuUsage();
    for (let round = 0; round < 20; round += 1) ranker.rank(long, 5);
    expect(process.cpuUsage(started).user / 1_000 / 20).toBeLessThan(100);
  });
});
