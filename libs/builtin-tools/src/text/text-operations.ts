import { ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';
import { changeCase, type Case } from './change-case.js';
import { extract, type Extractable } from './extract.js';
import { countText, summariseText } from './measure.js';

/** Longest result in UTF-16 units. */
const MAX_RESULT = 4_000_000;

/** An operation of `text_process` whose time is linear in its text; patterns of the caller's own are jobs by themselves. */
export type TextOperation =
  | { operation: 'count' | 'summary' | 'trim'; text: string }
  | { operation: 'case'; text: string; to: Case }
  | { operation: 'lines'; text: string; unique: boolean; sort: boolean; limit: number }
  | { operation: 'extract'; text: string; what: Extractable; unique: boolean; limit: number }
  | { operation: 'split'; text: string; separator: string; limit: number }
  | { operation: 'replace'; text: string; find: string; replacement: string; limit: number };

/**
 * Output of an operation. Runs in the process of the tool for short texts and in a child process for all others.
 * @throws ToolError TOOL_ERROR when the result would be too large
 */
export function operateOnText(work: TextOperation): JsonObject {
  const { text } = work;
  switch (work.operation) {
    case 'count':
      return countText(text);
    case 'summary':
      return summariseText(text);
    case 'trim':
      return { result: trimmed(text) };
    case 'case':
      return { result: changeCase(text, work.to) };
    case 'lines':
      return listed(arranged(text.split(/\r?\n/), work), work.limit);
    case 'extract': {
      const found = extract(text, work.what);
      return listed(work.unique ? [...new Set(found)] : found, work.limit);
    }
    case 'split':
      return listed(piecesOf(text, work.separator), work.limit);
    case 'replace':
      return replaced(work);
  }
}

function trimmed(text: string): string {
  return text
    .replaceAll(/[^\S\n]+/g, ' ')
    .replaceAll(/ ?\n ?/g, '\n')
    .trim();
}

/** An empty separator parts all UTF-16 units. */
function piecesOf(text: string, separator: string): string[] {
  return separator === '' ? text.split('') : new TextSearch(separator).split(text);
}

function arranged(lines: string[], { unique, sort }: { unique: boolean; sort: boolean }): string[] {
  const kept = unique ? [...new Set(lines)] : lines;
  return sort ? kept.toSorted() : kept;
}

function listed(items: string[], limit: number): { items: Json[]; count: number } {
  return { items: items.slice(0, limit), count: items.length };
}

function replaced({ text, find, replacement, limit }: Extract<TextOperation, { operation: 'replace' }>): JsonObject {
  const parts = piecesOf(text, find);
  const count = Math.min(limit, parts.length - 1);
  if (text.length + count * replacement.length > MAX_RESULT)
    throw new ToolError('TOOL_ERROR', { message: 'The result would be too large' });
  return {
    result: [parts.slice(0, count + 1).join(replacement), ...parts.slice(count + 1)].join(find),
    replaced: count,
  };
}
