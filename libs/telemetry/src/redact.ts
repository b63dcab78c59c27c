/**
 * Keeps secrets out of everything the process writes. Secrets are registered with the encodings in which they may appear; `redact`
 * replaces them in any outgoing string: logs, spans, errors, audit.
 */

/** Replacement of a removed value. */
const REDACTED = '[redacted]';

/** Shorter values would also match ordinary words. */
const MIN_SECRET_LENGTH = 6;

const forms = new Set<string>();
let pattern: RegExp | undefined;

/** Registers a secret value and its base64, base64url, URL-encoded, JSON-escaped and hex forms. Values under 6 characters are ignored. */
export function registerSecret(value: string): void {
  for (const form of formsOf(value)) forms.add(form);
  pattern = undefined;
}

function formsOf(value: string): Set<string> {
  if (value.length < MIN_SECRET_LENGTH) return new Set();
  const bytes = Buffer.from(value, 'utf8');
  const found = [
    value,
    // Without padding, so that the value is also found at the start of a longer encoded text.
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    encodeURIComponent(value),
    new URLSearchParams({ v: value }).toString().slice(2),
    JSON.stringify(value).slice(1, -1),
    bytes.toString('hex'),
  ];
  return new Set(found.filter((form) => form.length >= MIN_SECRET_LENGTH));
}

/**
 * Redacts one secret from texts that may hold it. For secrets of users: there are too many to search every text of the process for all.
 * @returns a function that gives undefined for a text without the secret
 */
export function redactorOf(value: string): (text: string) => string | undefined {
  const own = formsOf(value);
  let found: RegExp | undefined;
  return (text) => {
    if (![...own].some((form) => text.includes(form))) return undefined;
    return text.replace((found ??= compile(own)), REDACTED);
  };
}

/** Replaces every registered secret, in any of its forms, by `[redacted]`. */
export function redact(text: string): string {
  // Nearly every text is clean, and a search is several times cheaper than the expression.
  if (!holdsSecret(text)) return text;
  pattern ??= compile(forms);
  return text.replace(pattern, REDACTED);
}

/** True when `text` contains a registered secret in any form. */
export function holdsSecret(text: string): boolean {
  for (const form of forms) if (text.includes(form)) return true;
  return false;
}

/** Longest first, so that a secret that contains another one is replaced as a whole. */
function compile(of: ReadonlySet<string>): RegExp {
  const ordered = [...of].toSorted((a, b) => b.length - a.length);
  return new RegExp(ordered.map((form) => form.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')).join('|'), 'g');
}

/** Fields whose values are removed, whatever their value: lower case. */
export const SECRET_FIELDS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'password',
  'secret',
  'token',
  'api_key',
  'apikey',
  'x-api-key',
  'access_token',
  'refresh_token',
  'client_secret',
  'delegation_token',
  'grant_token',
]);
/** Levels that are searched: the record, its values, their values (`error.headers.authorization`), and lists in them. */
const MAX_DEPTH = 4;

/**
 * A log record without the values of secret fields. Own code and not pino's `redact` paths: those compile to a walk of
 * every path on every line, which measured a fifth of the gateway's CPU per call.
 */
export function redactSecretFields(record: Record<string, unknown>): Record<string, unknown> {
  return redactedRecord(record, 1);
}

function redactedRecord(record: Record<string, unknown>, depth: number): Record<string, unknown> {
  let copy: Record<string, unknown> | undefined;
  for (const key in record) {
    const value = record[key];
    const shown = isSecret(key) ? REDACTED : redactedField(value, depth);
    if (shown !== value) (copy ??= { ...record })[key] = shown;
  }
  return copy ?? record;
}

function redactedField(value: unknown, depth: number): unknown {
  if (depth >= MAX_DEPTH) return value;
  if (isRecord(value)) return redactedRecord(value, depth + 1);
  if (!Array.isArray(value)) return value;
  const shown: unknown[] = value.map((item) => redactedField(item, depth + 1));
  return shown.some((item, index) => item !== value[index]) ? shown : value;
}

/** Whether the names seen so far are secret; most lines have the same few. */
const knownNames = new Map<string, boolean>();
/** Bound, because names may come from headers of other parties. */
const MAX_KNOWN_NAMES = 1_000;

function isSecret(key: string): boolean {
  const known = knownNames.get(key);
  if (known !== undefined) return known;
  const isSecretName = SECRET_FIELDS.has(key.toLowerCase());
  if (knownNames.size < MAX_KNOWN_NAMES) knownNames.set(key, isSecretName);
  return isSecretName;
}

/** Plain objects only; errors, dates and the like have serializers. */
function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
