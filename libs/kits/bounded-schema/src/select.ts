import * as jmespath from '@jmespath-community/jmespath';
import { RecentMap, type Json } from '@toolfleet/base';
import { parseExact } from '@toolfleet/base/json-text';
import { query as queryJsonpath } from 'jsonpath-rfc9535';
import parseJsonpath from 'jsonpath-rfc9535/parser';
import { describeShape } from './json-shape.js';
import { boundedMatcher } from './pattern.js';

/** Maximum length of an expression in UTF-16 units. */
const MAX_SELECT_CHARS = 1_000;
/** Deepest nesting of brackets. The grammar of JSONPath backtracks: each level of nested function calls doubles its time. */
const MAX_BRACKETS = 12;
const MAX_CACHED = 1_000;

/** An expression that selects a part of a result: JSONPath (RFC 9535) if it starts with `$`, else JMESPath. */
export interface SelectExpression {
  readonly expression: string;
  readonly language: 'jsonpath' | 'jmespath';
}

/** An expression that is invalid or exceeds a limit. */
export class SelectRefused extends Error {
  /** @param position offset of the error in UTF-16 units, counted from 0; undefined if the error has no position */
  constructor(
    reason: string,
    readonly position?: number,
  ) {
    super(position === undefined ? reason : `${reason} at position ${position}`);
  }
}

/** The fields of a node of either syntax tree that checks read. */
type SelectedNode = Readonly<Record<string, unknown>>;

/** Compiled expressions, and refused ones with the reason. */
const known = new RecentMap<string, SelectExpression | SelectRefused>({ max: MAX_CACHED });

/**
 * Compiles an expression to check it: its syntax, its length and nesting, the names of its functions and the patterns of JSONPath's
 * `match` and `search`, to be matched in linear time.
 * @throws SelectRefused
 */
export function readSelect(sent: string): SelectExpression {
  const expression = sent.trim();
  if (expression.length > MAX_SELECT_CHARS) throw new SelectRefused(`longer than ${MAX_SELECT_CHARS} characters`);
  const checked = known.get(expression) ?? compileOrRefuse(expression);
  known.set(expression, checked);
  if (checked instanceof SelectRefused) throw checked;
  return checked;
}

function compileOrRefuse(expression: string): SelectExpression | SelectRefused {
  try {
    checkNesting(expression);
    const language = expression.startsWith('$') ? 'jsonpath' : 'jmespath';
    if (language === 'jsonpath') checkJsonpath(expression);
    else checkJmespath(expression);
    return { expression, language };
  } catch (error) {
    if (error instanceof SelectRefused) return error;
    throw error;
  }
}

/**
 * Evaluates an expression that `readSelect` has checked. JSONPath gives the array of all matches, JMESPath one value. Its time and memory
 * are not bounded: run it in a process that can be killed.
 * @throws Error where a function gets a value of the wrong type
 */
export function evaluateSelect({ expression, language }: SelectExpression, document: Json): Json {
  if (language === 'jsonpath')
    return queryJsonpath(document as Parameters<typeof queryJsonpath>[0], expression) as Json;
  return (jmespath.search(document as Parameters<typeof jmespath.search>[0], expression) ?? null) as Json;
}

/**
 * Selects from a text: a JSON object or array, or else one string.
 * @returns the value; `shape` describes the document where the expression matches nothing
 */
export function selectFrom(text: string, selection: SelectExpression): { value: Json; shape?: string } {
  const document = parseDocument(text);
  const value = evaluateSelect(selection, document);
  const isMatch = Array.isArray(value) ? value.length > 0 : value !== null;
  return isMatch ? { value } : { value, shape: describeShape(document) };
}

function parseDocument(text: string): Json {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return parseExact(text).value;
  } catch {
    return text;
  }
}

/** Counts brackets outside quotes, before a parser sees the expression. */
function checkNesting(expression: string): void {
  let depth = 0;
  for (const { sign, at } of withoutQuotes(expression)) {
    if ('([{'.includes(sign)) {
      depth += 1;
      if (depth > MAX_BRACKETS) throw new SelectRefused(`brackets nested deeper than ${MAX_BRACKETS} levels`, at);
    } else if (')]}'.includes(sign)) depth -= 1;
  }
}

/** The characters outside quotes, and the quote that opens a text which never ends. */
function* withoutQuotes(expression: string): Generator<{ sign: string; at: number }> {
  let opened = 0;
  let quote = '';
  for (let at = 0; at < expression.length; at += 1) {
    const sign = expression.charAt(at);
    if (quote !== '') {
      if (sign === '\\') at += 1;
      else if (sign === quote) quote = '';
    } else if (sign === '"' || sign === "'" || sign === '`') {
      quote = sign;
      opened = at;
    } else yield { sign, at };
  }
  if (quote !== '') yield { sign: quote, at: opened };
}

/** Functions of RFC 9535 with their number of arguments; the library would answer unknown ones with "false". */
const JSONPATH_FUNCTIONS: ReadonlyMap<unknown, number> = new Map([
  ['length', 1],
  ['count', 1],
  ['value', 1],
  ['match', 2],
  ['search', 2],
]);

function checkJsonpath(expression: string): void {
  let tree: unknown;
  try {
    tree = parseJsonpath(expression);
  } catch (error) {
    const { message, location } = error as { message: string; location?: { start: { offset: number } } };
    throw new SelectRefused(message.replace(/\.$/, ''), location?.start.offset);
  }
  visit(tree, (node) => {
    if (node.type !== 'FunctionExpr') return;
    const { name, arguments: args } = node as { name: string; arguments: SelectedNode[] };
    const parameters = JSONPATH_FUNCTIONS.get(name);
    const at = expression.indexOf(name);
    if (parameters === undefined) throw new SelectRefused(`unknown function ${name}()`, at);
    if (args.length !== parameters)
      throw new SelectRefused(`${name}() takes ${parameters} argument(s), not ${args.length}`, at);
    const pattern = args[1]?.type === 'Literal' ? args[1].value : undefined;
    if (typeof pattern === 'string') checkPattern(pattern, expression);
  });
}

function checkPattern(pattern: string, expression: string): void {
  try {
    boundedMatcher(pattern, 'u');
  } catch (error) {
    const at = expression.indexOf(pattern);
    throw new SelectRefused(error instanceof Error ? error.message : String(error), at < 0 ? undefined : at);
  }
}

function checkJmespath(expression: string): void {
  let tree: unknown;
  try {
    tree = jmespath.compile(expression);
  } catch (error) {
    const { message } = error as Error;
    throw new SelectRefused(message.replace(/^syntax( error)?: /i, ''), findJmespathError(expression, message));
  }
  visit(tree, (node) => {
    if (node.type !== 'Function' || jmespath.isRegistered(String(node.name))) return;
    throw new SelectRefused(`unknown function ${String(node.name)}()`, expression.indexOf(String(node.name)));
  });
}

/**
 * Where an expression is wrong: the library's errors have no position. Its lexer and parser read from left to right, so a prefix
 * fails with the same message if and only if it includes the wrong token.
 */
function findJmespathError(expression: string, message: string): number {
  const isSame = (read: (text: string) => unknown, end: number): boolean => {
    try {
      read(expression.slice(0, end));
      return false;
    } catch (error) {
      return (error as Error).message === message;
    }
  };
  if (isSame(jmespath.tokenize, expression.length)) {
    const last = [...withoutQuotes(expression)].at(-1);
    if (last && '"\'`'.includes(last.sign)) return last.at;
    return firstIndex(expression.length, (index) => isSame(jmespath.tokenize, index + 1));
  }
  if (message.includes('EOF')) return expression.length;
  const starts = jmespath.tokenize(expression).map(({ start }) => start);
  const wrong = firstIndex(starts.length, (index) => isSame(jmespath.compile, starts[index + 1] ?? expression.length));
  return starts[wrong] ?? expression.length;
}

/** The first index for which a condition holds that also holds for all later ones; `count` if there is none. */
function firstIndex(count: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Visits every node of a syntax tree; the nesting of brackets bounds its depth. */
function visit(tree: unknown, look: (node: SelectedNode) => void): void {
  if (Array.isArray(tree)) for (const each of tree) visit(each, look);
  else if (typeof tree === 'object' && tree !== null) {
    look(tree as SelectedNode);
    for (const child of Object.values(tree)) visit(child, look);
  }
}
