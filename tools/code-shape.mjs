/**
 * `npm run code-shape [-- REV]`: figures on how the production source of apps and libs is cut, as a Markdown table.
 * Compare two revisions to see what a restructuring changed; they orient, they are no limits.
 *
 * A function is a declaration, a method or a variable that holds a function; every other function expression is a closure.
 * A fragment is a file of at most 40 lines with exactly one importer. Comment share is comment lines over all lines.
 */
import { execFileSync } from 'node:child_process';
import { dirname, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'vite';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SHORT_FILE_LINES = 50;
const FRAGMENT_LINES = 40;

const revision = process.argv[2] ?? 'HEAD';
const files = readSources(revision);
const shapes = new Map([...files].map(([path, text]) => [path, shapeOf(path, text)]));
process.stdout.write(table(summarize(shapes)));

/** Production TypeScript of a revision: path → text. */
function readSources(rev) {
  const list = execFileSync('git', ['ls-tree', '-r', '--name-only', rev, 'apps', 'libs'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const paths = list
    .split('\n')
    .filter((path) => /\.tsx?$/.test(path) && !/\.spec\.tsx?$|\/spec\/|^libs\/testing\//.test(path));
  return new Map(
    paths.map((path) => [
      path,
      execFileSync('git', ['show', `${rev}:${path}`], { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20 }),
    ]),
  );
}

function shapeOf(path, text) {
  const { program, comments, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const shape = { lines: text.split('\n').length - 1, functions: 0, closures: 0, exports: 0, spreads: 0, imports: [] };
  shape.comments = comments.reduce((sum, { start, end }) => sum + text.slice(start, end).split('\n').length, 0);
  walk(program, (node, parent) => {
    if (node.type === 'FunctionDeclaration' && node.body) shape.functions += 1;
    if (node.type === 'FunctionExpression' || node.type === 'ArrowFunctionExpression') {
      const named = ['VariableDeclarator', 'MethodDefinition', 'PropertyDefinition'].includes(parent?.type);
      shape[named ? 'functions' : 'closures'] += 1;
    }
    if (
      node.type === 'SpreadElement' &&
      ['ConditionalExpression', 'LogicalExpression'].includes(bare(node.argument).type)
    )
      shape.spreads += 1;
    if (node.type === 'ExportNamedDeclaration' && !node.source)
      shape.exports += node.declaration?.declarations?.length ?? (node.declaration ? 1 : node.specifiers.length);
    if (node.source?.type === 'Literal' && String(node.source.value).startsWith('.'))
      shape.imports.push({ path: resolveImport(path, node.source.value), typeOnly: isTypeOnly(node) });
  });
  return shape;
}

function bare(node) {
  return node.type === 'ParenthesizedExpression' ? bare(node.expression) : node;
}

function isTypeOnly(node) {
  if (node.importKind === 'type' || node.exportKind === 'type') return true;
  const { specifiers = [] } = node;
  return specifiers.length > 0 && specifiers.every((one) => one.importKind === 'type' || one.exportKind === 'type');
}

function walk(node, visit, parent) {
  if (Array.isArray(node)) for (const one of node) walk(one, visit, parent);
  else if (node && typeof node.type === 'string') {
    visit(node, parent);
    for (const value of Object.values(node)) if (value && typeof value === 'object') walk(value, visit, node);
  }
}

/** `./x.js` as the source file it was written for. */
function resolveImport(from, specifier) {
  const base = posix.join(posix.dirname(from), specifier).replace(/\.jsx?$/, '');
  return [`${base}.ts`, `${base}.tsx`, base].find((path) => files.has(path)) ?? base;
}

function summarize(all) {
  const list = [...all.values()];
  const lines = list.map((shape) => shape.lines).toSorted((a, b) => a - b);
  const total = (key) => list.reduce((sum, shape) => sum + shape[key], 0);
  const all1000 = lines.reduce((sum, n) => sum + n, 0) / 1_000;
  const importers = new Map();
  for (const [path, shape] of all)
    for (const target of new Set(shape.imports.map((one) => one.path)))
      importers.set(target, [...(importers.get(target) ?? []), path]);
  return {
    'production files': list.length,
    'production lines': Math.round(all1000 * 1_000),
    'file median / p90 lines': `${lines[lines.length >> 1]} / ${lines[Math.floor(lines.length * 0.9)]}`,
    'files of 50 lines or fewer': percent(lines.filter((n) => n <= SHORT_FILE_LINES).length / list.length),
    'named functions per 1,000 lines': (total('functions') / all1000).toFixed(1),
    'closures per 1,000 lines': (total('closures') / all1000).toFixed(1),
    'exports per 1,000 lines': (total('exports') / all1000).toFixed(1),
    'comment share': percent(total('comments') / (all1000 * 1_000)),
    'conditional spreads': total('spreads'),
    'fragments with one importer': [...all].filter(
      ([path, { lines: n }]) => n <= FRAGMENT_LINES && importers.get(path)?.length === 1,
    ).length,
    'import cycles': cycles(all),
  };
}

/** Strongly connected groups of more than one file, over imports that exist at run time (Tarjan's algorithm). */
function cycles(all) {
  let next = 0;
  let found = 0;
  const stack = [];
  const state = new Map();
  const visit = (path) => {
    const own = { index: next, low: next, onStack: true };
    next += 1;
    state.set(path, own);
    stack.push(path);
    for (const { path: target, typeOnly } of all.get(path).imports) {
      if (typeOnly || !all.has(target)) continue;
      const seen = state.get(target);
      if (!seen) own.low = Math.min(own.low, visit(target).low);
      else if (seen.onStack) own.low = Math.min(own.low, seen.index);
    }
    if (own.low === own.index) {
      const group = stack.splice(stack.lastIndexOf(path));
      for (const member of group) state.get(member).onStack = false;
      if (group.length > 1) found += 1;
    }
    return own;
  };
  for (const path of all.keys()) if (!state.has(path)) visit(path);
  return found;
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

function table(summary) {
  const rows = Object.entries(summary).map(([name, value]) => `| ${name} | ${value} |`);
  return ['| figure | value |', '| --- | --- |', ...rows, ''].join('\n');
}
