/**
 * Specs of a worker share their modules, so a variable that a hook sets still has the value of the last file while the tests of the next
 * one are collected. A table of `it.each` that reads it passes after another file and fails in the first: these are found here, all
 * other dependencies between files by `npm run test:isolated`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'vite';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Node of the syntax tree (ESTree, with the nodes of TypeScript). */
interface Node {
  type: string;
  start: number;
  [field: string]: unknown;
}
type Sources = ReadonlyMap<string, string>;

/** Variables of a module without a value, of which `exported` ones can be imported. */
function unset(text: string, exported = false): string[] {
  const pattern = exported ? /^export let (\w+)(?:: [^=\n]+)?;/gm : /^(?:export )?let (\w+)(?:: [^=\n]+)?;/gm;
  return [...text.matchAll(pattern)].map(([, name]) => name!);
}

/** Variables of a module and of its relative imports that have no value before a hook has run. */
function unsetIn(path: string, sources: Sources): Set<string> {
  const text = sources.get(path)!;
  const imported = [...text.matchAll(/^import \{([^}]*)\} from '(\.[^']+)\.js';/gm)].flatMap(([, names, module]) => {
    const variables = unset(sources.get(`${join(path, '..', module!)}.ts`) ?? '', true);
    return names!.split(',').flatMap((name) => {
      const [variable = '', local = variable] = name.trim().split(' as ');
      return variables.includes(variable) ? [local] : [];
    });
  });
  return new Set([...unset(text), ...imported]);
}

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression', 'ClassBody']);

/** Name at the left end of a callee: `describe` of `describe.each(TABLE)('…', …)`. */
function calledName({ type, name, object, callee }: Node): unknown {
  if (type === 'Identifier') return name;
  const left = type === 'MemberExpression' ? object : callee;
  return isNode(left) ? calledName(left) : undefined;
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string';

/** Lines that read one of the variables in code that runs while tests are collected: outside functions, and in functions of `describe`. */
function readsWhileCollecting(path: string, sources: Sources): string[] {
  const variables = unsetIn(path, sources);
  if (variables.size === 0) return [];
  const text = sources.get(path)!;
  const found: string[] = [];
  const visit = (node: Node, parent: Node, field: string): void => {
    const isOfDescribe = parent.type === 'CallExpression' && field === 'arguments' && calledName(parent) === 'describe';
    if (FUNCTIONS.has(node.type) && !isOfDescribe) return;
    const names = node.type.startsWith('Import') || node.type.startsWith('TSType');
    if (names || (node.type === 'VariableDeclarator' && !node['init'])) return;
    if (node.type === 'Identifier') {
      const isName = (field === 'property' || field === 'key') && !parent['computed'];
      const isTarget = parent.type === 'AssignmentExpression' && field === 'left';
      if (variables.has(node['name'] as string) && !isName && !isTarget)
        found.push(`${path}:${text.slice(0, node.start).split('\n').length} reads ${String(node['name'])}`);
      return;
    }
    for (const [key, value] of Object.entries(node))
      for (const child of [value].flat()) if (isNode(child)) visit(child, node, key);
  };
  const program = parseSync(path, text).program as object as Node;
  visit(program, program, '');
  return found;
}

describe('tests are collected without what hooks set', () => {
  const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.ts'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const paths = tracked.split('\n').filter((path) => path !== '' && existsSync(join(ROOT, path)));
  const sources = new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));

  it('in every spec', () => {
    const specs = paths.filter((path) => path.endsWith('.spec.ts') || path.startsWith('test/'));
    expect(specs.flatMap((path) => readsWhileCollecting(path, sources))).toEqual([]);
  });

  it.each([
    ['a table', "it.each([url])('%s', () => {});", 1],
    ['a table of suites', "describe.each([[url]])('%s', () => {});", 1],
    ['a suite', "describe('a', () => {\n  const address = `${url}/a`;\n});", 1],
    ['a suite of a table', "describe.each([1])('%s', () => {\n  it.skipIf(!url)('b', () => {});\n});", 1],
    ['a module', 'const address = new URL(url);', 1],
    ['an imported variable', "it.each([folder])('%s', () => {});", 1],
    ['a test', "it('a', () => expect(url).toBe(other.url));", 0],
    ['a function in a suite', "describe('a', () => {\n  const address = () => url;\n});", 0],
    ['a hook', "beforeAll(() => {\n  url = 'http://a';\n});", 0],
    ['a property of the same name', "it.each([{ url: 'http://a' }.url])('%s', () => {});", 0],
    ['a variable with a value', "it.each([count])('%s', () => {});", 0],
  ])('finds a variable in %s', (_, code, lines) => {
    const fixture = 'export let folder: string;\nexport let port = 0;\n';
    const spec = `import { folder, port } from './a.fixture.js';\nlet url: string;\nlet count = 0;\n${code}\n`;
    const planted = new Map(Object.entries({ 'a/a.spec.ts': spec, 'a/a.fixture.ts': fixture }));
    expect(readsWhileCollecting('a/a.spec.ts', planted)).toHaveLength(lines);
  });
});
