/**
 * The child process of BoundedWork. It processes hostile input of unpredictable cost (regular expressions, queries, diffs,
 * schemas). The parent kills it when the time is up, so the code here needs no time limits.
 */
import { search as searchJmespath } from '@jmespath-community/jmespath';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { asDoubles, parseExact } from '@toolfleet/contracts/json-text';
import { serveJobs } from '@toolfleet/resilience/child-program';
import { compileSchema, explainErrors } from '@toolfleet/bounded-schema';
import { query as queryJsonpath } from 'jsonpath-rfc9535';
import { applyPatch, createPatch } from 'rfc6902';
import { searchLines } from '../files/file-matching.js';
import { operateOnText } from '../text/text-operations.js';
import { isAllowedByRobots } from '../web/robots.js';
import type { BoundedJob, RegexMatch } from './bounded-work.js';

/** Maximum size of a result, in UTF-16 units of its JSON. */
const MAX_RESULT = 4 * 1024 * 1024;

/** Maximum number of violations reported for a document. */
const MAX_VIOLATIONS = 50;

const read = (text: string): Json => parseExact(text).value;

serveJobs(load, MAX_RESULT);

/** The function that does a job. The page readers are large and loaded only when needed. */
async function load(job: BoundedJob): Promise<() => unknown> {
  if (job.kind === 'page') {
    const { extractPage } = await import('../web/extract-page.js');
    return () => extractPage(job.html, job.url, job.what);
  }
  if (job.kind === 'pdf') {
    const { extractPdf } = await import('../web/extract-pdf.js');
    return () => extractPdf(new Uint8Array(Buffer.from(job.bytes, 'base64')));
  }
  return () => run(job);
}

function run(job: Exclude<BoundedJob, { kind: 'page' | 'pdf' }>): unknown {
  switch (job.kind) {
    case 'jsonpath':
      return queryJsonpath(read(job.document) as Parameters<typeof queryJsonpath>[0], job.query);
    case 'jmespath':
      return searchJmespath(read(job.document) as Parameters<typeof searchJmespath>[0], job.query);
    case 'patch':
      return applyJsonPatch(job.document, job.patch);
    case 'merge':
      return applyMergePatch(read(job.document), read(job.patch));
    case 'diff':
      return createPatch(read(job.document), read(job.other));
    case 'validate':
      return validate(job.document, job.schema);
    case 'regex_find':
      return findAll(job);
    case 'regex_replace':
      return replaceAll(job);
    case 'regex_split':
      return splitBy(job);
    case 'similarity':
      return similarity(job.text, job.other);
    case 'text':
      return operateOnText(job.work);
    case 'search_lines':
      return searchLines(job.search);
    case 'robots':
      return isAllowedByRobots(job.rules, job.address, job.robot, job.url);
  }
}

/** RFC 6902: applies all operations or none. */
function applyJsonPatch(document: string, patch: string): unknown {
  const holder = { root: read(document) };
  const operations = (read(patch) as { path: string; from?: string }[]).map((operation) => ({
    ...operation,
    path: `/root${operation.path}`,
    from: operation.from === undefined ? undefined : `/root${operation.from}`,
  }));
  const errors = applyPatch(holder, operations as Parameters<typeof applyPatch>[1]);
  const failed = errors.findIndex((error) => error !== null);
  if (failed >= 0) throw new Error(`Operation ${failed + 1}: ${errors[failed]?.message.replaceAll('/root', '')}`);
  return holder.root;
}

/** Violations of a caller's schema. `oneOf` over `$ref` chains may take exponential time. */
function validate(document: string, schema: string): unknown {
  const compiled = compileSchema(read(schema) as JsonObject);
  return explainErrors(compiled.errors(asDoubles(read(document)))).slice(0, MAX_VIOLATIONS);
}

/** RFC 7386. The null prototype makes `__proto__` an ordinary key. */
function applyMergePatch(target: Json, patch: Json): Json {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const base = typeof target === 'object' && target !== null && !Array.isArray(target) ? target : {};
  const result = Object.assign(Object.create(null) as { [key: string]: Json }, base);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = applyMergePatch(Object.hasOwn(base, key) ? (base[key] as Json) : null, value);
  }
  return result;
}

function findAll(job: Extract<BoundedJob, { kind: 'regex_find' }>): { matches: RegexMatch[]; more: boolean } {
  const matches: RegexMatch[] = [];
  for (const found of job.text.matchAll(new RegExp(job.pattern, withGlobal(job.flags)))) {
    if (matches.length >= job.limit) return { matches, more: true };
    const match: RegexMatch = {
      match: found[0],
      index: found.index,
      groups: found.slice(1).map((group) => group ?? null),
    };
    if (found.groups)
      match.named = Object.fromEntries(Object.entries(found.groups).map(([key, value]) => [key, value ?? null]));
    matches.push(match);
  }
  return { matches, more: false };
}

function replaceAll(job: Extract<BoundedJob, { kind: 'regex_replace' }>): { text: string; replaced: number } {
  let replaced = 0;
  const expression = new RegExp(job.pattern, withGlobal(job.flags));
  let grown = 0;
  const text = job.text.replace(expression, (match: string, ...rest: unknown[]) => {
    if (replaced >= job.limit) return match;
    replaced += 1;
    const named = typeof rest.at(-1) === 'object' ? (rest.pop() as Record<string, string | undefined>) : undefined;
    const groups = rest.slice(0, -2) as (string | undefined)[];
    const expanded = expand(job.replacement, match, groups, named);
    grown += expanded.length;
    if (grown > MAX_RESULT) throw new Error(`Result is larger than ${MAX_RESULT} characters: narrow the request`);
    return expanded;
  });
  return { text, replaced };
}

/** `$$`, `$&`, `$1`…`$99`, `$<name>` as in String.prototype.replace. */
function expand(
  template: string,
  match: string,
  groups: readonly (string | undefined)[],
  named: Record<string, string | undefined> | undefined,
): string {
  return template.replace(
    /\$(?:(\$|&)|(\d{1,2})|<([^>]*)>)/g,
    (whole: string, sign?: string, digits?: string, name?: string) => {
      if (sign === '$') return '$';
      if (sign === '&') return match;
      if (digits !== undefined)
        return Number(digits) >= 1 && Number(digits) <= groups.length ? (groups[Number(digits) - 1] ?? '') : whole;
      return named && name !== undefined ? (named[name] ?? '') : whole;
    },
  );
}

function splitBy(job: Extract<BoundedJob, { kind: 'regex_split' }>): string[] {
  return job.text.split(new RegExp(job.pattern, job.flags.replaceAll('g', '')), job.limit);
}

function withGlobal(flags: string): string {
  return flags.includes('g') ? flags : `${flags}g`;
}

/** Edit distance (Levenshtein, by code point, two rows), and overlap of word sets. */
function similarity(text: string, other: string): { distance: number; ratio: number; word_overlap: number } {
  const a = [...text];
  const b = [...other];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(change, (row[j] as number) + 1, (next[j - 1] as number) + 1);
    }
    row = next;
  }
  const distance = row[b.length] as number;
  const longest = Math.max(a.length, b.length);
  const words = (value: string) => new Set(value.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const [left, right] = [words(text), words(other)];
  const shared = [...left].filter((word) => right.has(word)).length;
  const all = left.size + right.size - shared;
  return {
    distance,
    ratio: longest === 0 ? 1 : Math.round((1 - distance / longest) * 10_000) / 10_000,
    word_overlap: all === 0 ? 1 : Math.round((shared / all) * 10_000) / 10_000,
  };
}
