import { expect, it } from 'vitest';
import { toAddress, parsePlace } from './router.js';

it.each([
  ['', { view: 'tools', item: undefined }],
  ['#/', { view: 'tools', item: undefined }],
  ['#/keys', { view: 'keys', item: undefined }],
  ['#/tools/a%2Fb', { view: 'tools', item: 'a/b' }],
  ['#/tools/%zz', { view: 'tools', item: '%zz' }],
])('%s', (hash, place) => {
  expect(parsePlace(hash)).toEqual(place);
});

it('an address leads to its place', () => {
  expect(parsePlace(toAddress('tools', 'weird name/ü'))).toEqual({ view: 'tools', item: 'weird name/ü' });
});
