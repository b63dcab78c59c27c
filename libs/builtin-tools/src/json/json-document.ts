import { ToolError, type Json } from '@toolfleet/contracts';
import { inexactNumberMessage, parseExact, type ParsedText } from '@toolfleet/contracts/json-text';

/** Deepest accepted document, so that recursion over it cannot overflow the stack. */
const MAX_DEPTH = 500;

/** Parses JSON text. @throws ToolError TOOL_ERROR with line and column, also for a number beyond the range of a double */
export function parseJson(text: string, name: string): Json {
  checkDepth(text, name);
  let read: ParsedText;
  try {
    read = parseExact(text);
  } catch (error) {
    const { position, reason } = findJsonError(text);
    const before = text.slice(0, position);
    const line = before.split('\n').length;
    const column = position - before.lastIndexOf('\n');
    throw new ToolError('TOOL_ERROR', {
      message: `${name} is not valid JSON: ${reason} at line ${line}, column ${column}`,
      details: { line, column, position },
      cause: error,
    });
  }
  const { value, inexact } = read;
  if (inexact !== undefined)
    throw new ToolError('TOOL_ERROR', { message: `${name}: ${inexactNumberMessage(inexact)}` });
  return value;
}

/** Refuses excessive nesting before recursive code sees the text, in linear time. */
function checkDepth(text: string, name: string): void {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 92) at += 1;
      else if (code === 34) inString = false;
    } else if (code === 34) inString = true;
    else if (code === 91 || code === 123) {
      depth += 1;
      if (depth > MAX_DEPTH)
        throw new ToolError('TOOL_ERROR', { message: `${name} is nested deeper than ${MAX_DEPTH} levels` });
    } else if (code === 93 || code === 125) depth -= 1;
  }
}

/** A copy with the keys of every object sorted. */
export function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.create(null) as { [key: string]: Json };
  for (const key of Object.keys(value).toSorted()) sorted[key] = sortKeys(value[key] as Json);
  return sorted;
}

/** Where and why a text is not JSON (RFC 8259). */
interface SyntaxProblem {
  /** 0-based offset in UTF-16 units. */
  position: number;
  reason: string;
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LITERAL = /true|false|null/y;
const PLAIN = /(?:[^"\\\p{Cc}]|[\u007f-\u009f])*/uy; // JSON allows control characters above U+007E
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * Locates the error in a text that JSON.parse refused. The messages of JSON.parse usually lack a position that a model
 * needs to repair the text. Nesting has been checked before, so recursion is safe.
 */
function findJsonError(text: string): SyntaxProblem {
  const scanner = new Scanner(text);
  try {
    scanner.value();
    scanner.space();
    if (scanner.at < text.length) scanner.fail('text after the end of the value');
  } catch (problem) {
    if (problem instanceof FoundValue) return problem.problem;
    throw problem;
  }
  return { position: text.length, reason: 'syntax error' };
}

/** Ends the scan with the problem found. */
class FoundValue extends Error {
  constructor(readonly problem: SyntaxProblem) {
    super(problem.reason);
  }
}

/** A recursive-descent parser of JSON that stops at the first error. */
class Scanner {
  at = 0;

  constructor(private readonly text: string) {}

  fail(reason: string): never {
    throw new FoundValue({ position: this.at, reason: this.at >= this.text.length ? 'text ends too early' : reason });
  }

  space(): void {
    this.take(SPACE);
  }

  value(): void {
    this.space();
    const next = this.text.charAt(this.at);
    if (next === '{') return this.list('}', () => this.member());
    if (next === '[') return this.list(']', () => this.value());
    if (next === '"') return this.string();
    if (next === "'") this.fail("strings need double quotes, not '");
    if (!this.take(LITERAL) && !this.take(NUMBER)) this.fail(`expected a value, found ${JSON.stringify(next)}`);
  }

  private member(): void {
    this.space();
    if (this.text.charAt(this.at) !== '"') this.fail('expected a key in double quotes');
    this.string();
    this.space();
    if (this.text.charAt(this.at) !== ':') this.fail('expected ":" after the key');
    this.at += 1;
    this.value();
  }

  private list(close: string, item: () => void): void {
    this.at += 1;
    this.space();
    if (this.text.charAt(this.at) === close) {
      this.at += 1;
      return;
    }
    for (;;) {
      item();
      this.space();
      const next = this.text.charAt(this.at);
      if (next !== ',' && next !== close) this.fail(`expected "," or "${close}"`);
      this.at += 1;
      if (next === close) return;
      this.space();
      if (this.text.charAt(this.at) === close) this.fail('comma before the end');
    }
  }

  private string(): void {
    this.at += 1;
    for (;;) {
      this.take(PLAIN);
      const next = this.text.charAt(this.at);
      if (next === '"') {
        this.at += 1;
        return;
      }
      if (next !== '\\') this.fail('raw control character in a string: write it as an escape such as \\n');
      if (!this.take(ESCAPE)) this.fail('unknown escape in a string');
    }
  }

  private take(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found || found[0] === '') return false;
    this.at += found[0].length;
    return true;
  }
}
