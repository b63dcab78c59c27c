import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { boundedMatcher } from '@toolfleet/schema';
import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { compileGlob } from './file-list.tool.js';
import { FILE_TOOL, PATH } from './file-tool.js';

interface FileSearchArguments {
  query: string;
  path?: string;
  pattern?: string;
  use_regex?: boolean;
  ignore_case?: boolean;
  max_results?: number;
}

const SCANNED_FILES = 10_000;
/** Text looked at in one call; a linear pattern needs some 100 ms for it. */
const MAX_SCANNED_BYTES = 20 * 1024 * 1024;
const MAX_LINE = 400;

/** `file_search`: lines that contain a text. */
export const fileSearch = defineTool<FileSearchArguments, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_search',
  description:
    'Find lines in the text files of the project workspace. Returns path, line number and line of each match.',
  inputSchema: {
    type: 'object',
    properties: {
      query: {
        type: 'string',
        minLength: 1,
        maxLength: 500,
        description: 'Text to find; with use_regex a regular expression',
      },
      path: { ...PATH, default: '.', description: 'Directory to search in' },
      pattern: {
        type: 'string',
        minLength: 1,
        maxLength: 200,
        description: 'Only files that match this glob, e.g. "*.ts"',
      },
      use_regex: { type: 'boolean', default: false, description: 'query is a regular expression' },
      ignore_case: { type: 'boolean', default: false, description: 'Upper and lower case are the same' },
      max_results: { type: 'integer', minimum: 1, maximum: 500, default: 100, description: 'Most matches' },
    },
    required: ['query'],
    additionalProperties: false,
  },
  inputExamples: [{ query: 'TODO', pattern: '*.py' }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler(args, run) {
    const { query, path = '.', pattern, max_results: limit = 100 } = args;
    const matches = lineMatcher(args);
    const inGlob = pattern === undefined ? () => true : compileGlob(pattern);
    const workspace = run.workspaces.of(run.context);
    const found: JsonObject[] = [];
    let scanned = 0;
    let more = false;
    for (const entry of await workspace.list(path, true, SCANNED_FILES)) {
      run.signal.throwIfAborted();
      if (entry.type !== 'file' || !inGlob(entry.names)) continue;
      if (scanned + entry.size > MAX_SCANNED_BYTES) {
        more = true;
        continue;
      }
      scanned += entry.size;
      const name = entry.names.join('/');
      const bytes = await workspace.read(name).catch(() => undefined); // vanished or too large: not a fault of the search
      if (!bytes || bytes.subarray(0, 8_000).includes(0)) continue; // binary
      for (const [index, line] of bytes.toString('utf8').split('\n').entries()) {
        if (!matches(line)) continue;
        if (found.length >= limit) {
          more = true;
          break;
        }
        found.push({ path: name, line: index + 1, text: line.trimEnd().slice(0, MAX_LINE) });
      }
      if (more && found.length >= limit) break;
    }
    const text = found.map((one) => `${String(one.path)}:${String(one.line)}: ${String(one.text)}`).join('\n');
    return ok(
      { matches: found, count: found.length, more },
      text === '' ? `No line contains ${JSON.stringify(query)}` : text,
    );
  },
});

function lineMatcher({
  query,
  use_regex: useRegex,
  ignore_case: ignoreCase,
}: FileSearchArguments): (line: string) => boolean {
  if (!useRegex) {
    const wanted = ignoreCase ? query.toLowerCase() : query;
    return (line) => (ignoreCase ? line.toLowerCase() : line).includes(wanted);
  }
  try {
    const matcher = boundedMatcher(query, ignoreCase ? 'iu' : 'u');
    return (line) => matcher.test(line);
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: `Bad regular expression: ${(error as Error).message}` });
  }
}
