import type { Json } from '@toolfleet/base';
import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, type SpecGuest } from '../../spec/guest.js';
import { makeWheel, type WheelPlan } from '../../spec/wheel.js';
import { filesBelow } from '../wasi/file-tree.js';
import { packageCheck } from './package-programs.js';
import { isPure, joinedTree, packageTree, readPackage, wheelTags } from './python-package.js';

const read = (plan: Partial<WheelPlan> & { name: string }, tenants?: string[]) => {
  const whole: WheelPlan = { version: '1.0', files: { 'm.py': 'x = 1' }, ...plan };
  return { ...readPackage(plan.name, whole.version, makeWheel(whole).wheel), tenants };
};
const SIX = { name: 'six', version: '1.16.0' };

it.each<[string, string | undefined]>([
  ['six-1.17.0-py2.py3-none-any.whl', 'py2.py3-none-any'],
  ['six-1.17.0-1build-py3-none-any.whl', 'py3-none-any'],
  ['six-1.16.0-py3-none-any.whl', undefined],
  ['sixth-1.17.0-py3-none-any.whl', undefined],
  ['six-1.17.0.tar.gz', undefined],
])('the file %s is the wheel of six 1.17.0 with the tags %s', (file, tags) => {
  expect(wheelTags(file, 'six', '1.17.0')).toBe(tags);
});

it.each([
  ['py3-none-any', true],
  ['py2.py3-none-any', true],
  ['py312-none-any', true],
  ['py2-none-any', false],
  ['cp312-cp312-manylinux_2_17_x86_64', false],
  ['py3-none-manylinux1_x86_64', false],
])('tags %s are of pure Python: %j', (tags, expected) => {
  expect(isPure(tags)).toBe(expected);
});

it.each<[string, Partial<WheelPlan>, string]>([
  ['native tags', { tag: 'cp312-cp312-linux_x86_64' }, 'a 1.0 has native code (cp312-cp312-linux_x86_64), which'],
  ['a native file', { files: { 'a/_fast.so': '' } }, 'a 1.0 has native code (a/_fast.so), which'],
  ['another name', { name: 'b' }, 'a 1.0 is the wheel of b 1.0'],
  ['another version', { version: '2.0' }, 'a 1.0 is the wheel of a 2.0'],
  ['a path outside', { files: { '../m.py': '' } }, 'a 1.0 is not a wheel that can be read: its path'],
])('a wheel with %s is refused', (_what, plan, message) => {
  const { wheel } = makeWheel({ name: 'a', version: '1.0', files: {}, ...plan });
  expect(() => readPackage('a', '1.0', wheel)).toThrow(message);
});

it('a file that is not a wheel is refused', () => {
  expect(() => readPackage('a', '1.0', Buffer.alloc(100))).toThrow('a 1.0 is not a wheel that can be read: it is not');
});

describe('requirements, as the interpreter checks them', () => {
  let guest: SpecGuest;
  beforeAll(() => {
    guest = bootGuest();
  });
  /** The value of an expression over the functions of the check. */
  const valueOf = (expression: string, args: Json) =>
    guest.run(packageCheck([]).code.replace('list(faults(args))', expression), { args }).value;

  it.each<[string, Parameters<typeof read>[], string | undefined]>([
    ['that are met', [[{ name: 'b', requires: ['six>=1.5', 'gone; python_version<"3"'] }], [SIX]], undefined],
    [
      'that are missing',
      [[{ name: 'jinja2', requires: ['MarkupSafe>=2.0'] }]],
      'jinja2 1.0 requires markupsafe >=2.0, which python_packages lacks',
    ],
    [
      'of another version',
      [[{ name: 'b', requires: ['six (>=1.17)'] }], [SIX]],
      'b 1.0 requires six >=1.17; python_packages has 1.16.0',
    ],
    [
      'for fewer tenants',
      [[{ name: 'b', requires: ['six'] }], [SIX, ['acme']]],
      'b 1.0 requires six, which is for fewer tenants',
    ],
    [
      'for some of the tenants',
      [
        [{ name: 'b', requires: ['six'] }, ['acme', 'x']],
        [SIX, ['acme']],
      ],
      'b 1.0 requires six, which is for fewer tenants',
    ],
    [
      'for the same tenant',
      [
        [{ name: 'b', requires: ['six'] }, ['acme']],
        [SIX, ['acme', 'globex']],
      ],
      undefined,
    ],
    [
      'of another Python',
      [[{ name: 'b', requiresPython: '>=3.99' }]],
      'b 1.0 requires Python >=3.99; the interpreter is 3.',
    ],
    [
      'of an extra',
      [[{ name: 'b', requires: ['six[fast]'] }], [{ ...SIX, requires: ['c; extra == "fast"'] }]],
      'six 1.16.0 requires c, which python_packages lacks',
    ],
    ['in a circle', [[{ name: 'b', requires: ['six'] }], [{ ...SIX, requires: ['b'] }]], undefined],
    ['that cannot be read', [[{ name: 'b', requires: ['?'] }]], 'b 1.0 has a requirement that cannot be read: ?'],
    ['by address', [[{ name: 'b', requires: ['c @ https://c'] }]], 'b 1.0 has a requirement that cannot be read: c @'],
    [
      'with a bad marker',
      [[{ name: 'b', requires: ['six; os'] }], [SIX]],
      'b 1.0 has a requirement that cannot be read: six; os',
    ],
    ['of a garbled Python', [[{ name: 'b', requiresPython: 'new' }]], 'b 1.0 has metadata that cannot be read'],
  ])('%s', (_what, plans, message) => {
    const { code, args } = packageCheck(plans.map((plan) => read(...plan)));
    const { value, error } = guest.run(code, { args });
    const expected = message === undefined ? [] : [expect.stringContaining(message)];
    expect(value, JSON.stringify(error)).toEqual(expected);
  });

  it('compare versions as PEP 440 says', () => {
    const rows: [string, string, boolean][] = [
      ['1.3.0', '<1.4,>=1.1.0', true],
      ['1.4.1', '<1.4,>=1.1.0', false],
      ['3.12.0', '>=2.7, !=3.0.*, !=3.1.*', true],
      ['3.1.4', '!=3.1.*', false],
      ['1.0', '==1.0.0', true],
      ['1.10', '>1.9', true],
      ['2.9.0.post0', '>=2.9', true],
      ['2.9.0.post0', '>2.9', false],
      ['2.0rc1', '<2.0', false],
      ['2.0rc1', '<2.0rc2', true],
      ['1.0.dev1', '<1.0a1', true],
      ['2.2.9', '~=2.2.3', true],
      ['2.3.0', '~=2.2.3', false],
      ['2.9', '~=2.2', true],
      ['1.0', '===1.0.0', false],
      ['1!1.0', '>2.0', true],
      ['anything', '', true],
    ];
    expect(
      valueOf(
        '[[*row, meets(*row)] for row in args]',
        rows.map(([version, specifier]) => [version, specifier]),
      ),
    ).toEqual(rows);
  });

  it('evaluate markers', () => {
    const rows: [string, boolean][] = [
      ['python_version < "3.9"', false],
      ['python_version >= "3.9" and sys_platform != "win32"', true],
      ['extra == "dev"', false],
      ["sys_platform == 'win32' or (python_version > '3' and extra == '')", true],
      ['python_version == "3.*"', true],
      ['"was" in sys_platform', true],
      ['sys_platform not in "linux darwin"', true],
    ];
    expect(
      valueOf(
        '[[row, holds(row, "")] for row in args]',
        rows.map(([marker]) => marker),
      ),
    ).toEqual(rows);
  });
});

it('packages of a run share folders, and none changes the tree of another run', () => {
  const trees = [
    read({ name: 'a', files: { 'ns/a.py': 'A', 'a-1.0.data/purelib/extra.py': 'E', 'a-1.0.data/scripts/s': 'S' } }),
    read({ name: 'b', files: { 'ns/b.py': 'B' } }),
  ].map(packageTree);
  const before = [...filesBelow(trees[0]!)].length;
  const paths = [...filesBelow(joinedTree(trees))].map(([path]) => path).filter((path) => path.endsWith('.py'));
  expect(paths.toSorted()).toEqual(['extra.py', 'ns/a.py', 'ns/b.py']);
  expect([...filesBelow(trees[0]!)]).toHaveLength(before);
});
