import { RE2JS } from 're2js';
import { linearForm, PatternRefused, type LinearForm } from './pattern-syntax.js';
import { chargeSteps } from './step-budget.js';

export { PatternRefused } from './pattern-syntax.js';

/** Maximum length of a pattern in UTF-16 units. */
const MAX_PATTERN_CHARS = 2_000;
/** Maximum number of instructions in the programs of a pattern; `^[\w-]{1,1000}$` has 2,003. */
const MAX_PROGRAM = 2_500;
/**
 * Maximum of instructions × UTF-16 units in one match. In the worst case the engine tracks every instruction at every character,
 * at about 25 ns each (measured on `(?:a|b)*a(?:a|b){900}[yz]`), so a match takes at most about 50 ms.
 */
const MAX_MATCH_STEPS = 1 << 21;
/** Maximum text for a one-pass automaton: every character costs the same few nanoseconds. */
const MAX_ONE_PASS_CHARS = 8 * 1024 * 1024;
/** Steps of a match, apart from its text's. */
const MATCH_STEPS = 6;
/**
 * Instructions × characters that cost about as much as one step of validation. A one-pass automaton takes 12 to 40 ns for each
 * character, other programs up to 25 ns for each of these, and far less on nearly all texts.
 */
const PER_STEP = { onePass: 4, other: 16 };
/** Automaton states kept between matches. Hostile patterns and texts create more, up to 8 MB per pattern. */
const MAX_KEPT_STATES = 500;

/** The part of a regular expression that ajv uses. */
interface Matcher {
  /** Whether the pattern matches anywhere in the text; false when text × pattern is too large to match in bounded time. */
  test(text: string): boolean;
  /** Identity of the pattern: ajv shares matchers that print the same. */
  toString(): string;
}

/**
 * Compiles a pattern to a matcher of bounded time. Patterns come from remote servers and texts from models, and V8's engine
 * backtracks: `^(a+)+$` takes minutes on 40 characters. All patterns run on RE2 in time linear in the text; the size
 * of the program times the text is bounded as well.
 * @param flags of ECMA-262; only `i` and `u` have an effect
 * @throws PatternRefused for patterns that RE2 cannot express (backreferences, lookaheads inside) or that are too large
 * @throws SyntaxError for invalid patterns
 */
export function boundedMatcher(pattern: string, flags: string): Matcher {
  if (pattern.length > MAX_PATTERN_CHARS)
    throw new PatternRefused(`Pattern refused: longer than ${MAX_PATTERN_CHARS} characters`);
  const form = toLinearForm(pattern, flags);
  const ignoresCase = flags.includes('i');
  const required = form.required.map((part) => toProgram(part, ignoresCase));
  const forbidden = form.forbidden.map((part) => toProgram(part, ignoresCase));
  const name = `/${pattern}/${flags}`;
  return {
    test: (text) =>
      required.every((part) => isBounded(part, text) && found(part, text)) &&
      forbidden.every((part) => isBounded(part, text) && !found(part, text)),
    toString: () => name,
  };
}

/** Instructions of a pattern's program that are compiled in about 50 µs. */
const INSTRUCTIONS_PER_COST = 40;
/** A class of Unicode has hundreds of ranges. */
const UNICODE_CLASS = /\\[pP]/g;
const UNICODE_CLASS_COST = 1.5;

/** Units of about 50 µs that compiling a pattern takes; 0 for a pattern that is refused without being compiled. */
export function patternCost(pattern: string): number {
  if (pattern.length > MAX_PATTERN_CHARS) return 0;
  try {
    const { size } = toLinearForm(pattern, 'u');
    return size / INSTRUCTIONS_PER_COST + UNICODE_CLASS_COST * (pattern.match(UNICODE_CLASS)?.length ?? 0);
  } catch {
    return 0;
  }
}

/** A pattern in RE2's syntax, for texts of any length: its time is linear in the text, whatever the text is. */
export class LinearPattern {
  readonly #program: RE2JS;

  /** @throws PatternRefused for a pattern that RE2 does not know or that is too large */
  constructor(source: string) {
    if (source.length > MAX_PATTERN_CHARS)
      throw new PatternRefused(`Pattern refused: longer than ${MAX_PATTERN_CHARS} characters`);
    this.#program = toProgram(source, false);
    if (this.#program.programSize() > MAX_PROGRAM) throw new PatternRefused(`Pattern ${excerpt(source)} is too large`);
  }

  /** Replaces every match that is not empty; the replacement may return it unchanged. */
  replace(text: string, replacement: (match: string) => string): string {
    const matcher = this.#program.matcher(text);
    let replaced = '';
    let end = 0;
    while (matcher.find()) {
      if (matcher.start() === matcher.end()) continue;
      replaced += text.slice(end, matcher.start()) + replacement(text.slice(matcher.start(), matcher.end()));
      end = matcher.end();
    }
    return end === 0 ? text : replaced + text.slice(end);
  }
}

function toLinearForm(pattern: string, flags: string): LinearForm {
  try {
    const form = linearForm(pattern, isLegal(pattern, flags));
    if (form.size > MAX_PROGRAM) throw new PatternRefused(`more than ${MAX_PROGRAM} instructions`);
    return form;
  } catch (error) {
    if (!(error instanceof PatternRefused)) throw error;
    throw new PatternRefused(`Pattern ${excerpt(pattern)} refused: ${error.message} cannot be matched in bounded time`);
  }
}

function toProgram(part: string, ignoresCase: boolean): RE2JS {
  try {
    return RE2JS.compile(part, RE2JS.LOOKBEHINDS | (ignoresCase ? RE2JS.CASE_INSENSITIVE : 0));
  } catch (error) {
    throw new PatternRefused(`Pattern refused: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function isBounded(program: RE2JS, text: string): boolean {
  if (isOnePass(program)) return text.length <= MAX_ONE_PASS_CHARS;
  return program.programSize() * text.length <= MAX_MATCH_STEPS;
}

function found(program: RE2JS, text: string): boolean {
  const work = isOnePass(program)
    ? text.length / PER_STEP.onePass
    : (program.programSize() * text.length) / PER_STEP.other;
  chargeSteps(MATCH_STEPS + Math.floor(work));
  const matches = program.test(text);
  const automaton = program.re2().lazyDFA as { stateCount: number; clearCache(): void } | null;
  if (automaton !== null && automaton.stateCount > MAX_KEPT_STATES) automaton.clearCache();
  return matches;
}

function isOnePass(program: RE2JS): boolean {
  return program.re2().onepass !== null;
}

/**
 * Whether the pattern is legal with the `u` flag, as JSON Schema recommends; otherwise it must be legal without.
 * @throws SyntaxError
 */
function isLegal(pattern: string, flags: string): boolean {
  try {
    new RegExp(pattern, flags);
    return flags.includes('u');
  } catch {
    new RegExp(pattern, flags.replace('u', ''));
    return false;
  }
}

function excerpt(pattern: string): string {
  return pattern.length > 80 ? `${pattern.slice(0, 80)}…` : pattern;
}
