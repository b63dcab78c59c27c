import { closed, defaulted, flag, integer, maybe, text } from '@toolfleet/contracts/json-schema';
import { defineTool, ok } from '../builtin-tool.js';
import { compileGlob, decodeText, PATH, READING_TOOL, toEntryOutput, toPath } from './file-tool.js';

/** Bytes returned as base64 or hex, without lines; a result may have 5 MiB on the wire. */
const MAX_BINARY = 3 * 1024 * 1024;

/** `file_read`: returns the text of a file or a range of its lines. */
export const fileRead = defineTool({
  ...READING_TOOL,
  name: 'file_read',
  description:
    'Read a file of the project workspace. Returns at most 2,000 lines; go on with offset where more is true. ' +
    'Binary files: encoding "base64".',
  inputSchema: closed({
    path: PATH,
    encoding: defaulted(
      text('Text encoding (utf-8, latin1, utf-16le, shift_jis …), base64 or hex', { maxLength: 30 }),
      'utf-8',
    ),
    offset: defaulted(integer('First line, counted from 1', { minimum: 1 }), 1),
    limit: defaulted(integer('Number of lines', { minimum: 1, maximum: 20_000 }), 2_000),
  }),
  inputExamples: [{ path: 'src/main.py' }, { path: 'data/log.txt', offset: 2001 }],
  needs: ['workspaces'],
  async handler({ path, encoding, offset, limit }, run) {
    const bytes = await run.workspaces.of(run).read(path);
    const binary = encoding === 'base64' || encoding === 'hex';
    const decoded = decodeText(binary ? bytes.subarray(0, MAX_BINARY) : bytes, encoding);
    if (binary) {
      const more = bytes.length > MAX_BINARY;
      return ok({ path, content: decoded, encoding, size: bytes.length, more }, decoded);
    }
    const { content, lines } = readLines(decoded, offset, limit);
    const more = offset - 1 + limit < lines;
    return ok({ path, content, encoding, size: bytes.length, lines, offset, more }, content);
  },
});

/** A range of lines, and the number of all lines. Does not split the text: for a file of empty lines, that takes fifty times its size. */
function readLines(whole: string, offset: number, limit: number): { content: string; lines: number } {
  let lines = 1;
  let from = offset === 1 ? 0 : whole.length;
  let to = whole.length;
  for (let at = 0; at < whole.length; at += 1) {
    if (whole.charCodeAt(at) !== 10) continue;
    lines += 1;
    if (lines === offset) from = at + 1;
    if (lines === offset + limit) to = at;
  }
  return { content: whole.slice(from, Math.max(from, to)), lines };
}

const SHOWN = 1_000;
/** The most entries of a workspace. */
const SCANNED = 10_000;

/** `file_list`: lists the entries of a directory. */
export const fileList = defineTool({
  ...READING_TOOL,
  name: 'file_list',
  description:
    'List files and directories of the project workspace, with size and time of change. pattern such as "*.md" or "src/**/*.ts" filters.',
  inputSchema: closed({
    path: defaulted(toPath('Directory inside the workspace; "." is the whole workspace'), '.'),
    pattern: maybe(
      text('Glob; with "/" or "**" it looks into subdirectories, relative to path', { minLength: 1, maxLength: 200 }),
    ),
    recursive: defaulted(flag('Look into subdirectories'), false),
  }),
  inputExamples: [{ path: '.', pattern: '**/*.py' }],
  needs: ['workspaces'],
  async handler({ path, pattern, recursive }, run) {
    const deep = recursive || (pattern !== undefined && pattern.includes('/'));
    const matches = pattern === undefined ? () => true : compileGlob(pattern);
    const depth = path.split('/').filter((name) => name !== '' && name !== '.').length;
    const entries = await run.workspaces.of(run).list(path, deep, SCANNED);
    const found = entries.filter((entry) => matches(entry.names.slice(depth)));
    const shown = found.slice(0, SHOWN).map(toEntryOutput);
    const lines = shown
      .map((entry) => `${String(entry.path)}${entry.type === 'directory' ? '/' : `  ${String(entry.size)}`}`)
      .join('\n');
    return ok(
      { path, entries: shown, count: found.length, more: found.length > SHOWN },
      lines === '' ? 'Nothing found' : lines,
    );
  },
});

/** `file_exists`: tells whether a path exists, with type and size. */
export const fileExists = defineTool({
  ...READING_TOOL,
  name: 'file_exists',
  description: 'Tell whether a file or directory exists in the project workspace, with type and size.',
  inputSchema: closed({ path: PATH }),
  inputExamples: [{ path: 'src/main.py' }],
  needs: ['workspaces'],
  async handler({ path }, run) {
    const entry = await run.workspaces.of(run).stat(path);
    if (!entry) return ok({ exists: false, path }, `${path} does not exist`);
    return ok({ exists: true, ...toEntryOutput(entry) }, `${path} exists (${entry.type})`);
  },
});
