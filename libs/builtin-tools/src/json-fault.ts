/** Where and why a text stops being JSON (RFC 8259). */
export interface JsonFault {
  /** 0-based offset in UTF-16 units. */
  position: number;
  reason: string;
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LITERAL = /true|false|null/y;
const PLAIN = /(?:[^"\\\p{Cc}]|[\u007f-\u009f])*/uy; // control characters above U+007E are legal in JSON
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * Finds the fault of a text that JSON.parse refused: its own messages name no position for most faults, and a model can
 * only repair what it can find. Nesting was bounded before, so recursion is safe.
 */
export function findJsonFault(text: string): JsonFault {
  const scanner = new Scanner(text);
  try {
    scanner.value();
    scanner.space();
    if (scanner.at < text.length) scanner.fail('text after the end of the value');
  } catch (fault) {
    if (fault instanceof Found) return fault.fault;
    throw fault;
  }
  return { position: text.length, reason: 'not understood' };
}

class Found extends Error {
  constructor(readonly fault: JsonFault) {
    super(fault.reason);
  }
}

class Scanner {
  at = 0;

  constructor(private readonly text: string) {}

  fail(reason: string): never {
    throw new Found({ position: this.at, reason: this.at >= this.text.length ? 'text ends too early' : reason });
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
