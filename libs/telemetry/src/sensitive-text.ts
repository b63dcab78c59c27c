import { isUtf8 } from 'node:buffer';
import { isRandomText, secretName } from '@toolfleet/contracts/secret-names';
import { LinearPattern } from '@toolfleet/bounded-schema';
import { replaceLabelled, type LabelledValue } from './labelled-values.js';

/** Something that results should not show. */
interface SecretRule {
  kind: string;
  /** Part that every match contains, found far faster; texts without it are not searched. Bounded, so that it is linear as well. */
  hint: RegExp;
  pattern: LinearPattern;
  /** Confirms a match, such as by its check digit. */
  confirm?: (match: string) => boolean;
  /** The part of a match that stays; by default nothing. */
  keep?: (match: string) => string;
}

const rule = (kind: string, hint: RegExp, source: string, more: Partial<SecretRule> = {}): SecretRule => ({
  kind,
  hint,
  pattern: new LinearPattern(source),
  ...more,
});

const SECRETS: readonly SecretRule[] = [
  rule(
    'private key',
    /-----BEGIN/,
    '(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\\z)',
  ),
  rule('cloud key', /A[KS]IA|AIza/, '\\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35})\\b'),
  rule(
    'access token',
    /gh[pousr]_|github_pat_|glpat-|npm_|xox[abeoprs]-|sk[-_]|rk_/,
    '\\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36}|xox[abeoprs]-[A-Za-z0-9-]{10,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{20,})',
  ),
  rule('JSON web token', /eyJ/, '\\beyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}'),
  rule(
    'password in a URL',
    /:\/\/[^\s/]{0,300}@/,
    '\\b[a-z][a-z0-9+.-]{1,20}://[^\\s/:@"\']{1,100}:[^\\s/@"\']{1,200}@',
    {
      keep: (match) => match.slice(0, match.indexOf(':', match.indexOf('://') + 3) + 1),
    },
  ),
  rule('authorization', /bearer|basic/i, '(?i)\\b(?:bearer|basic) +[A-Za-z0-9._~+/-]{16,}=*', {
    keep: (match) => match.slice(0, match.indexOf(' ') + 1),
  }),
];

const PERSONAL_DATA: readonly SecretRule[] = [
  rule('email address', /@/, '(?i)\\b[a-z0-9._%+-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?\\.[a-z]{2,24}\\b'),
  rule(
    'bank account',
    /[A-Z]{2}\d{2} ?[A-Z0-9]{4}/,
    '\\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\\b',
    {
      confirm: isIban,
    },
  ),
  // After bank accounts: these can contain one.
  rule('card number', /\d(?:[ -]?\d){12}/, '\\b[0-9](?:[ -]?[0-9]){12,18}\\b', { confirm: isCardNumber }),
  rule('social security number', /\d{3}-\d{2}-\d/, '\\b[0-9]{3}-[0-9]{2}-[0-9]{4}\\b', {
    confirm: (match) => !/^(?:000|666|9)|-00-|-0000$/.test(match),
  }),
  rule('phone number', /\+\d/, '\\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}\\b'),
];

/** What to find. `patterns`: the operator's own, by name. */
interface Sensitive {
  find: readonly ('secrets' | 'personal_data')[];
  patterns?: { readonly [name: string]: string };
  /** What stands for a removed value; default `[<kind> removed]`. */
  shown?: (kind: string) => string;
}

/** Levels of encodings that are looked into: base64 of a URL-encoded text has two. */
const MAX_ENCODINGS = 3;
const PASSWORD = 'password';
/** Runs of base64: lines of a MIME body, or one word. */
const BASE64 = /(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}|[A-Za-z0-9+/_-]{16,}={0,2}/g;
/** Characters that are decoded to see whether a run is a text. */
const FIRST = 64;
const WORD = /[^\s"'<>]+/g;
const ESCAPES = /(?:%[0-9A-Fa-f]{2})+/g;
/** Smaller numbers hold nothing that the built-in rules find. */
const LARGE = 1e12;

/**
 * Replaces secrets and personal data in texts by `[<kind> removed]`. All patterns run in linear time, so that a hostile tool cannot
 * stop the gateway with a text.
 */
export class SensitiveText {
  readonly #shapes: readonly SecretRule[];
  readonly #personal: readonly SecretRule[];
  readonly #findsSecrets: boolean;
  readonly #hasPatterns: boolean;
  readonly #shown: (kind: string) => string;

  constructor({ find, patterns = {}, shown = (kind) => `[${kind} removed]` }: Sensitive) {
    const own = Object.entries(patterns).map(([name, source]) => rule(name, /(?:)/, source));
    this.#findsSecrets = find.includes('secrets');
    this.#hasPatterns = own.length > 0;
    this.#shapes = [...own, ...(this.#findsSecrets ? SECRETS : [])];
    this.#personal = find.includes('personal_data') ? PERSONAL_DATA : [];
    this.#shown = shown;
  }

  /**
   * The text without the matches; their kinds are added to `found`; the same text when there is nothing. Looks into URL encoding and
   * base64, and encodes changed parts again.
   */
  mask(text: string, found: Set<string>): string {
    return this.#mask(text, found, MAX_ENCODINGS);
  }

  /** The text without values that have the form of a secret, whatever is in front of them. */
  maskShapes(text: string, found: Set<string>): string {
    return this.#replace(this.#shapes, text, found);
  }

  /** Base64 of a file: masked if it is a text, unchanged otherwise. */
  maskFile(base64: string, found: Set<string>): string {
    return this.#maskBase64(base64, found, MAX_ENCODINGS);
  }

  /** A number as its digits are masked; the number when there is nothing. */
  maskNumber(value: number, found: Set<string>): number | string {
    if (!this.#hasPatterns && Math.abs(value) < LARGE) return value;
    const digits = String(value);
    const masked = this.#mask(digits, found, 0);
    return masked === digits ? value : masked;
  }

  /** Whether a value is a secret because of the name of its member. */
  isSecretMember(name: string, value: string): boolean {
    return this.#findsSecrets && isSecretValue(name, value);
  }

  #mask(text: string, found: Set<string>, encodings: number): string {
    let masked = this.#replace(this.#shapes, text, found);
    if (this.#findsSecrets)
      masked = replaceLabelled(masked, isLabel, (labelled) => this.#maskLabelled(labelled, found));
    masked = this.#replace(this.#personal, masked, found);
    if (encodings === 0) return masked;
    if (masked.includes('%') || masked.includes('+'))
      masked = masked.replaceAll(WORD, (word) => this.#maskUrl(word, found, encodings));
    return masked.replaceAll(BASE64, (run) => this.#maskBase64(run, found, encodings));
  }

  #replace(rules: readonly SecretRule[], text: string, found: Set<string>): string {
    let masked = text;
    for (const { kind, hint, pattern, confirm, keep } of rules) {
      if (!hint.test(masked)) continue;
      masked = pattern.replace(masked, (match) => {
        if (confirm && !confirm(match)) return match;
        found.add(kind);
        return `${keep?.(match) ?? ''}${this.#shown(kind)}`;
      });
    }
    return masked;
  }

  #maskLabelled({ name, value, form }: LabelledValue, found: Set<string>): string | undefined {
    if (value.length < MIN_LABELLED || isRemoved(value)) return undefined;
    if (form === 'plain' && !isPlainSecret(name, value)) return undefined;
    if (!isSecretValue(name, value)) return undefined;
    found.add(PASSWORD);
    return this.#shown(PASSWORD);
  }

  #maskUrl(word: string, found: Set<string>, encodings: number): string {
    if (!word.includes('%') && !word.includes('+')) return word;
    const decoded = word.replaceAll('+', ' ').replaceAll(ESCAPES, decodeEscapes);
    const masked = this.#mask(decoded, found, encodings - 1);
    return masked === decoded ? word : encodeURI(masked);
  }

  #maskBase64(run: string, found: Set<string>, encodings: number): string {
    if (!isPrintable(Buffer.from(run.slice(0, FIRST), 'base64').subarray(0, -4))) return run;
    const bytes = Buffer.from(run, 'base64');
    if (!isPrintable(bytes)) return run;
    const decoded = bytes.toString();
    const masked = this.#mask(decoded, found, encodings - 1);
    return masked === decoded ? run : Buffer.from(masked).toString(/[-_]/.test(run) ? 'base64url' : 'base64');
  }
}

/** Longer values are more than a scheme and the name of a kind. */
const MAX_REMOVED = 300;
/** Whether an earlier rule removed the value. */
const isRemoved = (value: string): boolean =>
  value.length < MAX_REMOVED && /^\s*(?:bearer|basic)?\s*$/i.test(value.replaceAll(/\[[^[\]]{1,64} removed\]/g, ''));

/** Shorter values in texts are words. */
const MIN_LABELLED = 3;
const isLabel = (name: string) => (secretName(name) === undefined ? undefined : 'texts');

/** Whether a value is a secret by its name, or by its name and its look. */
function isSecretValue(name: string, value: string): boolean {
  const kind = secretName(name);
  return kind === 'secret' || (kind === 'label' && isRandomText(value));
}

/** Whether an unquoted value may be a secret: code and documents say `token: string`. */
function isPlainSecret(name: string, value: string): boolean {
  if (value.length >= 20) return true;
  if (/^(?:true|false|null|none)$/i.test(value)) return false;
  return /[^A-Za-z.:]/.test(value) || (value.length >= 4 && /passw|passphrase|pwd|key$/i.test(name));
}

function decodeEscapes(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    return run;
  }
}

/** Whether bytes are a text that people read. */
function isPrintable(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  // oxlint-disable-next-line no-control-regex -- texts have none
  return !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(bytes.toString());
}

/** Luhn's check digit (ISO/IEC 7812-1). */
function isCardNumber(match: string): boolean {
  const digits = match.replaceAll(/\D/g, '');
  const sum = [...digits].toReversed().reduce((total, digit, index) => {
    const value = Number(digit) * (index % 2 === 0 ? 1 : 2);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0 && !/^0+$/.test(digits);
}

/** The check digits of ISO 13616: the number, with letters as 10 to 35, leaves 1 when divided by 97. */
function isIban(match: string): boolean {
  const account = match.replaceAll(' ', '');
  if (account.length < 15 || account.length > 34) return false;
  const moved = account.slice(4) + account.slice(0, 4);
  let rest = 0;
  for (const character of moved) rest = Number(`${rest}${parseInt(character, 36)}`) % 97;
  return rest === 1;
}
