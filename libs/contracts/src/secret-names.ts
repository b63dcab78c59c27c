/**
 * Names whose values are secrets, for everything that removes them: logs, spans, kept arguments and results, interceptors. The list follows the
 * default scrubbers of Sentry (`password`, `secret`, `passwd`, `api_key`, `credentials`, `private_key`, `token`, `bearer`, …), the sensitive
 * authentication data of PCI DSS (`cvv`, `pin`) and one-time codes. `session_id` is missing: in this fleet it is not a credential.
 */

/** Ends of a name in lower case without separators: `DB_PASSWORD`, `clientSecret`, `x-api-key`. */
const SECRET_ENDS =
  /(?:password|passwd|passphrase|passcode|pwd|credentials?|authorization|connectionstring|clientsecret|(?:api|access|secret|private|signing|encryption|master|account|subscription)key|(?:access|refresh|auth|id|session|bearer|api|csrf|xsrf|delegation|grant)token|(?:auth|authorization|otp|mfa|verification|security)code)$/;
/** Last words of a name. */
const SECRET_WORDS: ReadonlySet<string> = new Set(
  'secret token bearer jwt cookie cookies pin otp totp cvv cvc csc ssn pass'.split(' '),
);
/** Words before `token` in names of positions in a list, and of progress. */
const POSITIONS: ReadonlySet<string> = new Set(
  'page next previous prev continuation sync cursor resume start delta progress max'.split(' '),
);
/** Last words that say how the value is written, or that it is a repetition. */
const FORMS: ReadonlySet<string> = new Set(
  'value text string hash base64 b64 hex plain plaintext confirm confirmation repeat'.split(' '),
);
/** Last words of names with values that are secrets if they look random (`isRandomText`). */
const LABELS: ReadonlySet<string> = new Set('key keys auth sig signature session sid hmac code seed'.split(' '));

/** `secret`: the value is one, whatever it looks like. `label`: it is one if it looks random. */
export type SecretName = 'secret' | 'label' | undefined;

/** Contained in every name with an answer; to look for it is far faster than to split the name. */
const HINT =
  /pass|pwd|secret|token|key|credential|auth|cookie|jwt|bearer|pin|otp|cv[vc]|csc|ssn|code|sig|session|sid|hmac|seed|connection/i;

/** Names with a remembered answer; most bodies and log lines have the same few. */
const MAX_KNOWN = 2_000;
/** Longer names are data. */
const MAX_NAME = 128;
const known = new Map<string, SecretName>();

/** The kind of value that a name announces, without regard to case, `_`, `-`, `.`, spaces and camelCase. */
export function secretName(name: string): SecretName {
  if (!HINT.test(name)) return undefined;
  if (known.has(name)) return known.get(name);
  const answer = name.length > MAX_NAME ? undefined : classify(wordsOf(name));
  if (known.size < MAX_KNOWN) known.set(name, answer);
  return answer;
}

/** A name in the form in which names are compared: `client_secret`, `clientSecret` and `Client-Secret` are `clientsecret`. */
export function plainName(name: string): string {
  return name.replaceAll(/[^\p{L}\p{N}]+/gu, '').toLowerCase();
}

function classify(words: string[]): SecretName {
  const last = words.at(-1)?.replace(/\d+$/, '') ?? '';
  const joined = words.join('').replace(/\d+$/, '');
  if (last === 'token' && POSITIONS.has(words.at(-2) ?? '')) return undefined;
  if (SECRET_WORDS.has(last) || SECRET_ENDS.test(joined)) return 'secret';
  const form = words.length > 1 && FORMS.has(words.at(-1)!) ? classify(words.slice(0, -1)) : undefined;
  return form ?? (LABELS.has(last) ? 'label' : undefined);
}

function wordsOf(name: string): string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}

const TOKEN = /^[A-Za-z0-9+/=_.~-]{20,}$/;
const HEX = /^[0-9a-f]{32,}$/i;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Bits of Shannon entropy for each character. Random base64 of 20 characters has 4 and more; words and paths have less. */
const RANDOM_BITS = 4;
/** Keys are shorter. */
const MAX_KEY = 512;

/** Whether a text looks like a random key: base64 or hex without words, and no UUID. */
export function isRandomText(text: string): boolean {
  if (text.length > MAX_KEY || !TOKEN.test(text) || UUID.test(text) || !/\d/.test(text) || !/[A-Za-z]/.test(text))
    return false;
  return HEX.test(text) || entropyOf(text) >= RANDOM_BITS;
}

function entropyOf(text: string): number {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}
