/**
 * Phrases that make English read like a translation, with what to write instead. `npm run code-shape` counts them.
 */
import { parseSync } from 'vite';

/** `[pattern, advice]`. Add a pattern when a review finds a phrase of the kind more than once. */
export const PHRASES = [
  [/\b[Nn]obody\b|\b[Nn]o one\b/, 'name the subject: "no caller", "no service", "unused"'],
  [/\bwhoever\b/i, '"the caller that", "any service that"'],
  [/\bbeside\b/i, '"next to", "in addition to", "alongside"'],
  [/\bfor ever\b/i, '"indefinitely", "permanently"'],
  [/\bsays? so\b/i, 'name what is reported, and where'],
  [/\b(?:is|are|was|were|be|been|being) told\b/i, '"receives", "is notified", "gets an error"'],
  [/\b(?:stands?|lies?|lay) (?:in|on|with)\b/i, '"is in"'],
  [/\b(?:of|for) (?:ours|theirs)\b/i, '"our own", or name the owner'],
  [/\b(?:is|are|was|were|be|while) away\b/i, '"is unavailable"'],
  [/\bwhole numbers?\b/i, '"integer", "non-negative integer", "positive integer"'],
  [/\bmust be a text\b/i, '"must be a string"'],
  [/\bfaults? of the fleet\b|\bthe fleet's own faults?\b/i, '"internal error"'],
  [/\b(?:is|are) worth (?:a place|nothing)\b/i, '"is rejected", "is ignored"'],
  [/\bslips? of the keyboard\b/i, '"typos"'],
  [/\b(?:of|in|both) (?:both )?eras\b/i, '"both protocol revisions"'],
  [/\bdoors?\b/i, '"transport" or "entry point"'],
  [/\bthe house\b/i, '"architecture"'],
  [/\bstays? what it is\b|\bas it is\b(?= ?[.,;:)]|$)/i, '"unchanged"'],
  [
    /(?<!\bthere )\b(?:is|are|was|were|be) no (?!(?:longer|more|such|need|way|other|different)\b|\w+ than\b)[\w`'"$]/i,
    '"is not a", "are not"',
  ],
  [/(?<!\bthere )\b(?:is|are|was|were) none of\b/i, '"is not one of", "is not"'],
  [/\bsome (?:\d[\d,.]*|two|three|four|five|six|ten|twenty|fifty|hundred)\b(?! of)/i, '"about"'],
  [/\bcallers? (?:gets?|sees?) who\b/i, '"for callers that"'],
  [/\bwho (?:leaves|asks|waits|comes)\b/i, 'name the actor: "a caller that"'],
];

/** Turns that are English in small numbers only: patterns, and how often they may occur in 10,000 words. */
export const HABITS = {
  // "what the caller sent", "a call whose key is known", ", which is", "those of the batch": write a plain noun.
  clauses: {
    patterns: [
      /\bwhat (?:is|are|was|were|has|have|it|they|the|an?|its|their|this|these|that|no|each|every)\b/gi,
      /, which\b/gi,
      /\bwhose\b/gi,
      /\b(?:that|those) of\b/gi,
    ],
    limit: 20,
  },
  // "Longest wait", "Most jobs": write "Maximum wait", "Maximum number of jobs".
  superlatives: { patterns: [/\b(?:Longest|Shortest|Largest|Smallest|Most|Fewest) [a-z]+/g], limit: 9 },
  // "has processes of its own": write "has its own processes".
  'their own': { patterns: [/\b(?:of|in|for|with|has|have) (?:its|their|his|her) own\b/gi], limit: 7 },
};

/**
 * Counts the words and each of the habits in the comments of code, or in a document.
 * @returns `{ words, clauses, superlatives, … }`; language.spec.ts bounds their ratios
 */
export function countHabits(path, text) {
  const prose = (
    path.endsWith('.md')
      ? withoutCode(text)
      : commentsOf(path, text)
          .map(({ text: comment }) => comment)
          .join('\n')
  ).replaceAll(/\s+\*?\s*/g, ' ');
  return {
    words: prose.split(' ').filter((word) => /\w/.test(word)).length,
    ...Object.fromEntries(
      Object.entries(HABITS).map(([name, { patterns }]) => [
        name,
        patterns.reduce((sum, pattern) => sum + (prose.match(pattern)?.length ?? 0), 0),
      ]),
    ),
  };
}

/**
 * Lines of a file's prose that hold one of the phrases. Prose is: comments and texts of more than one word in code; in
 * Markdown everything but code.
 * @returns `{ line, phrase, advice }` for each, `line` counted from 1
 */
export function findPhrases(path, text) {
  return proseOf(path, text).flatMap(({ line, text: prose }) => {
    const lines = prose.split('\n').map((content) => content.replace(/^\s*\*?\s*/, ''));
    return lines.flatMap((content, index) => {
      const before = lastWords(lines[index - 1] ?? '');
      for (const [pattern, advice] of PHRASES) {
        const found = pattern.exec(before + content);
        if (found && found.index + found[0].length > before.length) {
          return [{ line: line + index, phrase: found[0], advice }];
        }
      }
      return [];
    });
  });
}

/** The last three words of a line, for phrases that continue on the next one. */
function lastWords(line) {
  const words = /(?:\S+\s+){0,2}\S+\s*$/.exec(line)?.[0].trim();
  return words ? `${words} ` : '';
}

function proseOf(path, text) {
  if (/\.(ts|tsx|mjs|js)$/.test(path)) return proseOfCode(path, text);
  if (path.endsWith('.md')) return [{ line: 1, text: withoutCode(text) }];
  const comments = text.split('\n').map((content) => /(?:^|\s)(?:#|--|\/\*|\*|\/\/)\s(.*)/.exec(content)?.[1] ?? '');
  return [{ line: 1, text: comments.join('\n') }];
}

function proseOfCode(path, text) {
  const { program } = parseSync(path, text);
  const pieces = commentsOf(path, text);
  walk(program, (node) => {
    if (node.type === 'Literal' && typeof node.value === 'string') pieces.push({ start: node.start, text: node.value });
    if (node.type === 'TemplateElement')
      pieces.push({ start: node.start, text: node.value.raw + (node.tail ? '' : '${}') });
    if (node.type === 'JSXText') pieces.push({ start: node.start, text: node.value });
  });
  return pieces
    .filter((piece) => /\w \w/.test(piece.text))
    .map((piece) => ({ line: text.slice(0, piece.start).split('\n').length, text: piece.text }));
}

const commentsOf = (path, text) =>
  parseSync(path, text).comments.map(({ start, value }) => ({ start, text: value.replace(/`[^`\n]*`/g, '``') }));

/** Markdown with fenced blocks and inline code blanked, line by line. */
function withoutCode(text) {
  let fenced = false;
  return text
    .split('\n')
    .map((line) => {
      if (/^\s*(```|~~~)/.test(line)) {
        fenced = !fenced;
        return '';
      }
      return fenced ? '' : line.replace(/`[^`]*`/g, '``');
    })
    .join('\n');
}

function walk(node, visit) {
  if (Array.isArray(node)) for (const one of node) walk(one, visit);
  else if (node && typeof node.type === 'string') {
    visit(node);
    for (const value of Object.values(node)) if (value && typeof value === 'object') walk(value, visit);
  }
}
