import { lex, type Token } from './lex.js';
import { type Place, RegoError } from './rego-error.js';

/** Words that are not variables, except directly before a dot, where they start a reference (`if.foo`). */
const KEYWORDS = new Set([
  'package',
  'import',
  'default',
  'not',
  'with',
  'as',
  'some',
  'every',
  'in',
  'if',
  'else',
  'contains',
  'null',
  'true',
  'false',
]);

/** Cursor over the tokens of one file. */
export class TokenReader {
  private readonly tokens: Token[];
  protected at = 0;

  constructor(
    text: string,
    protected readonly file: string,
  ) {
    this.tokens = lex(text, file);
  }

  protected get token(): Token {
    return this.tokens[this.at]!;
  }

  protected get following(): Token {
    return this.tokens[Math.min(this.at + 1, this.tokens.length - 1)]!;
  }

  protected get place(): Place {
    return { file: this.file, line: this.token.line, column: this.token.column };
  }

  protected next(): Token {
    const token = this.token;
    if (token.kind !== 'end') this.at++;
    return token;
  }

  protected isSign(text: string): boolean {
    return this.token.kind === 'sign' && this.token.text === text;
  }

  /** True at this keyword, unless a dot follows directly or it is the builtin `contains(`. */
  protected isKeyword(word: string): boolean {
    return this.token.text === word && this.keywordHere();
  }

  /** True at any keyword that is not a name here. */
  protected keywordHere(): boolean {
    if (this.token.kind !== 'name' || !KEYWORDS.has(this.token.text)) return false;
    const { following } = this;
    if (!following.glued || following.kind !== 'sign') return true;
    return following.text !== '.' && !(following.text === '(' && this.token.text === 'contains');
  }

  protected takeSign(text: string): boolean {
    if (!this.isSign(text)) return false;
    this.at++;
    return true;
  }

  protected takeKeyword(word: string): boolean {
    if (!this.isKeyword(word)) return false;
    this.at++;
    return true;
  }

  protected expectSign(text: string): void {
    if (!this.takeSign(text)) this.fail(`expected ${text}`);
  }

  protected expectKeyword(word: string): void {
    if (!this.takeKeyword(word)) this.fail(`expected ${word}`);
  }

  protected expectName(): string {
    if (this.token.kind !== 'name' || this.keywordHere()) this.fail('expected a name');
    return this.next().text;
  }

  /** A name after a dot, where keywords are names too. */
  protected nameAfterDot(): string {
    if (this.token.kind !== 'name') this.fail('expected a name after the dot');
    return this.next().text;
  }

  protected fail(message: string): never {
    const found = this.token.kind === 'string' ? JSON.stringify(this.token.text) : this.token.text;
    this.failAt(`${message}, found ${found}`, this.place);
  }

  protected failAt(message: string, place: Place): never {
    throw new RegoError('parse_error', message, place);
  }
}
