import { expect, test } from 'vitest';
import { similarNames } from './similar-tools.js';

const NAMES = [
  'calculator',
  'execute_python',
  'get_weather',
  'parcels_getParcel',
  'web_crawl',
  'web_fetch',
  'web_search',
];

test.each<[string, string[]]>([
  ['calculater', ['calculator']],
  ['Calculator', ['calculator']],
  ['web-search', ['web_search']],
  ['search', ['web_search']],
  ['python', ['execute_python']],
  ['get_parcel', ['parcels_getParcel']],
  ['get_weather_forecast', ['get_weather']],
  ['web', ['web_crawl', 'web_fetch', 'web_search']],
  ['send_email', []],
  ['', []],
  ['x'.repeat(5_000), []],
])('%s may mean %j', (wrong, meant) => {
  expect(similarNames(wrong, NAMES)).toEqual(meant);
});
