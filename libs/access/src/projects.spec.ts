import type { Principal } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { Projects } from './projects.js';

const key = (projects?: string[]): Principal => ({
  tenantId: 'acme',
  userId: 'ann',
  roles: [],
  tools: ['*'],
  via: 'api_key',
  projects,
});
const agent = (parentProject?: { id: string; create: boolean }): Principal => ({
  ...key(),
  via: 'delegation',
  parentProject,
});
const none = new Projects();
const withDefaults = new Projects(
  new Map([
    ['acme', 'main'],
    ['*', 'other'],
  ]),
);

describe('the project of a call', () => {
  it.each([
    ['no project at all', none, key(), 'public', undefined, {}],
    [
      'the first id of the key',
      none,
      key(['web-*', 'shop', 'blog']),
      'public',
      undefined,
      { project_id: 'shop', create_project: true },
    ],
    [
      'a named id of the key',
      none,
      key(['shop', 'blog']),
      'public',
      'blog',
      { project_id: 'blog', create_project: true },
    ],
    [
      'a named project that a glob of the key covers',
      none,
      key(['web-*']),
      'public',
      'web-1',
      { project_id: 'web-1', create_project: false },
    ],
    ['no project if the key has globs only', none, key(['web-*']), 'public', undefined, {}],
    [
      'the default of the tenant',
      withDefaults,
      key(),
      'public',
      undefined,
      { project_id: 'main', create_project: true },
    ],
    [
      'the default of other tenants',
      withDefaults,
      { ...key(), tenantId: 'globex' },
      'public',
      undefined,
      { project_id: 'other', create_project: true },
    ],
    [
      'the named default of the tenant',
      withDefaults,
      key(['shop']),
      'public',
      'main',
      { project_id: 'main', create_project: true },
    ],
    [
      'the key before the default',
      withDefaults,
      key(['shop']),
      'public',
      undefined,
      { project_id: 'shop', create_project: true },
    ],
    ['any project an internal caller names', none, key(), 'internal', 'x', { project_id: 'x', create_project: false }],
    [
      'the project of the call an agent works for',
      withDefaults,
      agent({ id: 'p', create: false }),
      'public',
      undefined,
      { project_id: 'p', create_project: false },
    ],
    ['no default for an agent whose call has no project', withDefaults, agent(), 'public', undefined, {}],
  ] as const)('is %s', (_what, projects, principal, origin, id, expected) => {
    expect(projects.choose(principal, origin, { id })).toEqual(expected);
  });

  it('may be created by an internal caller that asks for it, within its key', () => {
    expect(none.choose(key(), 'internal', { id: 'new', create: true })).toEqual({
      project_id: 'new',
      create_project: true,
    });
    expect(none.choose(key(['web-*']), 'internal', { id: 'web-2', create: true })).toMatchObject({
      create_project: true,
    });
  });

  it.each([
    ['a public caller whose key lists none', none, key(), 'public', 'shop'],
    ['a public caller whose key lists others', none, key(['blog', 'web-*']), 'public', 'shop'],
    ['a public caller, of another tenant', withDefaults, key(), 'public', 'other'],
    ['an internal caller whose key lists others', none, key(['blog']), 'internal', 'shop'],
    ['an agent of a public call', none, agent({ id: 'p', create: true }), 'public', 'shop'],
    ['an agent of an internal call', none, agent(), 'internal', 'shop'],
  ] as const)('is refused to %s', (_who, projects, principal, origin, id) => {
    expect(() => projects.choose(principal, origin, { id })).toThrow(`This credential may not use project '${id}'`);
  });

  it('must be a valid id', () => {
    for (const id of ['', 'a\nb', 'x'.repeat(256)])
      expect(() => none.choose(key(['*']), 'public', { id })).toThrow(/1 to 255 characters/);
  });
});
