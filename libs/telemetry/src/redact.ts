/**
 * Keeps secrets out of everything the process writes. Secrets are registered with the encodings in which they may appear; `redact`
 * replaces them in any outgoing string: logs, spans, errors, audit.
 */

import { secretName } from '@toolfleet/contracts/secret-names';

/** Replacement of a removed value. */
const REDACTED = '[redacted]';

/** Shorter values would also match ordinary words. */
const MIN_SECRET_LENGTH = 6;

/**
 * Registers a secret value with the forms in which it may be echoed (`formsOf`); of a Basic credential also user and password. Values under
 * 6 characters are ignored.
 */
export function registerSecret(value: string): void {
  for (const form of formsOf(value)) registered.add(form);
}

/**
 * A secret unchanged, escaped for JSON once and twice, with every escape of JSON, URL-encoded, in hex, reversed, and in base64 at each
 * position that it may have in a longer text.
 */
function formsOf(value: string): Set<string> {
  const found = new Set<string>();
  for (const part of [value, ...basicParts(value)]) {
    if (part.length < MIN_SECRET_LENGTH) continue;
    const bytes = Buffer.from(part, 'utf8');
    const escaped = JSON.stringify(part).slice(1, -1);
    const unicode = part.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const plain = [part, [...part].toReversed().join(''), escaped, escaped.replaceAll('/', '\\/'), unicode];
    const inUrls = [
      encodeURIComponent(part),
      new URLSearchParams({ v: part }).toString().slice(2),
      percentEncoded(bytes),
    ];
    const texts = [...plain, ...plain.map((one) => JSON.stringify(one).slice(1, -1)), bytes.toString('hex'), ...inUrls];
    const encoded = [bytes, Buffer.from(escaped)].flatMap(base64Forms);
    for (const text of [...texts, ...inUrls.map(lowerEscapes), bytes.toString('hex').toUpperCase(), ...encoded])
      if (text.length >= MIN_SECRET_LENGTH) found.add(text);
  }
  return found;
}

const percentEncoded = (bytes: Buffer): string => bytes.toString('hex').toUpperCase().replaceAll(/../g, '%$&');
const lowerEscapes = (text: string): string => text.replaceAll(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase());

/** User and password, and the password, of `Basic <base64>` (RFC 7617). */
function basicParts(value: string): string[] {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+=*)$/i.exec(value) ?? [];
  if (encoded === undefined) return [];
  const pair = Buffer.from(encoded, 'base64').toString();
  return [encoded, pair, pair.slice(pair.indexOf(':') + 1)];
}

/**
 * The characters of base64 that only depend on these bytes, behind 0, 1 or 2 other ones, in both alphabets: before other bytes, and at the
 * end of a text.
 */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const start = Math.ceil((before * 4) / 3);
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .slice(start);
    const fixed = text.slice(0, Math.floor(((before + bytes.length) * 4) / 3) - start);
    return [fixed, text.replace(/=+$/, ''), text].flatMap((form) => [
      form,
      form.replaceAll('+', '-').replaceAll('/', '_'),
    ]);
  });
}

/** Slots of the table by pairs of characters; each pair of ASCII has its own. */
const SLOTS = 2 ** 14;
const slotOf = (first: number, second: number): number => ((first << 7) ^ second) & (SLOTS - 1);
/** Positions by which a search moves on over a pair that no beginning of a form has. */
const LONGEST_STEP = MIN_SECRET_LENGTH - 1;

/**
 * Texts that are searched for together, in one pass over a text whatever their number, that reads a fraction of its characters (Wu and Manber, 1994:
 * "A fast algorithm for multi-pattern searching", with the first characters of each form and pairs as blocks).
 */
class SecretForms {
  /** By the hash of their beginning, the first `MIN_SECRET_LENGTH` characters. */
  readonly #byBeginning = new Map<number, string[]>();
  /** By slot: by how much the end of the next beginning is at least behind this pair; 0: one may end with the pair. */
  readonly #steps = new Uint8Array(SLOTS).fill(LONGEST_STEP);

  add(form: string): void {
    for (let at = 0; at < LONGEST_STEP; at += 1) {
      const slot = slotOf(form.charCodeAt(at), form.charCodeAt(at + 1));
      this.#steps[slot] = Math.min(this.#steps[slot] as number, LONGEST_STEP - 1 - at);
    }
    const hash = hashOf(form, 0);
    const others = this.#byBeginning.get(hash) ?? [];
    if (others.includes(form)) return;
    // Longest first, so that a secret that contains another one is replaced as a whole.
    this.#byBeginning.set(
      hash,
      [...others, form].toSorted((a, b) => b.length - a.length),
    );
  }

  /** The text with `[redacted]` for each form; undefined when it has none. */
  redact(text: string): string | undefined {
    if (this.#byBeginning.size === 0) return undefined;
    const steps = this.#steps;
    let redacted: string | undefined;
    let done = 0;
    // The pair at which a beginning would end. `slotOf` written out: all that this process writes passes here.
    for (let at = LONGEST_STEP - 1; at + 1 < text.length;) {
      const step = steps[((text.charCodeAt(at) << 7) ^ text.charCodeAt(at + 1)) & (SLOTS - 1)] as number;
      if (step > 0) {
        at += step;
        continue;
      }
      const start = at + 1 - LONGEST_STEP;
      const form = this.#byBeginning.get(hashOf(text, start))?.find((one) => text.startsWith(one, start));
      if (form === undefined) {
        at += 1;
        continue;
      }
      redacted = (redacted ?? '') + text.slice(done, start) + REDACTED;
      done = start + form.length;
      at = done + LONGEST_STEP - 1;
    }
    return redacted === undefined ? undefined : redacted + text.slice(done);
  }
}

function hashOf(text: string, from: number): number {
  let hash = 0;
  for (let at = from; at < from + MIN_SECRET_LENGTH; at += 1)
    hash = (Math.imul(hash, 0x01000193) + text.charCodeAt(at)) | 0;
  return hash;
}

const registered = new SecretForms();

/**
 * Redacts one secret from texts that may hold it. For secrets of users: there are too many to search every text of the process for all.
 * @returns a function that gives undefined for a text without the secret
 */
export function redactorOf(value: string): (text: string) => string | undefined {
  return (text) => {
    const own = new SecretForms();
    for (const form of formsOf(value)) own.add(form);
    return own.redact(text);
  };
}

/** Replaces every registered secret, in any of its forms, by `[redacted]`. */
export function redact(text: string): string {
  return registered.redact(text) ?? text;
}

/** True when `text` contains a registered secret in any form. */
export function holdsSecret(text: string): boolean {
  return registered.redact(text) !== undefined;
}

/** Substitute for a secret in the log of settings. */
const ORIGIN = /^\(secret from [\w ]+\)$/;

/** Levels that are searched: the record, its values, their values (`error.headers.authorization`), and lists in them. */
const MAX_DEPTH = 4;

/**
 * A log record without the values of secret fields. Own code and not pino's `redact` paths: those compile to a walk of
 * every path on every line: a fifth of the gateway's CPU per call.
 */
export function redactSecretFields(record: Record<string, unknown>): Record<string, unknown> {
  return redactedRecord(record, 1);
}

function redactedRecord(record: Record<string, unknown>, depth: number): Record<string, unknown> {
  let copy: Record<string, unknown> | undefined;
  for (const key in record) {
    const value = record[key];
    // Most fields are texts and numbers with one of a few names.
    if (harmless.has(key) && typeof value !== 'object') continue;
    const shown = namesSecret(key, value) ? REDACTED : redactedField(value, depth);
    if (shown !== value) (copy ??= { ...record })[key] = shown;
  }
  return copy ?? record;
}

/** Names of fields that are not secret. */
const harmless = new Set<string>();
const MAX_HARMLESS = 500;

function namesSecret(name: string, value: unknown): boolean {
  if (secretName(name) === 'secret')
    return typeof value !== 'boolean' && !(typeof value === 'string' && ORIGIN.test(value));
  if (harmless.size < MAX_HARMLESS) harmless.add(name);
  return false;
}

function redactedField(value: unknown, depth: number): unknown {
  if (depth >= MAX_DEPTH) return value;
  if (isRecord(value)) return redactedRecord(value, depth + 1);
  if (!Array.isArray(value)) return value;
  const shown: unknown[] = value.map((item) => redactedField(item, depth + 1));
  return shown.some((item, index) => item !== value[index]) ? shown : value;
}

/** Plain objects only; errors, dates and the like have serializers. */
function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
