/**
 * Secrets never leave the process in text. Every secret the configuration loads is registered here with
 * the forms it may take on its way out; `redact` replaces them in any outgoing string: logs, spans, errors, audit.
 */

/** What a removed value reads as. */
export const REDACTED = '[redacted]';

/** Shorter values would also hit ordinary words; the configuration refuses secrets below this length in its own rules. */
const MIN_SECRET_LENGTH = 6;

const forms = new Set<string>();
let pattern: RegExp | undefined;

/** Registers a secret value and its base64, base64url, URL-encoded, JSON-escaped and hex forms. Values under 6 characters are ignored. */
export function registerSecret(value: string): void {
  if (value.length < MIN_SECRET_LENGTH) return;
  const bytes = Buffer.from(value, 'utf8');
  const found = [
    value,
    // The value may stand inside a longer encoded text; cutting the last group keeps the part that does not depend on its neighbours.
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    encodeURIComponent(value),
    new URLSearchParams({ v: value }).toString().slice(2),
    JSON.stringify(value).slice(1, -1),
    bytes.toString('hex'),
  ];
  for (const form of found) if (form.length >= MIN_SECRET_LENGTH) forms.add(form);
  pattern = undefined;
}

/** Replaces every registered secret, in any of its forms, by `[redacted]`. */
export function redact(text: string): string {
  // Nearly every text is clean, and looking is several times cheaper than the expression.
  if (!holdsSecret(text)) return text;
  pattern ??= compile();
  return text.replace(pattern, REDACTED);
}

/** True when `text` holds a registered secret in any form; for canary tests. */
export function holdsSecret(text: string): boolean {
  for (const form of forms) if (text.includes(form)) return true;
  return false;
}

/** Longest first, so that a secret that contains another one is replaced as a whole. */
function compile(): RegExp {
  const ordered = [...forms].toSorted((a, b) => b.length - a.length);
  return new RegExp(ordered.map((form) => form.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')).join('|'), 'g');
}
