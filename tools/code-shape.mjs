/**
 * `npm run code-shape [-- REV] [--under DIR] [--list]`: figures on how the production source of apps, libs and tools is cut,
 * as a Markdown table. Without a revision it reads the working tree. Compare two revisions to see what a restructuring
 * changed; the figures orient, they are not limits. `--list` names the places behind the figures.
 *
 * A function is a declaration, a method or a variable that holds a function; every other function expression is a closure.
 * A fragment is a file of at most 40 lines with exactly one importer. Comment share is comment lines over all lines.
 * A conditional spread adds members to an object (`...(x && { x })`); spreads into lists are not counted. A double cast is `as unknown as`, or through another type.
 * A type name is defined twice when two packages declare it. A setting is a key of a configuration table; each name counts once.
 * Lines are summed for the kits (libs/kits, and the folders that they were in before), the pack of builtin tools, and the core.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { parseSync } from 'vite';
import { countLines, isProduction, packageOf, partOf } from './code-parts.mjs';
import { countHabits, findPhrases, HABITS } from './phrases.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SHORT_FILE_LINES = 50;
const FRAGMENT_LINES = 40;
const LONG_FUNCTION_LINES = 50;
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
const TYPES = new Set(['TSInterfaceDeclaration', 'TSTypeAliasDeclaration', 'ClassDeclaration', 'TSEnumDeclaration']);

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { under: { type: 'string', default: '' }, list: { type: 'boolean', default: false } },
});
const everyFile = readFiles(positionals[0]);
const files = new Map([...everyFile].filter(([path]) => isProduction(path)));
const shapes = new Map([...files].map(([path, text]) => [path, shapeOf(path, text)]));
const importers = findImporters();
const shown = new Map([...shapes].filter(([path]) => path.startsWith(options.under)));
const lists = findPlaces(shown);
process.stdout.write(table(summarize(shown)));
if (options.list)
  for (const [title, places] of Object.entries(lists))
    process.stdout.write(`\n## ${title}: ${places.length}\n${places.join('\n')}\n`);

/** TypeScript and scripts of a revision, or of the working tree: path → text. */
function readFiles(revision) {
  const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 });
  const listed = revision
    ? git('ls-tree', '-r', '--name-only', revision, 'apps', 'libs', 'test', 'tools')
    : git('ls-files', '-co', '--exclude-standard', 'apps', 'libs', 'test', 'tools');
  const paths = listed.split('\n').filter((path) => /\.(tsx?|mjs)$/.test(path));
  if (!revision) return new Map(paths.flatMap((path) => readWorkingFile(path)));
  return readObjects(revision, paths);
}

/** The files of a revision, read by one process: `<id> <type> <bytes>` and a line break before each, a line break after it. */
function readObjects(revision, paths) {
  const input = paths.map((path) => `${revision}:${path}\n`).join('');
  const out = execFileSync('git', ['cat-file', '--batch'], { cwd: ROOT, input, maxBuffer: 1 << 28 });
  let at = 0;
  return new Map(
    paths.map((path) => {
      const start = out.indexOf('\n', at) + 1;
      const end = start + Number(out.toString('latin1', at, start).split(' ')[2]);
      at = end + 1;
      return [path, out.toString('utf8', start, end)];
    }),
  );
}

function readWorkingFile(path) {
  try {
    return [[path, readFileSync(join(ROOT, path), 'utf8')]];
  } catch {
    return []; // deleted, and not committed yet
  }
}

function shapeOf(path, text) {
  const { program, comments, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const shape = {
    lines: countLines(text),
    functions: 0,
    closures: 0,
    exports: [],
    spreads: [],
    doubleCasts: [],
    longFunctions: [],
    types: [],
    settings: [],
    imports: [],
  };
  const holdsSettings = /\.config\.ts$|^libs\/service\/src\/(?:config\/define-config|run-executor)\.ts$/.test(path);
  const lineOf = (offset) => text.slice(0, offset).split('\n').length;
  shape.comments = comments.reduce((sum, { start, end }) => sum + text.slice(start, end).split('\n').length, 0);
  walk(program, (node, parent) => {
    if (node.type === 'FunctionDeclaration' && node.body) shape.functions += 1;
    if (node.type === 'FunctionExpression' || node.type === 'ArrowFunctionExpression') {
      const named = ['VariableDeclarator', 'MethodDefinition', 'PropertyDefinition'].includes(parent?.type);
      shape[named ? 'functions' : 'closures'] += 1;
    }
    if (FUNCTIONS.has(node.type) && node.body) {
      const lines = lineOf(node.end) - lineOf(node.start) + 1;
      if (lines > LONG_FUNCTION_LINES) shape.longFunctions.push(`${path}:${lineOf(node.start)} ${lines}`);
    }
    if (
      node.type === 'SpreadElement' &&
      parent?.type === 'ObjectExpression' &&
      ['ConditionalExpression', 'LogicalExpression'].includes(bare(node.argument).type)
    )
      shape.spreads.push(`${path}:${lineOf(node.start)}`);
    if (node.type === 'TSAsExpression' && bare(node.expression).type === 'TSAsExpression')
      shape.doubleCasts.push(`${path}:${lineOf(node.start)}`);
    if (TYPES.has(node.type)) shape.types.push(node.id?.name);
    if (holdsSettings && node.type === 'Property' && isSetting(node)) shape.settings.push(node.key.name);
    if (node.type === 'ExportNamedDeclaration' && !node.source) shape.exports.push(...exportedNames(node));
    if (node.source?.type === 'Literal' && String(node.source.value).startsWith('.'))
      shape.imports.push({ path: resolveImport(path, node.source.value), typeOnly: isTypeOnly(node) });
  });
  return shape;
}

/** `NAME: integer({ … })`, or a table's shorthand `NAME`. */
function isSetting({ key, value, shorthand }) {
  return /^[A-Z][A-Z\d]*_[A-Z\d_]+$/.test(key.name) && (shorthand || value.type === 'CallExpression');
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

function exportedNames({ declaration, specifiers }) {
  if (!declaration) return specifiers.map(({ exported }) => exported.name);
  return (declaration.declarations ?? [declaration]).map(({ id }) => id.name).filter(Boolean);
}

/** Path → production files that import it. */
function findImporters() {
  const found = new Map();
  for (const [path, shape] of shapes)
    for (const target of new Set(shape.imports.map((one) => one.path)))
      found.set(target, [...(found.get(target) ?? []), path]);
  return found;
}

function findPlaces(all) {
  const words = new Map([...everyFile].map(([path, text]) => [path, new Set(text.match(/[\w$]+/g))]));
  const isUsedElsewhere = (name, own) => [...words].some(([path, set]) => path !== own && set.has(name));
  return {
    'fragments with one importer': [...all].flatMap(([path, { lines }]) =>
      lines <= FRAGMENT_LINES && importers.get(path)?.length === 1 ? [`${path} <- ${importers.get(path)[0]}`] : [],
    ),
    'conditional spreads': [...all].flatMap(([, { spreads }]) => spreads),
    'double casts': [...all].flatMap(([, { doubleCasts }]) => doubleCasts),
    'functions over 50 lines': [...all].flatMap(([, { longFunctions }]) => longFunctions),
    'type names defined twice': findTwice(all),
    settings: [...new Set([...all].flatMap(([, { settings }]) => settings))],
    'exports no other file uses': [...all].flatMap(([path, { exports }]) =>
      exports.filter((name) => !isUsedElsewhere(name, path)).map((name) => `${path}: ${name}`),
    ),
    'functions named xOf': [...all.keys()].flatMap((path) =>
      [
        ...files
          .get(path)
          .matchAll(/(?:function |const |^ {2}(?:private |static |async |#)*)#?([a-z]\w*Of)\b(?= ?[(<=])/gm),
      ].map(([, name]) => `${path}: ${name}`),
    ),
    'phrases of a translation': [...all.keys()].flatMap((path) =>
      findPhrases(path, files.get(path)).map(({ line, phrase }) => `${path}:${line} ${phrase}`),
    ),
  };
}

/** Names of types that more than one package declares, with their files. */
function findTwice(all) {
  const declared = new Map();
  for (const [path, { types }] of all)
    for (const name of types) declared.set(name, [...(declared.get(name) ?? []), path]);
  return [...declared]
    .filter(([, paths]) => new Set(paths.map(packageOf)).size > 1)
    .map(([name, paths]) => `${name}: ${paths.join(', ')}`)
    .toSorted();
}

function summarize(all) {
  const list = [...all.values()];
  const lines = list.map((shape) => shape.lines).toSorted((a, b) => a - b);
  const total = (key) => list.reduce((sum, shape) => sum + (shape[key].length ?? shape[key]), 0);
  const linesOf = (part) => [...all].reduce((sum, [path, shape]) => sum + (partOf(path) === part ? shape.lines : 0), 0);
  const all1000 = lines.reduce((sum, n) => sum + n, 0) / 1_000;
  return {
    'production files': list.length,
    'production lines': Math.round(all1000 * 1_000),
    ...Object.fromEntries(['kits', 'pack', 'core'].map((part) => [`lines of ${part}`, linesOf(part)])),
    'file median / p90 lines': `${lines[lines.length >> 1]} / ${lines[Math.floor(lines.length * 0.9)]}`,
    'files of 50 lines or fewer': percent(lines.filter((n) => n <= SHORT_FILE_LINES).length / list.length),
    'named functions per 1,000 lines': (total('functions') / all1000).toFixed(1),
    'closures per 1,000 lines': (total('closures') / all1000).toFixed(1),
    'exports per 1,000 lines': (total('exports') / all1000).toFixed(1),
    'comment share': percent(total('comments') / (all1000 * 1_000)),
    ...habitsOf([...all.keys()]),
    ...Object.fromEntries(Object.entries(lists).map(([title, places]) => [title, places.length])),
    'import cycles': cycles(shapes),
  };
}

/** Habits of a translation in 10,000 words of comments. */
function habitsOf(paths) {
  const counts = paths.map((path) => countHabits(path, files.get(path)));
  const sum = (key) => counts.reduce((total, count) => total + count[key], 0);
  return Object.fromEntries(
    Object.keys(HABITS).map((habit) => [
      `${habit} per 10,000 words of comments`,
      ((10_000 * sum(habit)) / sum('words')).toFixed(1),
    ]),
  );
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
