import { defineTool, ok } from '../builtin-tool.js';
import { compileGlob, decodeText, PATH, READING_TOOL, toEntryOutput } from './file-tool.js';

const DEFAULT_LINES = 2_000;
/** Bytes returned as base64 or hex, without lines; a result may have 5 MiB on the wire. */
const MAX_BINARY = 3 * 1024 * 1024;

/** `file_read`: returns the text of a file or a range of its lines. */
export const fileRead = defineTool<
  { path: string; encoding?: string; offset?: number; limit?: number },
  ['workspaces']
>({
  ...READING_TOOL,
  name: 'file_read',
  description:
    'Read a file of the project workspace. Returns at most 2,000 lines; go on with offset where more is true. ' +
    'Binary files: encoding "base64".',
  inputSchema: {
    type: 'object',
    properties: {
      path: PATH,
      encoding: {
        type: 'string',
        default: 'utf-8',
        maxLength: 30,
        description: 'Text encoding (utf-8, latin1, utf-16le, shift_jis …), base64 or hex',
      },
      offset: { type: 'integer', minimum: 1, default: 1, description: 'First line, counted from 1' },
      limit: { type: 'integer', minimum: 1, maximum: 20_000, default: DEFAULT_LINES, description: 'Number of lines' },
    },
    required: ['path'],
    additionalProperties: false,
  },
  inputExamples: [{ path: 'src/main.py' }, { path: 'data/log.txt', offset: 2001 }],
  needs: ['workspaces'],
  async handler({ path, encoding = 'utf-8', offset = 1, limit = DEFAULT_LINES }, run) {
    const bytes = await run.workspaces.of(run).read(path);
    const binary = encoding === 'base64' || encoding === 'hex';
    const text = decodeText(binary ? bytes.subarray(0, MAX_BINARY) : bytes, encoding);
    if (binary) {
      const more = bytes.length > MAX_BINARY;
      return ok({ path, content: text, encoding, size: bytes.length, more }, text);
    }
    const { content, lines } = readLines(text, offset, limit);
    const more = offset - 1 + limit < lines;
    return ok({ path, content, encoding, size: bytes.length, lines, offset, more }, content);
  },
});

/** A range of lines, and the number of all lines. Does not split the text: for a file of empty lines, that takes fifty times its size. */
function readLines(text: string, offset: number, limit: number): { content: string; lines: number } {
  let lines = 1;
  let from = offset === 1 ? 0 : text.length;
  let to = text.length;
  for (let at = 0; at < text.length; at += 1) {
    if (text.charCodeAt(at) !== 10) continue;
    lines += 1;
    if (lines === offset) from = at + 1;
    if (lines === offset + limit) to = at;
  }
  return { content: text.slice(from, Math.max(from, to)), lines };
}

const SHOWN = 1_000;
/** The most entries of a workspace. */
const SCANNED = 10_000;

/** `file_list`: lists the entries of a directory. */
export const fileList = defineTool<{ path?: string; pattern?: string; recursive?: boolean }, ['workspaces']>({
  ...READING_TOOL,
  name: 'file_list',
  description:
    'List files and directories of the project workspace, with size and time of change. pattern such as "*.md" or "src/**/*.ts" filters.',
  inputSchema: {
    type: 'object',
    properties: {
      path: { ...PATH, default: '.', description: 'Directory inside the workspace; "." is the whole workspace' },
      pattern: {
        type: 'string',
        minLength: 1,
        maxLength: 200,
        description: 'Glob; with "/" or "**" it looks into subdirectories, relative to path',
      },
      recursive: { type: 'boolean', default: false, description: 'Look into subdirectories' },
    },
    additionalProperties: false,
  },
  inputExamples: [{ path: '.', pattern: '**/*.py' }],
  needs: ['workspaces'],
  async handler({ path = '.', pattern, recursive = false }, run) {
    const deep = recursive || (pattern !== undefined && pattern.includes('/'));
    const matches = pattern === undefined ? () => true : compileGlob(pattern);
    const depth = path.split('/').filter((name) => name !== '' && name !== '.').length;
    const entries = await run.workspaces.of(run).list(path, deep, SCANNED);
    const found = entries.filter((entry) => matches(entry.names.slice(depth)));
    const shown = found.slice(0, SHOWN).map(toEntryOutput);
    const text = shown
      .map((entry) => `${String(entry.path)}${entry.type === 'directory' ? '/' : `  ${String(entry.size)}`}`)
      .join('\n');
    return ok(
      { path, entries: shown, count: found.length, more: found.length > SHOWN },
      text === '' ? 'Nothing found' : text,
    );
  },
});

/** `file_exists`: tells whether a path exists, with type and size. */
export const fileExists = defineTool<{ path: string }, ['workspaces']>({
  ...READING_TOOL,
  name: 'file_exists',
  description: 'Tell whether a file or directory exists in the project workspace, with type and size.',
  inputSchema: { type: 'object', properties: { path: PATH }, required: ['path'], additionalProperties: false },
  inputExamples: [{ path: 'src/main.py' }],
  needs: ['workspaces'],
  async handler({ path }, run) {
    const entry = await run.workspaces.of(run).stat(path);
    if (!entry) return ok({ exists: false, path }, `${path} does not exist`);
    return ok({ exists: true, ...toEntryOutput(entry) }, `${path} exists (${entry.type})`);
  },
});
