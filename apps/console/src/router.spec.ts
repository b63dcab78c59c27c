import { expect, it } from 'vitest';
import { parsePlace, toAddress, toFilteredAddress } from './router.js';

it.each([
  ['', { view: '', item: undefined, detail: undefined, filter: {} }],
  ['#/', { view: '', item: undefined, detail: undefined, filter: {} }],
  ['#/keys', { view: 'keys', item: undefined, detail: undefined, filter: {} }],
  ['#/tools/a%2Fb', { view: 'tools', item: 'a/b', detail: undefined, filter: {} }],
  ['#/tools/%zz', { view: 'tools', item: '%zz', detail: undefined, filter: {} }],
  ['#/tools/a/b', { view: 'tools', item: 'a', detail: 'b', filter: {} }],
  ['#/calls?tool=a%26b&status=', { view: 'calls', item: undefined, detail: undefined, filter: { tool: 'a&b' } }],
])('%s', (hash, place) => {
  expect(parsePlace(hash)).toEqual(place);
});

it('an address leads to its place', () => {
  const place = { view: 'tools', item: 'weird name/ü', detail: 'a/b', filter: {} };
  expect(parsePlace(toAddress('tools', 'weird name/ü', 'a/b'))).toEqual(place);
  expect(toAddress('tools', 'a', undefined)).toBe('#/tools/a');
});

it('an address keeps a filter', () => {
  const address = toFilteredAddress('calls', { tool: 'a&b ü', id: '', code: undefined });
  expect(parsePlace(address)).toMatchObject({ view: 'calls', filter: { tool: 'a&b ü' } });
  expect(toFilteredAddress('calls', { id: '' })).toBe('#/calls');
});
