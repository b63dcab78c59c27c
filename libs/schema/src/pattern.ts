import { RE2JS } from 're2js';

/** Strings up to this length may be matched by the backtracking engine if the pattern passes `isBoundedPattern`. */
const NATIVE_MAX_CHARS = 256;
/** Patterns that only the backtracking engine can run get no longer strings than this. */
const LOOKAROUND_MAX_CHARS = 2_048;
/** Longest pattern. */
const MAX_PATTERN_CHARS = 2_000;

/** What ajv needs of a regular expression. */
export interface Matcher {
  test(text: string): boolean;
  /** Identity of the pattern: ajv shares matchers that print the same. */
  toString(): string;
}

/** Thrown while compiling a schema whose pattern could take exponential time. */
export class PatternRefused extends Error {}

/**
 * A matcher whose time is bounded, whoever wrote pattern and text. Patterns come from remote servers, texts from models,
 * and V8's engine backtracks: `^(a+)+$` takes minutes on 40 characters. So: short texts and simple patterns run natively;
 * everything else runs on RE2 (linear time); what RE2 cannot express (lookaround, backreferences) is accepted only if it
 * is simple, and then only for texts of limited length; the rest is refused.
 */
export function boundedMatcher(pattern: string, flags: string): Matcher {
  if (pattern.length > MAX_PATTERN_CHARS)
    throw new PatternRefused(`pattern longer than ${MAX_PATTERN_CHARS} characters`);
  const native = nativeOf(pattern, flags);
  const simple = isBoundedPattern(pattern);
  let linear: RE2JS | undefined;
  try {
    linear = RE2JS.compile(RE2JS.translateRegExp(pattern), flags.includes('i') ? RE2JS.CASE_INSENSITIVE : 0);
  } catch {
    if (!simple) throw new PatternRefused(`pattern ${pattern.slice(0, 80)} could take exponential time`);
  }
  const name = `/${pattern}/${flags}`;
  const matcher = (test: (text: string) => boolean): Matcher => ({ test, toString: () => name });
  if (!linear) return matcher((text) => text.length <= LOOKAROUND_MAX_CHARS && native.test(text));
  const re2 = linear;
  if (!simple) return matcher((text) => re2.matcher(text).find());
  return matcher((text) => (text.length <= NATIVE_MAX_CHARS ? native.test(text) : re2.matcher(text).find()));
}

/**
 * True when backtracking is polynomial of low degree: no quantified group contains a quantifier or an alternation, no
 * backreference, and at most three unbounded quantifiers.
 */
export function isBoundedPattern(pattern: string): boolean {
  const groups: { choice: boolean }[] = [];
  let unbounded = 0;
  let closed: { choice: boolean } | undefined;
  for (let index = 0; index < pattern.length; index += 1) {
    const char = pattern[index];
    const quantifier = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(pattern.slice(index));
    if (quantifier && char !== '?' && closed?.choice) return false;
    if (quantifier) {
      if (/^(?:[*+]|\{\d+,\})/.test(quantifier[0]) || repeats(quantifier[0]) > 100) unbounded += 1;
      if (closed || char !== '?') for (const group of groups) group.choice = true;
      index += quantifier[0].length - 1;
      if (pattern[index + 1] === '?') index += 1; // lazy
      closed = undefined;
      continue;
    }
    closed = undefined;
    if (char === '\\') {
      if (/[1-9k]/.test(pattern[index + 1] ?? '')) return false;
      index += 1;
    } else if (char === '[') {
      index = endOfClass(pattern, index);
    } else if (char === '(') {
      groups.push({ choice: false });
      const prefix = /^\?(?:[:=!]|<[=!]|<[^>]*>)/.exec(pattern.slice(index + 1));
      if (prefix) index += prefix[0].length;
    } else if (char === ')') {
      closed = groups.pop();
    } else if (char === '|') {
      for (const group of groups) group.choice = true;
    }
  }
  return unbounded <= 3;
}

function repeats(quantifier: string): number {
  return Math.max(...(quantifier.match(/\d+/g) ?? ['1']).map(Number));
}

function endOfClass(pattern: string, start: number): number {
  for (let index = start + 1; index < pattern.length; index += 1) {
    if (pattern[index] === '\\') index += 1;
    else if (pattern[index] === ']') return index;
  }
  return pattern.length;
}

/** With the `u` flag as JSON Schema asks, without where the pattern is legal only so. */
function nativeOf(pattern: string, flags: string): RegExp {
  try {
    return new RegExp(pattern, flags);
  } catch {
    return new RegExp(pattern, flags.replace('u', ''));
  }
}
