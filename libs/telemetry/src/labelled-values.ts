/**
 * Values with a name in front of them in any text: JSON, JSON inside JSON, headers, queries, assignments, logs. The text need not be
 * complete or valid. Each character is read a constant number of times, so the time is linear whatever the text is.
 */

/** Longest name before a separator, and most spaces around one, in UTF-16 units. */
const MAX_NAME = 64;
const MAX_SPACES = 5;
/** Headers with an unquoted value that ends with its line, not with a word. */
const LINE_VALUE = /(?:authorization|cookie)$/i;
const WORD_END = /[\s"'\\,;&<>)}\]]/g;
const LINE_END = /[\r\n"'\\]/g;

/** A value and where it stands, without quotes. `nested`: a JSON object or array. */
export interface LabelledValue {
  name: string;
  value: string;
  form: 'quoted' | 'nested' | 'plain';
  /** Index of the separator after the name. */
  at: number;
}

/**
 * The text with the values replaced for which `replace` returns one.
 * @param isWanted decides by the name and the index of its separator, because most names are not; `texts`: no objects and arrays. Those that are
 *   `any` must be replaced, or nested ones would be read again and again
 */
export function replaceLabelled(
  text: string,
  isWanted: (name: string, at: number) => 'any' | 'texts' | undefined,
  replace: (found: LabelledValue) => string | undefined,
): string {
  let replaced = '';
  let done = 0;
  // Where the word ends that was read last: words in it end there too.
  let wordEnd = -1;
  let [colon, equals] = [text.indexOf(':'), text.indexOf('=')];
  while (colon >= 0 || equals >= 0) {
    const at = colon < 0 || (equals >= 0 && equals < colon) ? equals : colon;
    let next = at + 1;
    const name = nameBefore(text, at, done);
    const wanted = name === undefined ? undefined : isWanted(name, at);
    if (name !== undefined && wanted) {
      const { from, to, form } = valueAfter(text, next, name, wanted === 'any', wordEnd);
      if (form === 'plain' && !LINE_VALUE.test(name)) wordEnd = to;
      const shown = from < to ? replace({ name, value: text.slice(from, to), form, at }) : undefined;
      if (shown !== undefined) {
        replaced += text.slice(done, from) + shown;
        done = to;
      }
      // Lines are read once, also those that stay.
      if (shown !== undefined || (form === 'plain' && LINE_VALUE.test(name))) next = Math.max(next, to);
    }
    if (colon >= 0 && colon < next) colon = text.indexOf(':', next);
    if (equals >= 0 && equals < next) equals = text.indexOf('=', next);
  }
  return done === 0 ? text : replaced + text.slice(done);
}

/** The name in front of a separator: quoted, at any level of escaping, or unquoted with spaces; it begins at `from` or later. */
function nameBefore(text: string, separator: number, from: number): string | undefined {
  const first = Math.max(from, separator - MAX_NAME - MAX_SPACES);
  let end = separator;
  while (end > Math.max(first, separator - MAX_SPACES) && isSpace(text, end - 1)) end -= 1;
  const quote = text.charCodeAt(end - 1);
  let start = end;
  if (quote !== DOUBLE && quote !== SINGLE) {
    while (start > first && isNamePart(text.charCodeAt(start - 1))) start -= 1;
    return start === end ? undefined : text.slice(start, end).trim();
  }
  end -= 1;
  while (end > first && text.charCodeAt(end - 1) === BACKSLASH) end -= 1;
  for (start = end; start > first && text.charCodeAt(start - 1) !== quote;) start -= 1;
  return start > first ? text.slice(start, end) : undefined;
}

const [DOUBLE, SINGLE, BACKSLASH] = [0x22, 0x27, 0x5c];

/** Letters, digits, `_`, `.`, `$`, `-` and spaces. */
function isNamePart(code: number): boolean {
  const isLetter = (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
  return (
    isLetter ||
    (code >= 0x30 && code <= 0x39) ||
    code === 0x20 ||
    code === 0x2d ||
    code === 0x2e ||
    code === 0x5f ||
    code === 0x24
  );
}

function valueAfter(
  text: string,
  from: number,
  name: string,
  nested: boolean,
  wordEnd: number,
): { from: number; to: number; form: LabelledValue['form'] } {
  let start = from;
  while (start < from + MAX_SPACES && isSpace(text, start)) start += 1;
  let quoteAt = start;
  while (text[quoteAt] === '\\') quoteAt += 1;
  const quote = text[quoteAt];
  if (quote === '"' || quote === "'") {
    const escapes = quoteAt - start;
    const end = endOfQuoted(text, quoteAt, escapes);
    return { from: quoteAt + 1, to: end < text.length ? Math.max(quoteAt + 1, end - escapes) : end, form: 'quoted' };
  }
  if (quote === '{' || quote === '[')
    return { from: start, to: nested ? endOfNested(text, start) : start, form: 'nested' };
  const isLine = LINE_VALUE.test(name);
  if (!isLine && start <= wordEnd) return { from: start, to: wordEnd, form: 'plain' };
  const end = isLine ? LINE_END : WORD_END;
  end.lastIndex = start;
  return { from: start, to: end.exec(text)?.index ?? text.length, form: 'plain' };
}

/** The closing quote of a text, behind as many backslashes as its opening one or fewer; the end of the text if there is none. */
function endOfQuoted(text: string, quoteAt: number, escapes: number): number {
  const quote = text[quoteAt]!;
  for (let at = text.indexOf(quote, quoteAt + 1); at >= 0; at = text.indexOf(quote, at + 1)) {
    let before = at;
    while (before > quoteAt + 1 && text[before - 1] === '\\') before -= 1;
    const count = at - before;
    // Pairs of backslashes are backslashes of the text itself.
    if (count <= escapes || (count - escapes) % (2 * (escapes + 1)) === 0) return at;
  }
  return text.length;
}

/** The end of an object or array, or of the text. Brackets inside texts do not count. */
function endOfNested(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfQuoted(text, at, escapesBefore(text, at));
    else if (character === '{' || character === '[') depth += 1;
    else if ((character === '}' || character === ']') && (depth -= 1) === 0) return at + 1;
  }
  return text.length;
}

function escapesBefore(text: string, at: number): number {
  let before = at;
  while (before > 0 && text[before - 1] === '\\') before -= 1;
  return at - before;
}

function isSpace(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}
