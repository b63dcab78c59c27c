import { expect, it } from 'vitest';
import { toAddress, parsePlace } from './router.js';

it.each([
  ['', { view: 'tools', item: undefined, detail: undefined }],
  ['#/', { view: 'tools', item: undefined, detail: undefined }],
  ['#/keys', { view: 'keys', item: undefined, detail: undefined }],
  ['#/tools/a%2Fb', { view: 'tools', item: 'a/b', detail: undefined }],
  ['#/tools/%zz', { view: 'tools', item: '%zz', detail: undefined }],
  ['#/tools/a/b', { view: 'tools', item: 'a', detail: 'b' }],
])('%s', (hash, place) => {
  expect(parsePlace(hash)).toEqual(place);
});

it('an address leads to its place', () => {
  const place = { view: 'tools', item: 'weird name/ü', detail: 'a/b' };
  expect(parsePlace(toAddress('tools', 'weird name/ü', 'a/b'))).toEqual(place);
  expect(toAddress('tools', 'a', undefined)).toBe('#/tools/a');
});
