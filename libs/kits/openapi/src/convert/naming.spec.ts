import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toolNames, type Nameable } from './naming.js';

const operation = (operationId: string | undefined, path = '/p', method = 'GET'): Nameable => ({
  ...(operationId === undefined ? {} : { operationId }),
  method,
  path,
});

describe('toolNames', () => {
  it.each([
    [[operation('listPets')], ['listPets']],
    [[operation('repos/get')], ['repos_get']],
    [[operation(undefined, '/users/{id}/posts')], ['get_users_id_posts']],
    [[operation('_private-1')], ['_private-1']],
    [
      [operation('a', '/1'), operation('a', '/2'), operation('a_2', '/3')],
      ['a', 'a_3', 'a_2'],
    ],
    [
      [operation('a/b', '/1'), operation('a/b', '/2')],
      ['a_b', 'a_b_2'],
    ],
    [[operation('日本', '/1')], ['get_1']],
    [[operation('获取用户v2', '/1')], ['v2']],
  ])('%j', (operations, names) => expect(toolNames(operations)).toEqual(names));

  it('leaves a legal name alone and marks the changed one that meets it, in any order', () => {
    const legal = operation('a_b', '/1');
    const changed = operation('a b', '/2');
    const [kept, marked] = toolNames([legal, changed]);
    expect(kept).toBe('a_b');
    expect(marked).toMatch(/^a_b_[0-9a-f]{6}$/);
    expect(toolNames([changed, legal])).toEqual([marked, kept]);
  });

  it('cuts long names to 57 characters and a hash', () => {
    const [name] = toolNames([operation('x'.repeat(80))]);
    expect(name).toMatch(/^x{57}_[0-9a-f]{6}$/);
  });

  it('puts a prefix before every name', () => {
    expect(toolNames([operation('get'), operation('get')], 'gh_')).toEqual(['gh_get', 'gh_get_2']);
  });

  it('gives legal and unique names for any operations', () => {
    const id = fc.option(fc.oneof(fc.string({ maxLength: 90 }), fc.constantFrom('a', 'a_2', 'a b', 'a/b')), {
      nil: undefined,
    });
    const operations = fc.uniqueArray(fc.record({ id, path: fc.string({ maxLength: 8 }) }), {
      selector: (item) => item.path,
    });
    fc.assert(
      fc.property(operations, (items) => {
        const names = toolNames(items.map((item) => operation(item.id, `/${item.path}`)));
        expect(new Set(names).size).toBe(items.length);
        for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      }),
    );
  });
});
