import { jsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import {
  closed,
  defaulted,
  flag,
  integer,
  maybe,
  text as textField,
  textChoice,
} from '@toolfleet/contracts/json-schema';
import { boundsOf, type BoundedJob, type RegexMatch } from '../bounded/bounded-work.js';
import { defineTool, ok, required, type ToolOutcome } from '../builtin-tool.js';
import { CASES, EXTRACTABLE, operateOnText, type TextOperation } from './text-operations.js';

const MAX_TEXT = 1_000_000;
/** Maximum length of texts to compare; edit distance costs the product of their lengths. */
const MAX_COMPARED = 20_000;
/** Time limit of a caller's pattern. */
const JOB_MS = 1_000;
/** Texts up to this length are processed here, in about a millisecond; longer ones in a child process. */
const MAX_INLINE_TEXT = 8_192;
/** Time limit of other operations; a megabyte takes about 200 ms. */
const TEXT_MS = 5_000;

/** `text_process`: counts, searches and transforms text. */
export const textProcess = defineTool({
  name: 'text_process',
  description:
    'Work on a text. Operations: count (characters, words, lines, sentences, bytes), case (to upper, lower, title, sentence, ' +
    'camel, pascal, snake, kebab, constant), replace (find → replace_with; with use_regex the pattern is a JavaScript regular ' +
    'expression and $1 refers to groups), regex (all matches of find with groups and positions), extract (emails, urls, ' +
    'numbers, dates, hashtags, mentions, ip_addresses, phone_numbers), split (by separator), similarity (with other: edit ' +
    'distance and ratio), summary (statistics, frequent words, reading time), trim, lines (optionally unique, sorted). ' +
    'A pattern that needs longer than a second is stopped.',
  category: 'data',
  tags: ['text', 'compute'],
  inputSchema: closed({
    // minLength 0: an empty text is a value here, not a missing argument.
    text: textField('The text; may be empty', { minLength: 0, maxLength: MAX_TEXT }),
    operation: textChoice(
      ['count', 'case', 'replace', 'regex', 'extract', 'split', 'similarity', 'summary', 'trim', 'lines'],
      'What to do',
    ),
    to: maybe(textChoice(CASES, 'For case: the form wanted')),
    find: maybe(textField('For replace: text or pattern; for regex: pattern', { minLength: 1, maxLength: 2_000 })),
    replace_with: maybe(textField('For replace: the new text (default empty)', { maxLength: 100_000 })),
    use_regex: defaulted(flag('For replace and split: treat find or separator as a regular expression'), false),
    flags: maybe(textField('Flags of a regular expression, e.g. "i"', { pattern: '^[dgimsuvy]{0,7}$' })),
    what: maybe(textChoice(EXTRACTABLE, 'For extract: what to collect')),
    separator: maybe(textField('For split: where to cut (default: line ends)', { maxLength: 2_000 })),
    other: maybe(textField('For similarity: the text to compare with', { maxLength: MAX_COMPARED })),
    limit: defaulted(integer('Most matches, parts or replacements', { minimum: 1, maximum: 10_000 }), 1_000),
    unique: defaulted(flag('For lines and extract: leave out repetitions'), false),
    sort: defaulted(flag('For lines: order by code point'), false),
  }),
  inputExamples: [
    { text: 'Hello world', operation: 'case', to: 'snake' },
    { text: 'a1 b22', operation: 'regex', find: '([a-z])(\\d+)' },
  ],
  rateLimit: 600,
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  idempotent: true,
  timeoutSeconds: 10,
  needs: ['bounded'],
  async handler(args, run): Promise<ToolOutcome> {
    const withBounds = <Job extends BoundedJob>(job: Job, timeoutMs = JOB_MS) =>
      run.bounded.run(job, { timeoutMs, ...boundsOf(run) });
    const operate = async (work: TextOperation) =>
      work.text.length <= MAX_INLINE_TEXT ? operateOnText(work) : withBounds({ kind: 'text', work }, TEXT_MS);
    const { text, unique, sort, limit } = args;
    switch (args.operation) {
      case 'count':
      case 'summary':
        return facts(await operate({ operation: args.operation, text }));
      case 'case':
        return changed(await operate({ operation: 'case', text, to: required(args.to, 'to', 'case') }));
      case 'trim':
        return changed(await operate({ operation: 'trim', text }));
      case 'lines':
        return listed(await operate({ operation: 'lines', text, unique, sort, limit }));
      case 'extract': {
        const what = required(args.what, 'what', 'extract');
        return listed(await operate({ operation: 'extract', text, what, unique, limit }));
      }
      case 'split': {
        const separator = args.separator ?? '\n';
        if (!args.use_regex) return listed(await operate({ operation: 'split', text, separator, limit }));
        const items = await withBounds({ kind: 'regex_split', text, ...pattern(separator, args.flags), limit });
        return listed({ items, count: items.length });
      }
      case 'replace': {
        const find = required(args.find, 'find', 'replace');
        const replacement = args.replace_with ?? '';
        if (!args.use_regex) return changed(await operate({ operation: 'replace', text, find, replacement, limit }));
        const job = { kind: 'regex_replace', text, ...pattern(find, args.flags), replacement, limit } as const;
        const { text: result, replaced } = await withBounds(job);
        return changed({ result, replaced });
      }
      case 'regex': {
        const find = pattern(required(args.find, 'find', 'regex'), args.flags);
        return matched(await withBounds({ kind: 'regex_find', text, ...find, limit }));
      }
      case 'similarity': {
        const other = required(args.other, 'other', 'similarity');
        if (text.length > MAX_COMPARED)
          throw new ToolError('TOOL_ERROR', { message: `similarity compares at most ${MAX_COMPARED} characters` });
        return facts(await withBounds({ kind: 'similarity', text, other }));
      }
    }
  },
});

/** Checks a pattern here, so that a syntax error does not need a child. */
function pattern(source: string, flags = ''): { pattern: string; flags: string } {
  try {
    new RegExp(source, flags);
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: error instanceof Error ? error.message : String(error) });
  }
  return { pattern: source, flags };
}

function changed(output: JsonObject): ToolOutcome {
  return ok(output, String(output['result']));
}

function listed(output: JsonObject): ToolOutcome {
  return ok(output, (output['items'] as string[]).join('\n'));
}

function matched({ matches, more }: { matches: RegexMatch[]; more: boolean }): ToolOutcome {
  const shown = matches.length > 0 ? `: ${matches.map((one) => one.match).join(' | ')}` : '';
  return ok(
    { matches: matches.map(jsonObject), count: matches.length, more },
    `${matches.length}${more ? '+' : ''} match(es)${shown}`,
  );
}

function facts(values: JsonObject): ToolOutcome {
  return ok(
    values,
    Object.entries(values)
      .map(([key, value]) => `${key}: ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
      .join('\n'),
  );
}
