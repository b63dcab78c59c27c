import {
  hasHiddenCharacters,
  hasMixedLetters,
  isAscii,
  plainText,
  SENTENCE_END,
  skeleton,
  splitWords,
} from './fold-text.js';
import { MARKS, PHRASES, ROLES } from './order-words.js';

/** What may be wrong with a text. */
type Suspicion = 'hidden characters' | 'look-alike letters' | 'text that instructs the model';

type Role = keyof typeof ROLES;

/** One bit per role, so that the roles of a word are one number. */
const BIT = Object.fromEntries(Object.keys(ROLES).map((role, index) => [role, 1 << index])) as Record<Role, number>;

/** Stems are indexed by this many first characters. Shorter words are compared as a whole. */
const INDEXED = 3;

const [WHOLE, STEMS] = indexRoles();

/** Role bits by whole word, and stems with their role bits by first characters. */
function indexRoles(): [Map<string, number>, Map<string, [stem: string, roles: number][]>] {
  const whole = new Map<string, number>();
  const stems = new Map<string, [string, number][]>();
  for (const [role, list] of Object.entries(ROLES)) {
    const bit = BIT[role as Role];
    for (const entry of list.split(/\s+/)) {
      const word = skeleton(plainText(entry.replace('*', '')));
      if (!entry.endsWith('*') || word.length < INDEXED) whole.set(word, (whole.get(word) ?? 0) | bit);
      else {
        const key = word.slice(0, INDEXED);
        stems.set(key, [...(stems.get(key) ?? []), [word, bit]]);
      }
    }
  }
  return [whole, stems];
}

/** Phrases in the normalization form of the compared texts. */
const PLAIN_PHRASES = PHRASES.map(({ source, flags }) => new RegExp(source.normalize('NFKC'), flags));

function wordRoles(word: string): number {
  let roles = WHOLE.get(word) ?? 0;
  for (const [stem, bits] of STEMS.get(word.slice(0, INDEXED)) ?? []) if (word.startsWith(stem)) roles |= bits;
  return roles;
}

/** Roles that occur within `window` words of each other, in the given order if `ordered`. */
interface SuspicionRule {
  roles: readonly Role[];
  window: number;
  ordered: boolean;
  /** Within one sentence. */
  sentence?: boolean;
}

/** Word order differs between languages, so only rules made of common words require an order. */
const RULES: readonly SuspicionRule[] = [
  { roles: ['ignore', 'prior', 'instruction'], window: 8, ordered: false },
  { roles: ['ignore', 'prior', 'rule'], window: 10, ordered: true, sentence: true },
  { roles: ['ignore', 'everything', 'prior'], window: 6, ordered: true },
  { roles: ['not', 'tell', 'person'], window: 10, ordered: true, sentence: true },
  { roles: ['tellNot', 'person', 'not'], window: 6, ordered: true, sentence: true },
  { roles: ['reveal', 'systemic', 'secret'], window: 6, ordered: true },
  { roles: ['before', 'use', 'determiner', 'tool'], window: 7, ordered: true },
  { roles: ['before', 'determiner', 'tool', 'act'], window: 8, ordered: true },
  { roles: ['model', 'must', 'act'], window: 8, ordered: true, sentence: true },
  { roles: ['you', 'must', 'act', 'tool'], window: 8, ordered: true, sentence: true },
  { roles: ['you', 'must', 'act', 'dialogue'], window: 10, ordered: true, sentence: true },
  { roles: ['attach', 'whole', 'dialogue'], window: 6, ordered: true },
];
const BITS = RULES.map(({ roles }) => roles.map((role) => BIT[role]));

/** Phrases spelled with spaces between the letters, joined to one long word. */
const RUN_TOGETHER =
  /(?:ignore|disregard|forget|override).{0,12}(?:previous|prior|above|earlier|all).{0,12}(?:instruction|prompt|rule)/;

/**
 * Suspicious findings in a text that a model reads: invisible characters, look-alike letters, and instructions to the model in
 * 16 languages, independent of line breaks, Unicode compatibility forms and spelling. Takes time linear in the text. This is a
 * heuristic: a text that passes is not proven harmless.
 */
export function findSuspicions(text: string): Set<Suspicion> {
  const found = new Set<Suspicion>();
  if (hasHiddenCharacters(text)) found.add('hidden characters');
  const plain = plainText(text);
  if (hasMixedLetters(plain)) found.add('look-alike letters');
  if (givesOrders(plain)) found.add('text that instructs the model');
  return found;
}

function givesOrders(plain: string): boolean {
  if (MARKS.some((mark) => mark.test(plain))) return true;
  if (!isAscii(plain)) {
    const line = plain.replace(/\s+/g, ' ');
    if (PLAIN_PHRASES.some((phrase) => phrase.test(line))) return true;
  }
  // State of each rule, see `completes`.
  const places = RULES.map(({ roles }) => roles.map(() => Number.NEGATIVE_INFINITY));
  const words = splitWords(plain);
  for (const [at, word] of words.entries()) {
    if (word === SENTENCE_END) {
      for (const [index, { sentence }] of RULES.entries()) if (sentence) places[index]?.fill(Number.NEGATIVE_INFINITY);
      continue;
    }
    if (word.length > 20 && RUN_TOGETHER.test(word)) return true;
    const roles = wordRoles(word);
    if (roles === 0) continue;
    for (const [index, rule] of RULES.entries()) {
      if (completes(rule, BITS[index] as number[], places[index] as number[], roles, at)) return true;
    }
  }
  return false;
}

/**
 * Feeds one word to a rule and tells whether the rule now matches. `places` is the rule's state: for an ordered rule the start of the
 * latest occurrence of each prefix of its roles, for an unordered one the latest position of each role.
 */
function completes(
  { window, ordered }: SuspicionRule,
  bits: readonly number[],
  places: number[],
  roles: number,
  at: number,
): boolean {
  const last = bits.length - 1;
  if (ordered) {
    // From the end, so that one word advances a rule by one step only.
    for (let step = last; step >= 0; step -= 1) {
      if ((roles & (bits[step] as number)) === 0) continue;
      const began = step === 0 ? at : (places[step - 1] as number);
      if (at - began >= window) continue;
      if (step === last) return true;
      places[step] = began;
    }
    return false;
  }
  for (const [index, bit] of bits.entries()) if (roles & bit) places[index] = at;
  return places.every((place) => at - place < window);
}
