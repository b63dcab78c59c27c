import { createHash } from 'node:crypto';
import { TOOL_NAME_PATTERN } from '@toolfleet/contracts/tool-definition';
import type { McpEntry } from '@toolfleet/fleet-file';

/** Characters of a server's tool name that are read; servers can send names of any length. */
const MAX_READ = 512;
/** Longest registered name (`TOOL_NAME_PATTERN`). */
const MAX_NAME = 64;
/** Words of a title or description that make a name. */
const MAX_WORDS = 4;
const HASH_CHARS = 6;

/** Letters of other alphabets in Latin ones, as passports write them. */
const LATIN = new Map(
  [
    'а a б b в v г g д d е e ж zh з z и i й i к k л l м m н n о o п p р r с s т t у u ф f х kh ц ts ч ch ш sh щ shch ъ - ы y ь - э e ю iu я ia',
    'є ie і i ї i ґ g ў u ј j љ lj њ nj ћ c ђ dj џ dz',
    'α a β v γ g δ d ε e ζ z η i θ th ι i κ k λ l μ m ν n ξ x ο o π p ρ r σ s ς s τ t υ y φ f χ ch ψ ps ω o',
    'ß ss æ ae œ oe ø o đ d ð d þ th ł l ı i',
  ]
    .flatMap((letters) => letters.split(' '))
    .flatMap((letter, at, all) => (at % 2 === 0 ? [[letter, all[at + 1]!.replace('-', '')] as const] : [])),
);

/**
 * Registered name of a remote tool or prompt: `<prefix>_<tool>`. The prefix is the server's name by default and may be empty. A name that
 * is not legal is written in Latin letters; without any, words of the title or description take its place. A hash of the original name
 * tells such names apart, independent of their order.
 */
export function registeredName(
  entry: Pick<McpEntry, 'name' | 'prefix'>,
  tool: string,
  { title = '', description = '' }: { title?: string | undefined; description?: string } = {},
): string {
  const prefix = entry.prefix ?? entry.name;
  const withPrefix = (name: string): string => (prefix === '' ? name : `${prefix}_${name}`);
  const wanted = withPrefix(tool);
  if (TOOL_NAME_PATTERN.test(wanted) && !/^_|_$/.test(wanted)) return wanted;
  const hash = createHash('sha256').update(wanted).digest('hex').slice(0, HASH_CHARS);
  const readable = [tool, title, description].map(toLatin).find((name) => name !== '') ?? 'tool';
  const ofTool = toLatin(tool) === '' ? readable.split('_').slice(0, MAX_WORDS).join('_').toLowerCase() : readable;
  const clean = cleaned(withPrefix(ofTool)).slice(0, MAX_NAME - HASH_CHARS - 1);
  return `${clean}_${hash}`;
}

const cleaned = (text: string): string => text.replaceAll(/[^A-Za-z0-9_-]+/g, '_').replaceAll(/^_+|_+$/g, '');

/** A text in legal characters of names; empty if it has no letter or digit of these. */
function toLatin(text: string): string {
  const letters = Array.from(text.slice(0, MAX_READ).normalize('NFKD').replaceAll(/\p{M}/gu, ''), (letter) => {
    const latin = LATIN.get(letter.toLowerCase());
    if (latin === undefined) return letter;
    return letter === letter.toLowerCase() ? latin : latin.replace(/^./, (first) => first.toUpperCase());
  });
  const name = cleaned(letters.join(''));
  return /[A-Za-z0-9]/.test(name) ? name : '';
}
