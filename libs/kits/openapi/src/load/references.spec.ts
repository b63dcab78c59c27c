import { describe, expect, it } from 'vitest';
import { RefResolver } from './references.js';

const root = {
  'a/b': { 'c~d': 1 },
  'x y': [10, { $anchor: 'here' }],
  '%41': 'literal',
  loop: { $ref: '#/loop2' },
  loop2: { $ref: '#/loop' },
  away: { $ref: 'other.yaml#/a' },
  lost: { $ref: '#/nowhere' },
  target: { found: true },
  chain: { $ref: '#/target' },
};

describe('RefResolver', () => {
  const refs = new RefResolver(root);

  it.each([
    ['#/a~1b/c~0d', 1],
    ['#/a%7E1b/c%7e0d', 1],
    ['#/x%20y/0', 10],
    ['#/x y/1', { $anchor: 'here' }],
    ['#here', { $anchor: 'here' }],
    ['#/%41', 'literal'],
    ['#/x%20y/00', undefined],
    ['#/constructor', undefined],
    ['#/a~1b/toString', undefined],
    ['#/%zz', undefined],
    ['#nobody', undefined],
  ])('%s', (ref, value) => expect(refs.locate(ref)?.node).toEqual(value));

  it('gives one pointer to one target, however it is spelt', () => {
    expect(refs.locate('#/x%20y/1')?.pointer).toBe(refs.locate('#here')?.pointer);
  });

  it('follows chains and names what ends them', () => {
    expect(refs.follow(root.chain, '/chain')).toEqual({ node: { found: true }, pointer: '/target' });
    expect(refs.follow(root.loop, '/loop')).toMatchObject({ failed: 'cycle' });
    expect(refs.follow(root.away, '/away')).toEqual({ failed: 'external', ref: 'other.yaml#/a' });
    expect(refs.follow(root.lost, '/lost')).toMatchObject({ failed: 'dangling' });
    expect(refs.follow(3, '/n')).toMatchObject({ failed: 'not_object' });
  });
});
