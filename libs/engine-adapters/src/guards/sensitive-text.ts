import { LinearPattern } from '@toolfleet/schema';

/** Something that results should not show. */
interface Rule {
  kind: string;
  /** Part that every match contains, found far faster; texts without it are not searched. Bounded, so that it is linear as well. */
  hint: RegExp;
  pattern: LinearPattern;
  /** Whether a match is what it looks like, such as by its check digit. */
  confirm?: (match: string) => boolean;
  /** The part of a match that stays; by default nothing. */
  keep?: (match: string) => string;
}

const rule = (kind: string, hint: RegExp, source: string, more: Partial<Rule> = {}): Rule => ({
  kind,
  hint,
  pattern: new LinearPattern(source),
  ...more,
});

/** Names whose values are secrets, in assignments and as members of objects. */
const SECRET_NAME =
  'passw(?:or)?d|passphrase|pwd|client[_-]?secret|secret[_-]?(?:access[_-]?)?key|api[_-]?key|private[_-]?key|access[_-]?token|refresh[_-]?token|auth[_-]?token';
const IS_SECRET_NAME = new RegExp(`(?:^|[_-])(?:${SECRET_NAME})$`, 'i');

const SECRETS: readonly Rule[] = [
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
  rule(
    'password',
    /passw|passphrase|pwd|secret|(?:api|private)[_-]?key|(?:access|refresh|auth)[_-]?token/i,
    `(?i)\\b[a-z0-9_-]{0,40}(?:${SECRET_NAME})\\\\?["']?\\s{0,5}[:=]\\s{0,5}(?:\\\\?"[^"\\\\]{4,}|'[^']{4,}|[^\\s"'\\\\,;}&\\[]{4,})`,
    {
      keep: (match) => /^[^:=]*[:=]\s*(?:\\?["'])?/.exec(match)?.[0] ?? '',
      confirm: (match) => !match.endsWith(REMOVED_END),
    },
  ),
];

const PERSONAL_DATA: readonly Rule[] = [
  rule('email address', /@/, '(?i)\\b[a-z0-9._%+-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?\\.[a-z]{2,24}\\b'),
  rule(
    'bank account',
    /[A-Z]{2}\d{2} ?[A-Z0-9]{4}/,
    '\\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\\b',
    {
      confirm: isIban,
    },
  ),
  // After bank accounts, which can contain one.
  rule('card number', /\d(?:[ -]?\d){12}/, '\\b[0-9](?:[ -]?[0-9]){12,18}\\b', { confirm: isCardNumber }),
  rule('social security number', /\d{3}-\d{2}-\d/, '\\b[0-9]{3}-[0-9]{2}-[0-9]{4}\\b', {
    confirm: (match) => !/^(?:000|666|9)|-00-|-0000$/.test(match),
  }),
  rule('phone number', /\+\d/, '\\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}\\b'),
];

const REMOVED_END = ' removed]';

/** What to find. `patterns`: the operator's own, by name. */
interface Sensitive {
  find: readonly ('secrets' | 'personal_data')[];
  patterns: { readonly [name: string]: string };
}

/**
 * Replaces secrets and personal data in texts by `[<kind> removed]`. All patterns run in linear time, so that a hostile tool cannot
 * stop the gateway with a text.
 */
export class SensitiveText {
  readonly #rules: readonly Rule[];
  readonly #findsSecrets: boolean;

  constructor({ find, patterns }: Sensitive) {
    this.#findsSecrets = find.includes('secrets');
    this.#rules = [
      ...Object.entries(patterns).map(([name, source]) => rule(name, /(?:)/, source)),
      ...(this.#findsSecrets ? SECRETS : []),
      ...(find.includes('personal_data') ? PERSONAL_DATA : []),
    ];
  }

  /** The text without what was found, whose kinds are added to `found`; the same text when there is nothing. */
  mask(text: string, found: Set<string>): string {
    let masked = text;
    for (const { kind, hint, pattern, confirm, keep } of this.#rules) {
      if (!hint.test(masked)) continue;
      masked = pattern.replace(masked, (match) => {
        if (confirm && !confirm(match)) return match;
        found.add(kind);
        return `${keep?.(match) ?? ''}[${kind}${REMOVED_END}`;
      });
    }
    return masked;
  }

  /** Whether the text in a member of this name is a secret whatever it looks like. */
  isSecretMember(name: string): boolean {
    return this.#findsSecrets && IS_SECRET_NAME.test(name);
  }
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
