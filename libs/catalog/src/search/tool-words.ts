import { createHash } from 'node:crypto';
import { isJsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { stemmer } from 'stemmer';
import { RELATED_WORDS } from './related-words.js';

/** Words that do not help to find a tool. */
const STOP_WORDS = new Set(
  `a about all also am an and any anybody anyone are as at be been but by can could d did do does done everybody everyone for from
  get give had has have he her him his how i if in into is it its just ll let m make me more my need no not of on or our out over
  please re s she should show so some someone somebody still such t than that the their them then there these they this those
  throughout to up us use used using ve via want was we were what when where whether which who whom whose will with within without
  would you your`.split(/\s+/),
);

/** Literals in a task that show its subject, and the words that tools use for them. */
const LITERALS: readonly (readonly [RegExp, string])[] = [
  [/\bhttps?:\/\/\S+/g, 'url web page'],
  [/[\w.+-]{1,64}@[\w-]{1,64}\.\w{2,10}/g, 'email'],
  [
    /(?<![\w/])[\w-]{1,64}\.(?:txt|md|csv|tsv|log|json|ya?ml|toml|ini|xml|html?|pdf|docx?|xlsx?|py|js|ts|sh|sql)\b/gi,
    'file',
  ],
  [/(?<!\w)#[a-z][\w-]{1,64}/gi, 'channel'],
  [/(?<!\w)\+\d[\d ()-]{6,20}/g, 'phone number'],
  [/\b[A-Z][A-Z0-9]{1,9}-\d{1,6}\b/g, 'issue'],
  [/\b[a-zA-Z_]\w{1,64}\(\)/g, 'code function'],
  [/\d\s{0,3}[-+*/^%]\s{0,3}(?:of|\d|\(|$)|\b(?:sqrt|sin|cos|tan|log|exp)\s{0,3}\(/gi, 'calculate expression'],
];

/** Names of languages (`French`) and codes of currencies (`EUR`) as they are written, and the word that tools use for them. */
const NAMED = new Map<string, string>(Intl.supportedValuesOf('currency').map((code) => [code, 'currency']));
const languages = new Intl.DisplayNames('en', { type: 'language', fallback: 'none' });
const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
for (const code of LETTERS.flatMap((first) => LETTERS.map((second) => first + second))) {
  const name = languages.of(code);
  if (name !== undefined && /^[A-Z][a-z]+$/.test(name)) NAMED.set(name, 'translate');
}

/** A searched word and how much it counts: 1 as written, less for a related word. */
export interface SearchedWord {
  stem: string;
  weight: number;
  /** Position of the written word that it comes from: only the best match for each position counts. */
  origin: number;
}

const MAX_TASK_CHARS = 4_000;
const MAX_WORDS = 50;

/** Longest word that is stemmed; longer ones are not words. */
const MAX_WORD_CHARS = 40;
const stems = new Map<string, string>();
/** Known stems; forgotten beyond this number, because tasks contain arbitrary words. */
const MAX_STEMS = 50_000;

/** The stem of a lower-case word (Porter): `calculations` and `calculate` give `calcul`. */
function stem(word: string): string {
  let known = stems.get(word);
  if (known === undefined) {
    if (stems.size >= MAX_STEMS) stems.clear();
    known = word.length > MAX_WORD_CHARS ? word.slice(0, MAX_WORD_CHARS) : stemmer(word);
    stems.set(word, known);
  }
  return known;
}

/** Splits names and sentences into words: `webSearch_v2` gives web, search, v2. */
function splitWords(text: string): string[] {
  return (
    text
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .replace(/([A-Z])([A-Z][a-rt-z]|[A-Z]s[a-z])/g, '$1 $2') // HTTPServer, but PRs
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** Stems of the words of a text, without stop words. */
function stemsOf(text: string): string[] {
  return splitWords(text).flatMap((word) => (STOP_WORDS.has(word) ? [] : [stem(word)]));
}

/** Related stems by the stem of a word or a pair of words. */
const related = new Map<string, Set<string>>();
for (const group of RELATED_WORDS) {
  const members = group.split(' ').map((entry) => entry.split('_').map(stem).join('_'));
  for (const member of members) {
    const known = related.get(member) ?? new Set();
    for (const other of members) if (other !== member && !other.includes('_')) known.add(other);
    related.set(member, known);
  }
}

/** Weight of a word that replaces a written one. */
const RELATED_WEIGHT = 0.7;

/**
 * The words to search for a task: its words without stop words and numbers, words related to them, and words for literals
 * such as addresses and file names. The rest of a long text is ignored.
 */
export function searchedWords(task: string): SearchedWord[] {
  const words: SearchedWord[] = [];
  let origin = 0;
  const add = (written: string | undefined, others: Iterable<string>) => {
    if (written !== undefined) words.push({ stem: written, weight: 1, origin });
    for (const other of others) words.push({ stem: other, weight: RELATED_WEIGHT, origin });
    origin += 1;
  };
  let prose = task.slice(0, MAX_TASK_CHARS);
  for (const [pattern, meaning] of LITERALS) {
    if (!prose.match(pattern)) continue;
    for (const word of meaning.split(' ')) add(stem(word), related.get(stem(word)) ?? []);
    if (meaning.startsWith('url')) prose = prose.replace(pattern, ' ');
  }
  for (const meaning of new Set(prose.match(/[A-Z][A-Za-z]+/g)?.map((name) => NAMED.get(name))))
    if (meaning !== undefined) add(stem(meaning), related.get(stem(meaning)) ?? []);
  const written = splitWords(prose).slice(0, MAX_WORDS);
  const seen = new Set(words.flatMap((word) => (word.weight === 1 ? [word.stem] : [])));
  for (const [index, word] of written.entries()) {
    const next = written[index + 1];
    const pair = next === undefined ? undefined : related.get(`${stem(word)}_${stem(next)}`);
    if (pair) add(undefined, pair);
    const itsStem = stem(word);
    if (STOP_WORDS.has(word) || /^\d+$/.test(word) || seen.has(itsStem)) continue;
    seen.add(itsStem);
    add(itsStem, related.get(itsStem) ?? []);
  }
  return words;
}

/** Words of a task that are compared with other tasks' words. */
const MAX_TASK_WORDS = 16;

/**
 * The stems of a task as hashes, in order and each once, to compare tasks without keeping their words.
 *
 * @param salt gives the same word other hashes, such as per tenant
 */
export function taskWords(task: string, salt: string): string[] {
  const written = searchedWords(task).flatMap(({ stem: word, weight }) => (weight === 1 ? [word] : []));
  const hash = (word: string) => createHash('sha256').update(`${salt} ${word}`).digest('base64url').slice(0, 8);
  return [...new Set(written)].slice(0, MAX_TASK_WORDS).map(hash).toSorted();
}

/** How much a word counts in each field of a tool, and the usual number of words there. */
const FIELDS = {
  name: { weight: 3, usual: 3 },
  description: { weight: 2, usual: 12 },
  tags: { weight: 1.5, usual: 3 },
  parameters: { weight: 0.7, usual: 16 },
  examples: { weight: 0.5, usual: 16 },
} as const;
/** BM25: how much less a word of a long field counts. */
const B = 0.6;
const MAX_EXAMPLES_CHARS = 2_000;

/** The searched words of a tool. */
interface ToolWords {
  /** Distinct stems, the name's first. */
  stems: readonly string[];
  /** How much each stem counts, over all fields (BM25F). */
  counts: Float32Array;
  /** Number of stems of the name. */
  named: number;
}

const known = new WeakMap<RegisteredTool, ToolWords>();

/** The words of a tool. Kept for each tool, because lists of tools change more often than tools. */
export function toolWords(tool: RegisteredTool): ToolWords {
  let words = known.get(tool);
  if (!words) known.set(tool, (words = readWords(tool)));
  return words;
}

function readWords(tool: RegisteredTool): ToolWords {
  const properties = isJsonObject(tool.input_schema.properties) ? tool.input_schema.properties : {};
  const texts: Record<keyof typeof FIELDS, string> = {
    name: tool.name, // first, see ToolWords
    description: tool.description,
    tags: `${tool.category} ${(tool.tags ?? []).join(' ')} ${foreignTitle(tool)}`,
    parameters: Object.entries(properties).map(toParameterText).join(' '),
    examples: JSON.stringify(tool.input_examples ?? []).slice(0, MAX_EXAMPLES_CHARS),
  };
  const counts = new Map<string, number>();
  let named = 0;
  for (const [field, text] of Object.entries(texts)) {
    const { weight, usual } = FIELDS[field as keyof typeof FIELDS];
    const words = stemsOf(text);
    const one = weight / (1 - B + (B * words.length) / usual);
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + one);
    if (field === 'name') named = counts.size;
  }
  return { stems: [...counts.keys()], counts: Float32Array.from(counts.values()), named };
}

/** The title of a tool with a name of letters that names of a fleet do not have. */
function foreignTitle({ annotations }: RegisteredTool): string {
  const title = String(annotations?.['title'] ?? '');
  return /[^\p{ASCII}]/u.test(title) ? title : '';
}

function toParameterText([name, schema]: [string, unknown]): string {
  return isJsonObject(schema) && typeof schema.description === 'string' ? `${name} ${schema.description}` : name;
}
