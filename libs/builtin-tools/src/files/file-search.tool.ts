import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { closed, defaulted, flag, integer, maybe, text } from '@toolfleet/contracts/json-schema';
import { boundedMatcher } from '@toolfleet/bounded-schema';
import { boundsOf } from '../bounded/bounded-work.js';
import { defineTool, ok } from '../builtin-tool.js';
import { searchLines, type LineSearch } from './file-matching.js';
import type { Workspaces } from './workspaces.js';
import { compileGlob, READING_TOOL, toPath } from './file-tool.js';

const SCANNED_FILES = 10_000;
/** Most text searched in a call. */
const MAX_SCANNED_BYTES = 20 * 1024 * 1024;
/** Text that a job of the child process searches, and its time limit. */
const BATCH_BYTES = 1024 * 1024;
const BATCH_MS = 3_000;
/** Text without a pattern that is searched in this process, in about a millisecond. */
const MAX_INLINE_BYTES = 64 * 1024;

/** `file_search`: finds lines that contain a text or match a pattern. */
export const fileSearch = defineTool({
  ...READING_TOOL,
  name: 'file_search',
  description:
    'Find lines in the text files of the project workspace. Returns path, line number and line of each match.',
  inputSchema: closed({
    query: text('Text to find; with use_regex a regular expression', { minLength: 1, maxLength: 500 }),
    path: defaulted(toPath('Directory to search in'), '.'),
    pattern: maybe(text('Only files that match this glob, e.g. "*.ts"', { minLength: 1, maxLength: 200 })),
    use_regex: defaulted(flag('query is a regular expression'), false),
    ignore_case: defaulted(flag('Upper and lower case are the same'), false),
    max_results: defaulted(integer('Most matches', { minimum: 1, maximum: 500 }), 100),
  }),
  inputExamples: [{ query: 'TODO', pattern: '*.py' }],
  needs: ['workspaces', 'bounded'],
  async handler(args, run) {
    const { query, path, pattern, max_results: limit, use_regex: useRegex, ignore_case: ignoreCase } = args;
    if (useRegex) checkPattern(query, ignoreCase);
    const inGlob = pattern === undefined ? () => true : compileGlob(pattern);
    const found: JsonObject[] = [];
    let more = false;
    for await (const batch of readBatches(run.workspaces.of(run), path, { inGlob, signal: run.signal })) {
      more ||= batch.isPartial;
      const search: LineSearch = { files: batch.files, query, useRegex, ignoreCase, limit: limit - found.length };
      const job = { kind: 'search_lines', search } as const;
      const isSmall = !useRegex && batch.bytes <= MAX_INLINE_BYTES;
      const bounds = { timeoutMs: BATCH_MS, ...boundsOf(run) };
      const lines = isSmall ? searchLines(search) : await run.bounded.run(job, bounds);
      found.push(...lines.matches);
      more ||= lines.more;
      if (lines.more) break;
    }
    const shown = found.map((one) => `${String(one.path)}:${String(one.line)}: ${String(one.text)}`).join('\n');
    return ok(
      { matches: found, count: found.length, more },
      shown === '' ? `No line contains ${JSON.stringify(query)}` : shown,
    );
  },
});

/** Files to search together, and their size; `isPartial`: others were left out, because the call searches no more text. */
interface FileBatch {
  files: LineSearch['files'];
  bytes: number;
  isPartial: boolean;
}

/** The text files below a path whose names match, up to the limits of a call. */
async function* readBatches(
  workspace: ReturnType<Workspaces['of']>,
  path: string,
  { inGlob, signal }: { inGlob: (names: readonly string[]) => boolean; signal: AbortSignal },
): AsyncGenerator<FileBatch> {
  let scanned = 0;
  let batch: FileBatch = { files: [], bytes: 0, isPartial: false };
  for (const { type, names, size } of await workspace.list(path, true, SCANNED_FILES)) {
    signal.throwIfAborted();
    if (type !== 'file' || !inGlob(names)) continue;
    if (scanned + size > MAX_SCANNED_BYTES) {
      batch.isPartial = true;
      continue;
    }
    scanned += size;
    const name = names.join('/');
    const bytes = await workspace.read(name).catch(() => undefined); // deleted meanwhile or too large: skip it
    if (!bytes || bytes.subarray(0, 8_000).includes(0)) continue; // binary
    batch.files.push({ path: name, text: bytes.toString('utf8') });
    batch.bytes += bytes.length;
    if (batch.bytes < BATCH_BYTES) continue;
    yield batch;
    batch = { files: [], bytes: 0, isPartial: false };
  }
  if (batch.files.length > 0 || batch.isPartial) yield batch;
}

/** Checks a pattern before any file is read. */
function checkPattern(query: string, ignoreCase: boolean): void {
  try {
    boundedMatcher(query, ignoreCase ? 'iu' : 'u');
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: `Invalid query: ${(error as Error).message}` });
  }
}
