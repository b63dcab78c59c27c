/**
 * Translates regular expressions of ECMA-262 to the syntax of RE2 (github.com/google/re2/wiki/Syntax) with the semantics of
 * ECMA-262. The translation of re2js keeps RE2's meaning of `.` and `\s`, and no library estimates the size of a program before
 * it is compiled or extracts lookaheads.
 */

/** A pattern without bounded time, or that the linear-time engine cannot express. */
export class PatternRefused extends Error {}

/** A pattern as patterns of RE2: a text matches when all of `required` and none of `forbidden` match. */
export interface LinearForm {
  required: string[];
  forbidden: string[];
  /** Upper estimate of the instructions in all programs. */
  size: number;
}

/** One part of a sequence. `ahead`: a lookahead with its body as `text`. */
interface Piece {
  kind: 'start' | 'assertion' | 'ahead' | 'consuming';
  text: string;
  size: number;
  negated?: boolean;
}

type Branches = Piece[][];

/** Maximum repeat count of RE2. */
const MAX_REPEAT = 1_000;

const SPACE = String.raw`\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const NO_SPACE = String.raw`\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`;
const ANY = String.raw`\x{0}-\x{10ffff}`;
const CONTROLS: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', f: '\f', v: '\v' };

/**
 * Translates a pattern for a linear-time engine. Lookaheads right after a leading `^` become separate conditions:
 * `^(?=.*\d)(?!admin).{8,}$` is three patterns that each begin at the start of the text.
 * @param pattern legal in ECMA-262, with or without the `u` flag
 * @throws PatternRefused for backreferences, other lookaheads and repetitions RE2 does not know
 */
export function linearForm(pattern: string, unicode: boolean): LinearForm {
  const branches = new PatternReader(pattern, unicode).read();
  if (branches.length > 1 || !branches[0]?.some(({ kind }) => kind === 'ahead')) {
    const { text, size } = joinBranches(branches);
    return { required: [text], forbidden: [], size };
  }
  const [first, ...rest] = branches[0];
  if (first?.kind !== 'start') throw new PatternRefused('a lookahead that does not follow a leading ^');
  const form: LinearForm = { required: [], forbidden: [], size: 0 };
  let next = rest.shift();
  for (; next?.kind === 'ahead'; next = rest.shift()) {
    (next.negated ? form.forbidden : form.required).push(`^(?:${next.text})`);
    form.size += next.size + 1;
  }
  const body = joinBranches([next ? [next, ...rest] : []]);
  form.required.push(`^(?:${body.text})`);
  form.size += body.size + 1;
  return form;
}

function joinBranches(branches: Branches): { text: string; size: number } {
  let size = branches.length;
  for (const { kind, size: own } of branches.flat()) {
    if (kind === 'ahead') throw new PatternRefused('a lookahead that does not follow a leading ^');
    size += own;
  }
  return { text: branches.map((branch) => branch.map(({ text }) => text).join('')).join('|'), size };
}

class PatternReader {
  readonly #chars: readonly string[];
  #at = 0;

  constructor(
    pattern: string,
    private readonly unicode: boolean,
  ) {
    this.#chars = [...pattern];
  }

  read(): Branches {
    const branches = this.#branches();
    if (this.#at < this.#chars.length) throw new PatternRefused('an unmatched )');
    return branches;
  }

  #branches(): Branches {
    const branches: Branches = [[]];
    for (let char = this.#chars[this.#at]; char !== undefined && char !== ')'; char = this.#chars[this.#at]) {
      if (char === '|') {
        this.#at += 1;
        branches.push([]);
      } else branches.at(-1)?.push(this.#quantified(this.#atom()));
    }
    return branches;
  }

  #atom(): Piece {
    const char = this.#take();
    switch (char) {
      case '^':
        return { kind: 'start', text: '^', size: 1 };
      case '$':
        return { kind: 'assertion', text: '$', size: 1 };
      case '.':
        return consuming(String.raw`[^\n\r\x{2028}\x{2029}]`);
      case '(':
        return this.#group();
      case '[':
        return consuming(this.#class());
      case '\\':
        return this.#escape();
      default:
        return consuming(literal(char));
    }
  }

  #group(): Piece {
    let lookbehind = '';
    let ahead: { negated: boolean } | undefined;
    if (this.#skip('?')) {
      if (this.#skip('=')) ahead = { negated: false };
      else if (this.#skip('!')) ahead = { negated: true };
      else if (this.#skip('<')) {
        if (this.#skip('=')) lookbehind = '?<=';
        else if (this.#skip('!')) lookbehind = '?<!';
        else while (this.#take() !== '>'); // a group name; backreferences are rejected, so it is not needed
      } else if (!this.#skip(':')) throw new PatternRefused('a group with modifiers');
    }
    const { text, size } = joinBranches(this.#branches());
    this.#take(); // )
    if (ahead) return { kind: 'ahead', text, size, negated: ahead.negated };
    if (lookbehind !== '') return { kind: 'assertion', text: `(${lookbehind}${text})`, size: size + 2 };
    return { kind: 'consuming', text: `(?:${text})`, size };
  }

  #quantified(piece: Piece): Piece {
    const count = this.#quantifier();
    if (!count) return piece;
    if (piece.kind !== 'consuming') throw new PatternRefused('a repeated assertion');
    const { text, least, most } = count;
    if (least > MAX_REPEAT || (most !== undefined && most > MAX_REPEAT))
      throw new PatternRefused(`a part repeated more than ${MAX_REPEAT} times`);
    const lazy = this.#skip('?') ? '?' : '';
    const copies = most === undefined ? Math.max(1, least) : Math.max(1, most);
    return { kind: 'consuming', text: `(?:${piece.text})${text}${lazy}`, size: copies * (piece.size + 1) };
  }

  #quantifier(): { text: string; least: number; most: number | undefined } | undefined {
    if (this.#skip('*')) return { text: '*', least: 0, most: undefined };
    if (this.#skip('+')) return { text: '+', least: 1, most: undefined };
    if (this.#skip('?')) return { text: '?', least: 0, most: 1 };
    if (this.#chars[this.#at] !== '{') return undefined;
    const counted = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#ahead(24));
    if (!counted) return undefined; // legal without the u flag: a brace
    this.#at += counted[0].length;
    const least = Number(counted[1]);
    if (counted[2] === undefined) return { text: counted[0], least, most: least };
    return { text: counted[0], least, most: counted[3] === '' ? undefined : Number(counted[3]) };
  }

  /** An escape outside a class; the backslash is read. */
  #escape(): Piece {
    const char = this.#chars[this.#at];
    if (char === 'b' || char === 'B') {
      this.#at += 1;
      return { kind: 'assertion', text: `\\${char}`, size: 1 };
    }
    const set = this.#setEscape();
    if (set !== undefined) return consuming(`[${set}]`);
    if (/[1-9k]/.test(char ?? '') && (this.unicode || char !== 'k')) throw new PatternRefused('a backreference');
    return consuming(literal(this.#charEscape()));
  }

  /** `\d`, `\s`, `\p{…}` and their negations, as the inside of a class; undefined for any other escape. */
  #setEscape(): string | undefined {
    const char = this.#chars[this.#at] ?? '';
    if (/[dDwW]/.test(char)) {
      this.#at += 1;
      return `\\${char}`;
    }
    if (char === 's' || char === 'S') {
      this.#at += 1;
      return char === 's' ? SPACE : NO_SPACE;
    }
    if (!this.unicode || (char !== 'p' && char !== 'P')) return undefined;
    const property = /^[pP]\{(?:(?:Script|sc|General_Category|gc)=)?(\w+)\}/.exec(this.#ahead(80));
    if (!property) throw new PatternRefused('a property of characters that is not known here');
    this.#at += property[0].length;
    return `\\${char}{${property[1] as string}}`;
  }

  /** Reads an escape that stands for one character. */
  #charEscape(): string {
    const rest = this.#ahead(14);
    const code =
      /^u\{([0-9a-fA-F]{1,6})\}/.exec(rest) ??
      /^u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(rest) ??
      /^u([0-9a-fA-F]{4})/.exec(rest) ??
      /^x([0-9a-fA-F]{2})/.exec(rest);
    if (code && (this.unicode || !rest.startsWith('u{'))) {
      this.#at += code[0].length;
      const first = Number.parseInt(code[1] as string, 16);
      if (code[2] === undefined) return String.fromCodePoint(first);
      return String.fromCharCode(first, Number.parseInt(code[2], 16));
    }
    const char = this.#take();
    if (char === '0') return '\0';
    if (char === 'c' && /^[A-Za-z]$/.test(this.#chars[this.#at] ?? ''))
      return String.fromCharCode(this.#take().charCodeAt(0) % 32);
    return CONTROLS[char] ?? char;
  }

  /** A class; its `[` is read. */
  #class(): string {
    const negated = this.#skip('^');
    let inside = '';
    while (!this.#skip(']')) {
      const from = this.#member();
      const isRange = this.#chars[this.#at] === '-' && (this.#chars[this.#at + 1] ?? ']') !== ']';
      if (!isRange || from.set !== undefined) {
        inside += from.set ?? literal(from.char);
        continue;
      }
      this.#at += 1;
      const to = this.#member();
      inside +=
        to.set === undefined ? `${literal(from.char)}-${literal(to.char)}` : `${literal(from.char)}\\-${to.set}`;
    }
    if (inside === '') return negated ? `[${ANY}]` : `[^${ANY}]`;
    return `[${negated ? '^' : ''}${inside}]`;
  }

  #member(): { set: string | undefined; char: string } {
    const char = this.#take();
    if (char !== '\\') return { set: undefined, char };
    const set = this.#setEscape();
    if (set !== undefined) return { set, char: '' };
    return { set, char: this.#skip('b') ? '\b' : this.#charEscape() };
  }

  #take(): string {
    const char = this.#chars[this.#at];
    if (char === undefined) throw new PatternRefused('an end too early');
    this.#at += 1;
    return char;
  }

  #skip(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at += 1;
    return true;
  }

  #ahead(length: number): string {
    return this.#chars.slice(this.#at, this.#at + length).join('');
  }
}

function consuming(text: string): Piece {
  return { kind: 'consuming', text, size: 1 };
}

/** Escapes one character for use inside and outside a class. */
function literal(char: string): string {
  return /^[A-Za-z0-9_]$/.test(char) ? char : `\\x{${(char.codePointAt(0) ?? 0).toString(16)}}`;
}
