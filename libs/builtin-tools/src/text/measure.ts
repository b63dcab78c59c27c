import type { Json } from '@toolfleet/contracts';

const WORD = /[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu;
const SEGMENTS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
/** Counting what people see as one character costs about 1 µs each: only done for texts of this length. */
const GRAPHEME_CAP = 100_000;
/** Words a person reads per minute (silent reading of English, Brysbaert 2019). */
const READING_SPEED = 238;

/** Words too common to tell what an English text is about. */
const COMMON = new Set(
  'a an and are as at be been but by can could did do does for from had has have he her his i if in into is it its may me my no not of on or our she should so some such than that the their them then there these they this those to too was we were what when which who will with would you your'.split(
    ' ',
  ),
);

/** Sizes of a text. `characters` are code points, `graphemes` what a reader sees. */
export function countText(text: string): Record<string, Json> {
  return {
    characters: [...text].length,
    ...(text.length <= GRAPHEME_CAP ? { graphemes: [...SEGMENTS.segment(text)].length } : {}),
    characters_without_spaces: [...text.replaceAll(/\s/g, '')].length,
    words: text.match(WORD)?.length ?? 0,
    lines: text === '' ? 0 : text.split(/\r?\n/).length,
    paragraphs: text.split(/\n\s*\n/).filter((part) => part.trim() !== '').length,
    sentences: sentences(text),
    bytes: Buffer.byteLength(text),
  };
}

/** Statistics that tell what kind of text it is. */
export function summariseText(text: string): Record<string, Json> {
  const words = (text.match(WORD) ?? []).map((word) => word.toLowerCase());
  const counts = new Map<string, number>();
  for (const word of words) if (!COMMON.has(word) && word.length > 1) counts.set(word, (counts.get(word) ?? 0) + 1);
  const frequent = [...counts].toSorted((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 10);
  const sentenceCount = sentences(text);
  return {
    ...countText(text),
    unique_words: new Set(words).size,
    average_word_length:
      words.length === 0 ? 0 : round(words.reduce((sum, word) => sum + [...word].length, 0) / words.length),
    average_sentence_words: sentenceCount === 0 ? 0 : round(words.length / sentenceCount),
    reading_time_seconds: Math.round((words.length / READING_SPEED) * 60),
    frequent_words: frequent.map(([word, count]) => ({ word, count })),
  };
}

/** Only the last mark before a space ends a sentence: `[.!?]+` would look at a row of dots once for each dot. */
function sentences(text: string): number {
  if (text.trim() === '') return 0;
  return text.split(/[.!?。！？](?:\s|$)|\n\s*\n/).filter((part) => /[\p{L}\p{N}]/u.test(part)).length;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
