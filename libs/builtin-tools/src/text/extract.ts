/** What `extract` can collect. */
export const EXTRACTABLE = [
  'emails',
  'urls',
  'numbers',
  'dates',
  'hashtags',
  'mentions',
  'ip_addresses',
  'phone_numbers',
] as const;
export type Extractable = (typeof EXTRACTABLE)[number];

/**
 * Patterns of ours, each without nested or adjacent overlapping repetition and with bounded repetition where a run could
 * be restarted at every character, so that their time is linear in the text.
 */
const PATTERNS: Readonly<Record<Extractable, RegExp>> = {
  emails: /(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g,
  urls: /\bhttps?:\/\/[^\s<>"'`\])}]{1,2048}/gi,
  numbers: /(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3}){1,10}|\d{1,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?(?![\w])/g,
  dates:
    /\b(?:\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|(?:\d{1,2}\.? )?(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{1,2},)? \d{4})/g,
  hashtags: /(?<![\p{L}\p{N}_&])#[\p{L}\p{N}_]{1,139}/gu,
  mentions: /(?<![\p{L}\p{N}_.])@[\p{L}\p{N}_]{1,39}/gu,
  ip_addresses: /(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])/g,
  phone_numbers: /(?<![\w+])\+?\d{1,4}(?:[ ./-]?\(?\d{2,5}\)?){2,5}(?!\w)/g,
};

/** All occurrences, in order. */
export function extract(text: string, what: Extractable): string[] {
  const found = text.match(PATTERNS[what]) ?? [];
  // A sentence's own punctuation is not part of an address.
  return what === 'urls' || what === 'emails' ? found.map((one) => one.replace(/[.,;:!?]{1,8}$/, '')) : [...found];
}
