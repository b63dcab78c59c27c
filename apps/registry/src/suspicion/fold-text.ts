/**
 * Reduces a text to the words that a model reads in it, so that spelling tricks do not evade the rules about words. Follows the skeletons of
 * Unicode Technical Standard #39 (confusable text) for look-alikes of ASCII letters.
 */

/** Legitimate uses of joiners and variation selectors, removed before the search for hidden characters. */
const ORDINARY_JOINERS: readonly RegExp[] = [
  // Emoji sequences: selectors, skin tones, keycaps, joined persons.
  /(?:\p{Extended_Pictographic}|[0-9#*])[\ufe0e\ufe0f]?\u20e3?(?:\p{Emoji_Modifier}|\u200d\p{Extended_Pictographic}\ufe0f?)*/gu,
  // Joiners between letters of scripts that need them.
  /(?<=[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Khmer}])[\u200c\u200d](?=\p{L})/gu,
  // Direction marks next to letters that run from right to left.
  /(?<=[\p{Script=Arabic}\p{Script=Hebrew}][^\p{L}]{0,3})[\u200e\u200f\u061c]|[\u200e\u200f\u061c](?=[^\p{L}]{0,3}[\p{Script=Arabic}\p{Script=Hebrew}])/gu,
];

/** Invisible characters, direction controls, tags, fillers and control characters that a reviewer does not see. */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\ufff9-\ufffb\u2800]|(?![\t\n\r])\p{Cc}/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, 'gu');
const ASCII = /^[\t\n\r\x20-\x7e]*$/;

/** Whether a text consists of printable ASCII characters, tabs and line breaks. */
export function isAscii(text: string): boolean {
  return ASCII.test(text);
}

/** Whether a text contains invisible characters, other than joiners of emoji and of scripts that need them. */
export function hasHiddenCharacters(text: string): boolean {
  if (ASCII.test(text) || !HIDDEN.test(text)) return false;
  return HIDDEN.test(ORDINARY_JOINERS.reduce((rest, ordinary) => rest.replace(ordinary, 'x'), text));
}

/** Characters that look like the first letter of their group. NFKC handles compatibility forms. */
const LOOK_ALIKES = [
  'aаɑαᴀꭺӕ',
  'bвьЬʙƅβ',
  'cсϲᴄꮯ',
  'dԁɗᴅđժ',
  'eеєҽεᴇəǝɛ',
  'fƒꜰք',
  'gɡցɢԍ',
  'hһհʜнҥ',
  'iіιɩıɪꭵӏ',
  'jјϳᴊʝ',
  'kκкᴋҟқ',
  'lʟłɭǀ',
  'mмᴍɱ',
  'nпηոɴŋ',
  'oоοσօᴏөøס०০໐',
  'pрρᴘþ',
  'qԛզɋ',
  'rгʀɾꭇᴦя',
  'sѕꜱʂƽꮪ',
  'tтτᴛŧ',
  'uυսᴜʋ',
  'vνѵᴠ',
  'wѡԝωᴡшա',
  'xхχ',
  'yуүγʏყ',
  'zᴢʐƶ',
];
const LETTER_OF = new Map(LOOK_ALIKES.flatMap(([letter = '', ...others]) => others.map((other) => [other, letter])));
/** First code points of regional indicators and white-on-black letters that NFKC keeps. They are in ASCII order. */
const ALPHABETS = [0x1f1e6, 0x1f150, 0x1f170] as const;
const IN_ALPHABETS = /[\u{1f1e6}-\u{1f1ff}\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}]/gu;
const DIGIT_LETTERS: Readonly<Record<string, string>> = {
  0: 'o',
  1: 'i',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  $: 's',
  '@': 'a',
};

function letterInAlphabet(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const start = ALPHABETS.find((first) => code >= first && code < first + 26) ?? code;
  return String.fromCharCode(0x61 + code - start);
}

/** HTML character references and JSON escapes that models read like the characters. */
const REFERENCE = /&#(?:x([0-9a-f]{1,6})|([0-9]{1,7}));?|\\u([0-9a-f]{4})|&(lt|gt|amp|quot|nbsp);/gi;
const NAMED: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', nbsp: ' ' };

/**
 * Normal form of a text: references resolved, NFKC, without hidden characters, in lower case, with spaces for line breaks and other
 * control characters.
 */
export function plainText(text: string): string {
  const resolved = text.replace(REFERENCE, (whole, hex?: string, decimal?: string, unicode?: string, name?: string) => {
    if (name !== undefined) return NAMED[name.toLowerCase()] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex ?? unicode ?? '', 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
  if (ASCII.test(resolved)) return resolved.toLowerCase();
  return resolved
    .normalize('NFKC')
    .replace(/\p{Cc}/gu, ' ')
    .replace(HIDDEN_ALL, '')
    .replace(IN_ALPHABETS, letterInAlphabet)
    .toLowerCase();
}

/** A word of `plainText` without accents, with look-alikes replaced by ASCII letters. */
export function skeleton(word: string): string {
  let folded = word;
  if (!ASCII.test(word)) {
    const bare = word.normalize('NFD').replace(/[\u0300-\u036f\u064b-\u0652\u0640]/g, '');
    folded = Array.from(bare.normalize('NFC'), (letter) => LETTER_OF.get(letter) ?? letter).join('');
  }
  return /[a-z]/.test(folded) && /[0-9$@]/.test(folded)
    ? folded.replace(/[0-9$@]/g, (c) => DIGIT_LETTERS[c] ?? c)
    : folded;
}

/** A run of at least this many single letters ("i g n o r e") counts as one word, as models read it. */
const SPACED_RUN = 4;

/** Marks the end of a sentence in the result of `splitWords`. */
export const SENTENCE_END = '';

const WORDS = /[\p{L}\p{M}\p{N}@$'’]+|[.!?;。！？](?=\s|$)/gu;
const ASCII_WORDS = /[a-z0-9@$']+|[.!?;](?=\s|$)/g;

/**
 * The words of a plain text as skeletons, with `SENTENCE_END` between sentences. Runs of single letters are joined, so a phrase in
 * spaced letters is one long word.
 */
export function splitWords(plain: string): string[] {
  const words: string[] = [];
  let spaced = '';
  for (const word of (plain.match(isAscii(plain) ? ASCII_WORDS : WORDS) ?? []).flatMap(withoutApostrophes)) {
    const isEnd = word.length === 1 && !/[\p{L}\p{M}\p{N}@$]/u.test(word);
    const folded = isEnd ? SENTENCE_END : skeleton(word);
    if (folded.length === 1 && folded >= 'a' && folded <= 'z') {
      spaced += folded;
      continue;
    }
    if (spaced !== '') {
      if (spaced.length >= SPACED_RUN) words.push(spaced);
      else words.push(...spaced);
      spaced = '';
    }
    if (folded !== '' || isEnd) words.push(folded);
  }
  if (spaced.length >= SPACED_RUN) words.push(spaced);
  else words.push(...spaced);
  return words;
}

/** "don't" is one word, "l'utilisateur" two. */
function withoutApostrophes(word: string): string | string[] {
  if (!word.includes("'") && !word.includes('’')) return word;
  const parts = word.split(/['’]+/).filter((part) => part !== '');
  return (parts.at(-1)?.length ?? 0) > 2 ? parts : parts.join('');
}

/** Whether a word switches between ASCII letters and look-alikes at least twice, unlike any orthography. */
export function hasMixedLetters(plain: string): boolean {
  if (ASCII.test(plain)) return false;
  for (const [word] of plain.matchAll(/\p{L}{3,}/gu)) {
    let switches = 0;
    let before: boolean | undefined;
    for (const character of word) {
      const isForeign =
        LETTER_OF.has(character) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}]/u.test(character);
      if (!isForeign && !/[a-z]/.test(character)) {
        before = undefined;
        continue;
      }
      if (before !== undefined && before !== isForeign) switches += 1;
      before = isForeign;
    }
    if (switches >= 2) return true;
  }
  return false;
}
